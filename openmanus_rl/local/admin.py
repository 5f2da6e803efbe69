"""Access to a whole database, for operations on all of it: dump, load, swap, reset.

To the embedded one as its superuser, to an external one as the role that owns what was set up.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openmanus_rl.errors import StackError
from openmanus_rl.local import cluster, ports
from openmanus_rl.local.home import Home, read_json
from openmanus_rl.transport.postgres import PostgresConnection, lift_limits, session
from openmanus_rl.transport.postgres_names import resolved_options, resolved_url

DATABASE = "postgres"


@dataclass(frozen=True, slots=True)
class Admin:
    """Superuser access to the server on a port."""

    port: int
    password: str
    folder: Path
    """Where the Postgres programs are."""

    def __repr__(self) -> str:
        return f"Admin(port={self.port})"  # A traceback must not carry secrets.

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{cluster.SUPERUSER}:{self.password}@{ports.HOST}:{self.port}/{database}"

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas that are ours; none stands for all of them."""
        return ()

    @property
    def dump_arguments(self) -> list[str]:
        """What is to be dumped, for `pg_dump`."""
        return [DATABASE]

    def session(self, database: str = DATABASE, *, attempt: str) -> AbstractContextManager[PostgresConnection]:
        """Open a connection in autocommit mode without a statement timeout, for long operations."""
        return _unlimited(self.url(database), attempt)

    @contextmanager
    def running(self, program: str, *arguments: str, attempt: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Run a Postgres program for the duration of the block; raise with the end of its output if it fails."""
        with tempfile.TemporaryFile() as said:  # A pipe that nobody reads would block it.
            process = subprocess.Popen(
                [str(self.folder / program), *arguments],
                stdin=streams.get("stdin", subprocess.DEVNULL),
                stdout=streams.get("stdout", subprocess.DEVNULL),
                stderr=said,
                cwd="/",
                # In the environment, because arguments are shown in the process list.
                env=cluster.postgres_environment() | self._libpq(),
            )
            try:
                with suppress(BrokenPipeError):  # It ended before reading all input: its output says why.
                    yield process
                    for stream in (process.stdin, process.stdout):
                        if stream is not None:
                            stream.close()
            except BaseException:  # Interrupted: do not leave it running.
                process.kill()
                process.wait()
                raise
            if process.wait() != 0:
                said.seek(0)
                words = cluster.last_lines(said.read().decode(errors="replace"))
                raise StackError(f"{attempt}: {program} failed: {words}")

    def _libpq(self) -> dict[str, str]:
        return {
            "PGHOST": ports.HOST,
            "PGPORT": str(self.port),
            "PGUSER": cluster.SUPERUSER,
            "PGPASSWORD": self.password,
            "PGREQUIREAUTH": "scram-sha-256",
            "PGAPPNAME": "openmanus-rl",
            "PGOPTIONS": "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0",
        }


@dataclass(frozen=True, slots=True)
class ExternalAdmin(Admin):
    """Access to an external database as its owner."""

    database_url: str = ""
    address: str = ""
    """The database for programs that see neither the environment nor libpq's files; without the password."""

    def __repr__(self) -> str:
        return f"ExternalAdmin(port={self.port})"  # A traceback must not carry secrets.

    def url(self, database: str = DATABASE) -> str:  # noqa: ARG002
        return self.database_url

    @property
    def schemas(self) -> tuple[str, ...]:
        return ("public", "internal", "auth", "storage", "extensions", "supabase_migrations")

    @property
    def dump_arguments(self) -> list[str]:
        return [
            # Not every server that may restore it was built with the same methods of compression.
            "--no-toast-compression",
            # Whatever the database or the role has for its clients.
            "--encoding=UTF8",
            *(f"--schema={name}" for name in self.schemas),
            f"--dbname={self.address}",
        ]

    def _libpq(self) -> dict[str, str]:
        return {"PGPASSWORD": self.password, "PGAPPNAME": "openmanus-rl"}


def external_admin(database_url: str) -> ExternalAdmin:
    """Return access to an external database."""
    with session(database_url, attempt="connect to the database") as connection:
        password = resolved_options(connection).get("password", "")
        port, address = connection.info.port, resolved_url(connection)
    folder = cluster.installed_binaries().folder
    return ExternalAdmin(port=port, password=password, folder=folder, database_url=database_url, address=address)


def admin_of(home: Home, database_url: str) -> Admin:
    """Return superuser access to the server of a running stack; requires read access to the home's keys."""
    keys = read_json(home.keys) or {}
    # Older installations have a single password, the superuser's.
    password = keys.get("superuser_password") or keys.get("database_password")
    port = urlsplit(database_url).port
    if not isinstance(password, str) or port is None:
        raise StackError(f"{home.keys} holds no password for the database; see `openmanus-rl status`")
    return Admin(port=port, password=password, folder=cluster.installed_binaries().folder)


@contextmanager
def _unlimited(url: str, attempt: str) -> Iterator[PostgresConnection]:
    with session(url, attempt=attempt, autocommit=True) as connection:
        lift_limits(connection)
        yield connection
