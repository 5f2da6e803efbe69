"""The embedded database as its superuser, for what concerns it as a whole: dump, load, swap, empty."""

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
from openmanus_rl.transport.postgres import PostgresConnection, session

DATABASE = "postgres"


@dataclass(frozen=True, slots=True)
class Admin:
    """The right to do anything with the server on a port."""

    port: int
    password: str
    folder: Path
    """Where the Postgres programs are."""

    def __repr__(self) -> str:
        return f"Admin(port={self.port})"  # A traceback must not carry secrets.

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{cluster.SUPERUSER}:{self.password}@{ports.HOST}:{self.port}/{database}"

    def session(self, database: str = DATABASE, *, attempt: str) -> AbstractContextManager[PostgresConnection]:
        """Give a connection that commits by itself; long work must not be cut off by a time limit."""
        return _unlimited(self.url(database), attempt)

    @contextmanager
    def running(self, program: str, *arguments: str, attempt: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Run one of Postgres's programs for the block; raise with its last words if it fails."""
        with tempfile.TemporaryFile() as said:  # A pipe that nobody reads would stop it.
            process = subprocess.Popen(
                [str(self.folder / program), *arguments],
                stdin=streams.get("stdin", subprocess.DEVNULL),
                stdout=streams.get("stdout", subprocess.DEVNULL),
                stderr=said,
                cwd="/",
                # The password is not shown in the process list.
                env=cluster.postgres_environment() | self._libpq(),
            )
            try:
                with suppress(BrokenPipeError):  # It ended before its input did: its own words say why.
                    yield process
                    for stream in (process.stdin, process.stdout):
                        if stream is not None:
                            stream.close()
            except BaseException:  # Interrupted: it must not go on without us.
                process.kill()
                process.wait()
                raise
            if process.wait() != 0:
                said.seek(0)
                words = cluster.last_words(said.read().decode(errors="replace"))
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


def admin_of(home: Home, database_url: str) -> Admin:
    """Return the right to the server of a running stack, for whoever may read the home's keys."""
    keys = read_json(home.keys) or {}
    # Installations from before there were several roles have one password, the superuser's.
    password = keys.get("superuser_password") or keys.get("database_password")
    port = urlsplit(database_url).port
    if not isinstance(password, str) or port is None:
        raise StackError(f"{home.keys} holds no password for the database; see `openmanus-rl status`")
    return Admin(port=port, password=password, folder=cluster.installed_binaries().folder)


@contextmanager
def _unlimited(url: str, attempt: str) -> Iterator[PostgresConnection]:
    with session(url, attempt=attempt, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute("set idle_in_transaction_session_timeout = 0")
        yield connection
