"""What a database or a role lacks is said before anything is written, with the statement that grants it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from openmanus_rl.errors import ForbiddenError, OpenManusError, SchemaMismatch, SettingsError, StackError
from openmanus_rl.local.assets import find_assets, find_deno
from openmanus_rl.local.external.checks import require_usable
from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.external.facts import Facts, read_facts
from openmanus_rl.local.external.serving import find_served
from openmanus_rl.local.external.setup import set_up
from openmanus_rl.transport.postgres_names import with_options

from ...support.postgres_server import Server
from .external import Machine


@pytest.fixture(scope="module")
def server(external_server: Callable[[int], Server]) -> Server:
    return external_server(15)


def migrate(url: str) -> None:
    set_up(url, assets=find_assets(), deno=find_deno())


def statements_of(error: OpenManusError) -> list[str]:
    """Return the statements that an error gives, without what is offered instead of them."""
    return [statement for statement in error.details["statements"] if not statement.startswith("(")]


def schemas(server: Server, database: str) -> set[str]:
    with server.connect(database) as connection:
        connection.execute("set client_encoding = 'UTF8'")
        found = connection.execute("select nspname from pg_namespace where nspname !~ '^pg_'").fetchall()
    return {name for (name,) in found}


def name_of(url: str) -> str:
    return url.rsplit("/", 1)[1]


# The rights of a role -----------------------------------------------------------------------------------------------


LACKING = {
    "createrole": "alter role {role} nocreaterole",
    "create on the database": "alter database {database} owner to postgres",
    "create in public": "alter database {database} owner to postgres; grant create on database {database} to {role}",
    "temporary tables": "alter database {database} owner to postgres;"
    " revoke temporary on database {database} from public; grant create on database {database} to {role};"
    " grant create on schema public to {role}",
}


@pytest.mark.parametrize("lack", LACKING)
def test_a_missing_right_is_named_with_the_statement_that_grants_it(
    new_server: Callable[[], Server], lack: str
) -> None:
    server = new_server()
    url = server.create_ordinary_database()
    with server.connect(name_of(url)) as administrator:
        administrator.execute(LACKING[lack].format(role="lab", database=name_of(url)).encode())

    with pytest.raises(ForbiddenError, match=r'role "lab" lacks rights on .*nothing was changed') as refused:
        migrate(url)
    assert schemas(server, name_of(url)) == {"public", "information_schema"}
    for statement in statements_of(refused.value):
        assert statement in str(refused.value)
        with server.connect(name_of(url)) as administrator:
            administrator.execute(statement.encode())

    migrate(url)
    assert find_served(ExternalDatabase(url), find_assets()).route.role.startswith("openmanus_gateway_")


def test_without_createrole_an_administrator_makes_the_roles_and_the_gateway_logs_in_as_the_user(
    new_server: Callable[[], Server],
) -> None:
    server = new_server()
    url = server.create_ordinary_database(attributes="nocreaterole")
    with pytest.raises(ForbiddenError) as refused:
        migrate(url)
    offered = next(statement for statement in refused.value.details["statements"] if statement.startswith("("))
    with server.connect(name_of(url)) as administrator:
        administrator.execute(re.sub(r"^\(or[^:]*: |\)$", "", offered).encode())

    migrate(url)
    route = find_served(ExternalDatabase(url), find_assets()).route
    assert route.role == "lab"
    assert "logs in as" in (route.note or "")


def test_a_role_that_did_not_set_the_database_up_is_told_what_to_grant(server: Server) -> None:
    url = server.create_ordinary_database()
    migrate(url)
    server.create_ordinary_database(role="guest")
    as_guest = with_options(url, user="guest")

    for attempt in (lambda: migrate(as_guest), lambda: find_served(ExternalDatabase(as_guest), find_assets())):
        with pytest.raises(ForbiddenError, match='which role "lab" has set up') as refused:
            attempt()
        assert statements_of(refused.value) == ['grant "lab" to "guest";']
    with server.connect() as administrator:
        administrator.execute(statements_of(refused.value)[0].encode())
    migrate(as_guest)
    served = find_served(ExternalDatabase(as_guest), find_assets())
    assert served.keys == find_served(ExternalDatabase(url), find_assets()).keys
    with psycopg.connect(url) as owner:
        others = owner.execute(
            "select count(*) from pg_class where relnamespace = 'public'::regnamespace and relowner <> 'lab'::regrole"
        ).fetchone()
    assert others == (0,)


def test_roles_that_another_role_made_are_to_be_granted(new_server: Callable[..., Server]) -> None:
    server = new_server(17)
    migrate(server.create_ordinary_database(role="first"))
    url = server.create_ordinary_database(role="second")

    with pytest.raises(ForbiddenError) as refused:
        migrate(url)
    (statement,) = statements_of(refused.value)
    with server.connect() as administrator:
        administrator.execute(statement.encode())
    migrate(url)


# What a database is -------------------------------------------------------------------------------------------------


def test_a_database_with_tables_of_others_is_left_alone(server: Server) -> None:
    url = server.create_ordinary_database()
    with psycopg.connect(url, autocommit=True) as theirs:
        theirs.execute("create table public.tasks (id int); insert into public.tasks values (7)")

    with pytest.raises(SchemaMismatch, match=r"public\.tasks.*nothing was changed"):
        migrate(url)
    assert schemas(server, name_of(url)) == {"public", "information_schema"}
    with psycopg.connect(url) as theirs:
        assert theirs.execute("select id from public.tasks").fetchall() == [(7,)]


def test_a_database_that_is_not_set_up_says_how(server: Server) -> None:
    url = server.create_ordinary_database()
    with pytest.raises(SchemaMismatch, match=r"is not set up for openmanus-rl; .*up --migrate"):
        find_served(ExternalDatabase(url), find_assets())


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(server: Server, encoding: str) -> None:
    server.create_ordinary_database()
    name = f"lab_{encoding.lower()}"
    with server.connect() as administrator:
        administrator.execute(
            f"create database {name} owner lab encoding '{encoding}' template template0 locale 'C'".encode()
        )
    url = with_options(server.url(name), user="lab")
    with pytest.raises(StackError, match=f"has the encoding {encoding}.*create database .* encoding 'UTF8'"):
        migrate(url)
    assert schemas(server, name) == {"public", "information_schema"}


def test_a_read_only_server_is_refused(server: Server) -> None:
    url = server.create_ordinary_database()
    with server.connect() as administrator:
        administrator.execute(f"alter database {name_of(url)} set default_transaction_read_only = on".encode())
    with pytest.raises(StackError, match="is read-only: a replica"):
        migrate(url)


def test_a_project_of_supabase_is_not_taken_for_an_ordinary_database(new_server: Callable[[], Server]) -> None:
    server = new_server()
    url = server.create_ordinary_database()
    with server.connect() as administrator:
        administrator.execute("create role supabase_auth_admin nologin")
    with pytest.raises(SettingsError, match="SUPABASE_URL is missing"):
        find_served(ExternalDatabase(url), find_assets())


def test_a_server_that_is_too_old_is_refused(server: Server) -> None:
    with psycopg.connect(server.create_ordinary_database()) as connection:
        facts = read_facts(connection)
    values = {name: getattr(facts, name) for name in Facts.__slots__} | {"version_number": 140012, "version": "14.12"}
    with pytest.raises(StackError, match=r"is Postgres 14\.12, and openmanus-rl needs 15 or newer"):
        require_usable(Facts(**values), "postgresql://db/lab")


def test_a_wrong_password_and_a_server_that_is_away_are_told_apart(server: Server) -> None:
    url = server.create_ordinary_database()
    with pytest.raises(OpenManusError, match="password authentication failed") as wrong:
        migrate(with_options(url, password="opensesame"))
    assert "opensesame" not in str(wrong.value)
    with pytest.raises(OpenManusError, match="refused"):
        migrate(with_options(url, port="1"))


# Ways to it ---------------------------------------------------------------------------------------------------------


@contextmanager
def pgbouncer(server: Server, role: str, mode: str) -> Iterator[int]:
    """Run Debian's PgBouncer before a server."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed; scripts/test installs Debian's as root")
    with server.connect() as connection:
        secrets = connection.execute("select rolname, rolpassword from pg_authid where rolname = %s", [role]).fetchall()
    folder = server.folder / f"pgbouncer-{mode}"
    folder.mkdir()
    port = int(server.free_port())
    (folder / "users").write_text("".join(f'"{name}" "{secret}"\n' for name, secret in secrets))
    (folder / "ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\n"
        f"auth_type=scram-sha-256\nauth_file={folder}/users\npool_mode={mode}\nunix_socket_dir=\n"
        f"pidfile={folder}/pid\nlogfile={folder}/log\n"
    )
    server.own(folder)
    process = subprocess.Popen([program, "-q", str(folder / "ini")], cwd="/", **server.popen_options)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def test_a_pooler_that_keeps_no_sessions_is_refused(server: Server) -> None:
    url = server.create_ordinary_database()
    migrate(url)
    with pgbouncer(server, "lab", "transaction") as port:
        pooled = with_options(url, port=str(port))
        for attempt in (lambda: migrate(pooled), lambda: find_served(ExternalDatabase(pooled), find_assets())):
            with pytest.raises(SettingsError, match="is a connection pooler in transaction mode"):
                attempt()


def test_a_pooler_that_keeps_sessions_is_served_as_the_user_that_it_knows(server: Server) -> None:
    url = server.create_ordinary_database()
    migrate(url)
    with pgbouncer(server, "lab", "session") as port:
        assert find_served(ExternalDatabase(with_options(url, port=str(port))), find_assets()).route.role == "lab"


@pytest.fixture
def new_server(postgres_programs: Callable[[int], Path]) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server on which no roles were made yet."""
    started: list[Server] = []

    def start(major: int = 15) -> Server:
        server = Server(postgres_programs(major))
        server.__enter__()
        started.append(server)
        return server

    yield start
    for server in started:
        server.__exit__(None, None, None)


class TlsServer(Server):
    """A server that takes nobody in without TLS, with a certificate for `localhost`."""

    def prepare(self) -> None:
        for command in (
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt",
            "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr",
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
        ):
            (self.folder / "names").write_text("subjectAltName=DNS:localhost\n")
            subprocess.run(["openssl", *command.split()], cwd=self.folder, check=True, capture_output=True)
        for name in ("server.crt", "server.key"):
            shutil.move(self.folder / name, self.folder / "data" / name)
        (self.folder / "data" / "server.key").chmod(0o600)
        (self.folder / "data" / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
        self.own(self.folder / "data")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_tls_is_verified_as_the_url_says_by_the_gateway_too(
    postgres_programs: Callable[[int], Path], homes: Path
) -> None:
    with TlsServer(postgres_programs(15), options="-c ssl=on") as server:
        url = with_options(server.create_ordinary_database(), host="localhost")
        authority = str(server.folder / "ca.crt")
        with pytest.raises(OpenManusError, match="no encryption"):
            migrate(with_options(url, sslmode="disable"))
        with pytest.raises(OpenManusError, match="certificate"):
            migrate(with_options(url, sslmode="verify-full", sslrootcert=authority, host="127.0.0.1"))
        verified = with_options(url, sslmode="verify-full", sslrootcert=authority)
        migrate(verified)
        modes = {}
        for given in (with_options(url, sslmode="require"), verified):
            machine = Machine(homes / f"tls-{len(modes)}", given)
            machine.up()
            try:
                with server.connect() as administrator:
                    encrypted = administrator.execute(
                        "select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid)"
                        " where a.application_name = 'openmanus-rl gateway'"
                    ).fetchone()
                modes[find_served(ExternalDatabase(given), find_assets()).route.reach.tls] = encrypted
            finally:
                machine.down()
        assert modes == {"require": (True,), "verify-full": (True,)}


def test_a_unix_socket_is_a_way_of_its_own(server: Server) -> None:
    url = with_options(server.create_ordinary_database(), host=str(server.folder))
    migrate(url)
    reach = find_served(ExternalDatabase(url), find_assets()).route.reach
    assert reach.socket_path == f"{server.folder}/.s.PGSQL.{server.port}"
    assert os.path.exists(reach.socket_path)
    assert reach.permission(server.port) == f"unix:{reach.socket_path}"
