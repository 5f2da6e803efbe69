"""The migrations apply, by whoever applies them, on every Postgres from Debian's to the embedded one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import test_counts, test_hygiene, test_ingest, test_metrics, test_status
from .servers import MIGRATIONS, ROOT, Server, apply_migrations, make_system_schema
from .writing import Connection, Database

DEBIAN_BINARIES = Path("/usr/lib/postgresql/15/bin")


def test_versions_are_14_digits_and_unique() -> None:
    names = [path.name for path in (ROOT / "supabase" / "migrations").iterdir()]
    assert len(names) >= 14
    versions = [match[1] for name in names if (match := re.fullmatch(r"(\d{14})_[a-z_]+\.sql", name))]
    assert len(versions) == len(names), "every file is <14 digits>_<subject>.sql"
    assert len(set(versions)) == len(versions)
    assert {"20241109000000_initial_schema.sql", "20241109000001_storage_buckets.sql"} <= set(names)


@pytest.fixture(scope="module")
def debian_server() -> Iterator[Server]:
    if not (DEBIAN_BINARIES / "postgres").exists():
        pytest.skip("Postgres 15 is not installed; `apt-get install postgresql-15`, as scripts/test does")
    with Server(DEBIAN_BINARIES) as server:
        make_system_schema(server.create_database("system"))
        apply_migrations(server.create_database("migrated", template="system"))
        yield server


@pytest.fixture
def debian_db(debian_server: Server) -> Iterator[Connection]:
    with Database(debian_server.url("migrated")).connect() as connection:
        yield connection


def test_debians_postgres_is_15_and_the_embedded_one_is_18(debian_db: Connection, db: Connection) -> None:
    assert (debian_db.info.server_version // 10000, db.info.server_version // 10000) == (15, 18)


@pytest.mark.parametrize(
    "claim",
    [
        test_ingest.test_every_kind_round_trips,
        test_ingest.test_a_batch_delivered_twice_changes_nothing,
        test_ingest.test_one_batch_may_create_and_complete_a_rollout,
        test_ingest.test_a_turn_brings_its_tool_calls_observations_generations_and_rewards,
        lambda db: test_counts.test_counts_equal_a_recount_whatever_happens(db, 1),
        lambda db: test_status.test_every_transition_is_made_and_recorded_or_refused(db, "training_runs"),
        test_status.test_a_run_whose_heartbeat_stopped_is_shown_as_stalled_until_it_beats_again,
        test_metrics.test_a_long_series_is_thinned_and_keeps_its_extremes,
    ],
    ids=lambda claim: claim.__name__,
)
def test_what_holds_on_the_embedded_postgres_holds_on_debians(
    debian_db: Connection, claim: Callable[[Connection], None]
) -> None:
    claim(debian_db)


CATALOG = """
select 'column' as kind, table_name || '.' || column_name || ' ' || data_type || ' '
  || coalesce(column_default, '') || is_nullable as what
from information_schema.columns where table_schema = 'public'
union all
select 'constraint', conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
where connamespace = 'public'::regnamespace and contype <> 'n'
union all
select 'policy', tablename || ' ' || policyname || ' ' || roles::text || cmd || coalesce(qual, '')
  || coalesce(with_check, '') from pg_policies
union all
select 'function', p.oid::regprocedure || ' ' || md5(p.prosrc)
  from pg_proc p where pronamespace in ('public'::regnamespace, 'internal'::regnamespace)
union all
select 'trigger', tgrelid::regclass || ' ' || tgname from pg_trigger where not tgisinternal
order by 1, 2
"""


def test_both_end_in_the_same_schema(debian_db: Connection, db: Connection) -> None:
    on_debian, embedded = (session.execute(CATALOG).fetchall() for session in (debian_db, db))
    assert len(embedded) > 500
    assert on_debian == embedded


def test_the_supabase_cli_applies_them_to_debians_postgres_too(
    debian_server: Server, supabase_cli: Callable[..., Any], tmp_path: Path
) -> None:
    url = debian_server.create_database("pushed", template="system")
    shutil.copytree(ROOT / "supabase" / "migrations", tmp_path / "supabase" / "migrations")
    shutil.copy(ROOT / "supabase" / "config.toml", tmp_path / "supabase")
    done = supabase_cli("db", "push", "--yes", f"--remote={url}", "--workdir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with Database(url).connect() as pushed, Database(debian_server.url("migrated")).connect() as applied:
        history = pushed.execute("select version from supabase_migrations.schema_migrations order by 1").fetchall()
        assert [found["version"] for found in history] == [path.name.split("_")[0] for path in MIGRATIONS]
        assert pushed.execute(CATALOG).fetchall() == applied.execute(CATALOG).fetchall()


def test_a_project_that_grants_new_tables_to_everybody_ends_with_the_same_grants(server: Server) -> None:
    """As hosted projects did for years: whatever is granted by default is taken back."""
    url = server.create_database("generous", template="system")
    with Database(url).connect() as db:
        for objects in ("tables", "functions", "sequences"):
            db.execute(
                f"alter default privileges in schema public grant all on {objects} to anon, authenticated, service_role"
            )
        apply_migrations(url)
        test_hygiene.test_every_table_grants_what_is_meant_and_no_more(db)
        test_hygiene.test_no_function_is_everybodys_to_execute(db)
        test_hygiene.test_each_role_may_call_what_is_meant_for_it(db, "anon", test_hygiene.READERS)
        sequences = db.execute("select sequencename from pg_sequences where schemaname = 'public'").fetchall()
        assert sequences
        for found in sequences:
            usable = "select has_sequence_privilege('anon', %s, 'usage, select, update') as usable"
            assert db.execute(usable, [f"public.{found['sequencename']}"]).fetchone() == {"usable": False}
