"""Postgres servers of the tests' own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from openmanus_rl.local.account import account_for, allow_traversal, change_owner

# A test's data need not survive the machine.
_OPTIONS = "-c fsync=off -c full_page_writes=off -c max_connections=60 -c timezone=UTC -c deadlock_timeout=200ms"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """A Postgres server in a folder of its own, on a loopback port."""

    binaries: Path
    port: int = field(default_factory=_free_port)
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    options: str = ""

    def __enter__(self) -> Self:
        # Not pytest's own folder: Postgres runs as another user, who may not enter that.
        self.folder = Path(tempfile.mkdtemp(prefix="openmanus-rl-postgres-"))
        self._account = account_for(self.folder / "data")
        password_file = self.folder / "password"
        password_file.write_text(self.password)
        change_owner(self.folder, self._account)
        allow_traversal(self.binaries / "postgres", self._account)
        self._run(
            "initdb", "--auth=scram-sha-256", "--username=postgres", f"--pwfile={password_file}", "--encoding=UTF8"
        )
        self.prepare()
        self.start()
        return self

    def prepare(self) -> None:
        """Change the server's files before its first start."""

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} {_OPTIONS} "
            f"{self.options}"
        )
        self._run("pg_ctl", "start", "--wait", f"--log={self.folder / 'log'}", f"--options={options}")

    def stop(self) -> None:
        """Stop the server at once, as a crash would."""
        self._run("pg_ctl", "stop", "--mode=immediate")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def own(self, path: Path) -> None:
        """Give files to the account that the server runs under."""
        change_owner(path, self._account)

    @property
    def popen_options(self) -> dict[str, Any]:
        """How to run another program under the account of the server."""
        return dict(self._account.popen_options)

    @staticmethod
    def free_port() -> int:
        """Return a loopback port that is free now."""
        return _free_port()

    def url(self, database: str) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database), autocommit=True)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create a database, or replace it by a new one; return its URL."""
        with self.connect() as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            connection.execute(
                sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
            )
        return self.url(name)

    def create_ordinary_database(self, *, role: str = "lab", attributes: str = "createrole", name: str = "") -> str:
        """Create a database that belongs to a role without a superuser's rights; return the URL for that role."""
        name = name or f"{role}_{secrets.token_hex(4)}"
        with self.connect() as connection:
            if connection.execute("select from pg_roles where rolname = %s", [role]).fetchone() is None:
                connection.execute(f"create role {role} login {attributes} password '{self.password}'")
            connection.execute(f"create database {name} owner {role}")
        return f"postgresql://{role}:{self.password}@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str) -> None:
        # To a file: a server inherits its starter's output and would keep a pipe open for ever.
        with (self.folder / "output").open("ab") as output:
            done = subprocess.run(
                [self.binaries / program, f"--pgdata={self.folder / 'data'}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                check=False,
                **self._account.popen_options,  # type: ignore[call-overload]
            )
        assert done.returncode == 0, (self.folder / "output").read_text()
