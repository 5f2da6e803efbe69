"""`openmanus-rl migrate` and the Supabase CLI share one history: either can follow the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from openmanus_rl.errors import ConnectionFailed, OpenManusError, SchemaMismatch
from openmanus_rl.local import cluster, gateway_process, migrations, ports
from openmanus_rl.local.account import account_for, allow_traversal, change_owner
from openmanus_rl.local.assets import find_assets, find_deno
from openmanus_rl.local.gateway_process import GatewayConfig
from openmanus_rl.local.home import Home
from openmanus_rl.local.keys import new_keys
from openmanus_rl.local.postgres import PostgresProcess

HISTORY = "select version, name, statements from supabase_migrations.schema_migrations order by version"


def make_system_schema(database_url: str, folder: Path) -> None:
    """Prepare a database as every Supabase project is prepared before its first migration."""
    home = Home(folder)
    home.prepare()
    config = GatewayConfig(
        home=home,
        assets=find_assets(),
        deno=find_deno(),
        keys=new_keys(),
        database_url=database_url,
        postgres_port=urlsplit(database_url).port or 5432,
        version="test",
    )
    gateway_process.initialise(config)


@pytest.fixture
def new_database(running: Any, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that makes databases on the running stack's server and returns their URLs."""
    server = running.superuser_url()
    made: list[str] = []

    def make(*, like_supabase: bool = False) -> str:
        name = f"scratch_{os.urandom(4).hex()}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"create database {name}")
        made.append(name)
        url = server.rsplit("/", 1)[0] + f"/{name}"
        if like_supabase:
            make_system_schema(url, tmp_path / name)
        return url

    yield make
    with psycopg.connect(server, autocommit=True) as connection:
        for name in made:
            connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small migrations."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "20240101000000_one.sql").write_text(
        "-- a comment; with a semicolon\ncreate table public.one (id int);\n"
    )
    (folder / "20240101000001_two.sql").write_text("insert into public.one values (1);\nselect '%s;%%' as x;")
    return folder


def history(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(HISTORY).fetchall()


def run_push(supabase_cli: Callable[..., Any], url: str, workdir: Path) -> str:
    done = supabase_cli("db", "push", "--yes", f"--remote={url}", "--workdir", str(workdir))
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout + done.stderr)


def workdir_with(tmp_path: Path, *, first: int | None = None) -> Path:
    """Lay out a project for the Supabase CLI, with all migrations or the first few."""
    project = tmp_path / f"project-{first}"
    source = find_assets().migrations
    (project / "supabase" / "migrations").mkdir(parents=True)
    shutil.copy(source.parent / "config.toml", project / "supabase")
    for path in sorted(source.glob("*.sql"))[:first]:
        shutil.copy(path, project / "supabase" / "migrations")
    return project


def test_the_supabase_cli_can_follow_and_be_followed(
    running: Any, new_database: Callable[..., str], supabase_cli: Callable[..., Any], tmp_path: Path
) -> None:
    by_cli, by_us = new_database(like_supabase=True), new_database(like_supabase=True)
    whole, part = workdir_with(tmp_path), workdir_with(tmp_path, first=3)

    # The CLI begins, we finish.
    run_push(supabase_cli, by_cli, part)
    assert len(history(by_cli)) == 3
    ours = running.run("migrate", "--json", "--database-url", by_cli)
    assert ours.returncode == 0, ours.stdout + ours.stderr
    names = sorted(path.name for path in find_assets().migrations.glob("*.sql"))
    assert json.loads(ours.stdout)["applied"] == names[3:]
    assert "up to date" in run_push(supabase_cli, by_cli, whole)

    # We begin, the CLI finishes.
    migrations.migrate(by_us, folder=part / "supabase" / "migrations")
    run_push(supabase_cli, by_us, whole)
    again = running.run("migrate", "--json", "--database-url", by_us)
    assert json.loads(again.stdout)["applied"] == []

    # Both wrote the same history, statement for statement.
    assert history(by_cli) == history(by_us)
    assert [row[0] for row in history(by_us)] == [name.split("_")[0] for name in names]


def test_a_dry_run_changes_nothing(new_database: Callable[..., str], running: Any) -> None:
    url = new_database()
    done = running.run("migrate", "--dry-run", "--database-url", url)
    assert done.returncode == 0
    assert "would apply 20241109000000_initial_schema.sql" in done.stdout
    with psycopg.connect(url) as connection:
        assert connection.execute("select to_regnamespace('supabase_migrations')").fetchone() == (None,)


def test_a_failing_migration_names_file_statement_and_reason_and_leaves_nothing(
    new_database: Callable[..., str], folder: Path
) -> None:
    bad = folder / "20240101000002_bad.sql"
    bad.write_text("create table public.half (id int);\nselect 1 / 0 as oops;")
    url = new_database()
    with pytest.raises(SchemaMismatch) as caught:
        migrations.migrate(url, folder=folder)
    for part in ("20240101000002_bad.sql", "division by zero", "select 1 / 0 as oops"):
        assert part in str(caught.value)
    assert [row[0] for row in history(url)] == ["20240101000000", "20240101000001"]
    with psycopg.connect(url) as connection:
        assert connection.execute("select to_regclass('public.half')").fetchone() == (None,)

    bad.write_text("create table public.half (id int);")
    assert [m.name for m in migrations.migrate(url, folder=folder).pending] == ["bad"]


def test_two_migrators_at_once_apply_each_migration_once(new_database: Callable[..., str], folder: Path) -> None:
    (folder / "20240101000002_slow.sql").write_text("select pg_sleep(0.5); insert into public.one values (2);")
    url = new_database()
    applied: list[int] = []
    failures: list[OpenManusError] = []

    def run() -> None:
        try:
            applied.append(len(migrations.migrate(url, folder=folder).pending))
        except OpenManusError as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(applied) == [0, 0, 0, 3]
    with psycopg.connect(url) as connection:
        assert connection.execute("select id from public.one order by id").fetchall() == [(1,), (2,)]


def test_a_database_of_a_newer_version_is_refused(new_database: Callable[..., str], folder: Path) -> None:
    url = new_database()
    migrations.migrate(url, folder=folder)
    (folder / "20240101000001_two.sql").unlink()
    with pytest.raises(SchemaMismatch, match=r"20240101000001.*pip install --upgrade"):
        migrations.migrate(url, folder=folder)


# The migrations of an earlier development version. The first two have the versions and names of today's.
EARLIER = [
    "initial_schema storage_buckets environments_and_tasks training_steps model_checkpoints evaluations rollouts turns",
    "rewards_and_validations media jobs metrics ingest run_metrics chats rewinds evaluation_figures metric_chunk_merge",
    "orphans activity run_pages rollout_pages overrides task_pages rollout_differences launches concurrent_writers",
]
EARLIER_SQL = "create table public.training_runs (id uuid primary key, name text)"


def make_earlier_history(url: str) -> None:
    """Let a database look as an earlier development version left it, with a run in it."""
    with psycopg.connect(url) as connection:
        connection.execute("drop schema if exists public, internal, supabase_migrations cascade")
        connection.execute("create schema public")
        connection.execute("create schema supabase_migrations")
        connection.execute(
            "create table supabase_migrations.schema_migrations"
            " (version text not null primary key, statements text[], name text)"
        )
        for number, name in enumerate(" ".join(EARLIER).split()):
            connection.execute(
                "insert into supabase_migrations.schema_migrations (version, name, statements) values (%s, %s, %s)",
                [str(20241109000000 + number), name, [EARLIER_SQL]],
            )
        connection.execute(EARLIER_SQL.encode())
        connection.execute("insert into public.training_runs values (gen_random_uuid(), 'mine')")


def everything(url: str) -> dict[str, Any]:
    """Return what the database holds: its objects, the rows of each table, and the roles of its server."""
    with psycopg.connect(url) as connection:
        tables = """select c.oid::regclass::text, relowner::regrole::text, relacl::text from pg_class c
                    where relnamespace::regnamespace::text !~ '^(pg_|information_schema)' order by 1"""
        found: dict[str, Any] = {"objects": connection.execute(tables).fetchall()}
        for name in ("public.training_runs", "supabase_migrations.schema_migrations"):
            found[name] = connection.execute(f"select t::text from {name} t order by 1".encode()).fetchall()
        found["schemas"] = connection.execute("select nspname, nspacl::text from pg_namespace order by 1").fetchall()
        # Only the superuser may see the passwords.
        roles = "select rolname, rolpassword, rolsuper, rolcanlogin, rolcreaterole from pg_authid order by 1"
        found["roles"] = connection.execute(roles).fetchall()
    return found


def assert_told_what_to_do(message: str) -> None:
    message = " ".join(message.replace("│", " ").split())
    for part in (
        "earlier development version",
        "nothing was changed",
        "20241109000002",
        "openmanus-rl backup FILE",
        "OPENMANUS_RL_HOME",
        "DATABASE_URL",
    ):
        assert part in message, message


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_database_of_an_earlier_development_version_is_refused_and_left_as_it_was(
    new_database: Callable[..., str], running: Any, options: list[str]
) -> None:
    url = new_database()
    make_earlier_history(url)
    before = everything(url)
    done = running.run("migrate", *options, "--database-url", url)
    assert done.returncode == 1
    assert_told_what_to_do(done.stderr)
    assert everything(url) == before


@pytest.mark.parametrize("keys", ["present", "lost"])
def test_a_home_of_an_earlier_development_version_is_refused_and_left_as_it_was(new_home: Any, keys: str) -> None:
    home = new_home()
    home.up()
    superuser = home.superuser_url()
    make_earlier_history(superuser)
    before = everything(superuser)
    home.run("down")
    kept = (home.root / "keys.json").read_bytes()
    if keys == "lost":
        (home.root / "keys.json").unlink()
    # As if the gateway were another than the one that was last started, so that its schema would be written anew.
    state = json.loads((home.root / "state.json").read_text())
    (home.root / "state.json").write_text(json.dumps(state | {"system_schema_of": "another"}))

    done = home.run("up", "--detach", "--port", "0")

    assert done.returncode == 1
    assert_told_what_to_do(done.stderr)
    assert str(home.root) in " ".join(done.stderr.split())
    assert home.processes() == []
    assert (home.root / "keys.json").exists() == (keys == "present")
    (home.root / "keys.json").write_bytes(kept)
    with server_of(home) as url:
        assert everything(url) == before


@contextmanager
def server_of(home: Any) -> Iterator[str]:
    """Run the home's Postgres alone."""
    folder = Home(home.root)
    account = account_for(folder.postgres)
    server = PostgresProcess(
        home=folder, binaries=cluster.installed_binaries(), account=account, port=ports.free_port()
    )
    server.start()
    password = json.loads(folder.keys.read_text())["superuser_password"]
    yield f"postgresql://postgres:{password}@{ports.HOST}:{server.port}/postgres"
    server.stop()


def test_a_migration_that_was_changed_after_it_was_applied_is_refused(
    new_database: Callable[..., str], folder: Path
) -> None:
    url = new_database()
    migrations.migrate(url, folder=folder)
    first = folder / "20240101000000_one.sql"
    first.write_text("-- Another comment; nothing else.\n" + first.read_text().replace(" (id int)", "\n  (id int)"))
    assert migrations.migrate(url, folder=folder).pending == [], "comments and white space do not count"
    first.write_text(first.read_text().replace("id int", "id bigint"))
    with pytest.raises(SchemaMismatch, match=r"earlier development version.*20240101000000_one"):
        migrations.migrate(url, folder=folder)


def test_a_database_of_something_else_is_refused(new_database: Callable[..., str], folder: Path) -> None:
    url = new_database()
    migrations.migrate(url, folder=folder)
    with pytest.raises(SchemaMismatch, match=r"migrations of another project .*20240101000000_one"):
        migrations.migrate(url, folder=find_assets().migrations)


def test_listeners_are_told_to_reload_the_schema(new_database: Callable[..., str], folder: Path) -> None:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("listen pgrst")
        migrations.migrate(url, folder=folder)
        notices = list(listener.notifies(timeout=10, stop_after=1))
    assert [notice.payload for notice in notices] == ["reload schema"]


def test_an_unreachable_database_is_named_without_its_password(running: Any) -> None:
    done = running.run("migrate", "--database-url", "postgresql://postgres:hunter22@127.0.0.1:1/postgres")
    assert done.returncode == 1
    assert "127.0.0.1" in done.stderr
    assert "hunter22" not in done.stderr + done.stdout


def test_without_a_database_the_way_out_is_named(fresh_home: Any) -> None:
    done = fresh_home.run("migrate")
    assert done.returncode == 1
    assert "DATABASE_URL" in done.stderr
    assert "openmanus-rl up" in done.stderr


@pytest.fixture(params=[15, 17])
def older_postgres(
    request: pytest.FixtureRequest, homes: Path, postgres_programs: Callable[[int], Path]
) -> Iterator[str]:
    """Debian's Postgres 15, the oldest that the migrations support, and 17, which hosted projects run."""
    major: int = request.param
    binaries = cluster.Binaries(folder=postgres_programs(major), major=major)
    home = Home(homes / f"postgres-{major}")
    home.prepare()
    account = account_for(home.postgres)
    home.postgres.mkdir(mode=0o700)
    change_owner(home.postgres, account)
    allow_traversal(home.postgres, account)
    allow_traversal(binaries.folder / "postgres", account)
    password = home.root / "password"
    password.write_text("its-password")
    os.chown(password, account.uid, account.gid)
    command = [binaries["initdb"], "-D", str(home.postgres), "-U", "postgres", "--no-sync"]
    command += ["--auth=scram-sha-256", f"--pwfile={password}"]
    subprocess.run(command, check=True, capture_output=True, cwd="/", **account.popen_options)
    server = PostgresProcess(home=home, binaries=binaries, account=account, port=ports.free_port())
    server.start()
    yield f"postgresql://postgres:its-password@{ports.HOST}:{server.port}/postgres"
    server.stop()


def test_the_migrations_apply_on_older_versions_of_postgres(older_postgres: str, tmp_path: Path) -> None:
    make_system_schema(older_postgres, tmp_path / "home")
    plan = migrations.migrate(older_postgres, folder=find_assets().migrations)
    assert len(history(older_postgres)) == len(plan.pending) > 0


def test_a_broken_connection_is_a_transient_error(new_database: Callable[..., str], folder: Path) -> None:
    (folder / "20240101000002_cut.sql").write_text("select pg_terminate_backend(pg_backend_pid());")
    url = new_database()
    with pytest.raises(ConnectionFailed):
        migrations.migrate(url, folder=folder)
    assert len(history(url)) == 2
