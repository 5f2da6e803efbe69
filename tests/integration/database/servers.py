"""Postgres servers of the tests' own, with databases such as a Supabase project has before its first migration."""

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
from openmanus_rl.local.assets import find_deno

ROOT = Path(__file__).resolve().parents[3]
MIGRATIONS = sorted((ROOT / "supabase" / "migrations").glob("*.sql"))

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
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' {_OPTIONS}"
        self._run("pg_ctl", "start", "--wait", f"--log={self.folder / 'log'}", f"--options={options}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate")
        shutil.rmtree(self.folder)

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


def make_system_schema(database_url: str) -> None:
    """Give a database the roles and schemas of a Supabase project, as the gateway does before the first migration."""
    gateway = ROOT / "supabase" / "local" / "gateway.ts"
    settings = {
        "DATABASE_URL": database_url,
        "SUPABASE_PUBLISHABLE_KEY": f"sb_publishable_{secrets.token_hex(12)}",
        "SUPABASE_SECRET_KEY": f"sb_secret_{secrets.token_hex(12)}",
        "SUPABASE_JWT_SECRET": secrets.token_hex(32),
        "STORAGE_DIR": "/nonexistent",
    }
    subprocess.run(
        [find_deno(), "run", "--allow-all", f"--config={gateway.with_name('deno.json')}", gateway, "init"],
        env={**os.environ, **settings},
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
    )


def apply_migrations(database_url: str) -> None:
    """Apply every migration file, each as one transaction."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for path in MIGRATIONS:
            with connection.transaction():
                # No parameters: then a percent sign in the file is a percent sign.
                connection.execute(path.read_bytes())
