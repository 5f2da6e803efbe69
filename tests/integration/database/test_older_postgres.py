"""The migrations work on Debian's Postgres 15 and on 17, which hosted projects run, as on the embedded 18."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from ..gateway.process import Gateway, GatewaySettings
from . import (
    test_counts,
    test_hygiene,
    test_ingest,
    test_ingest_refusals,
    test_metrics,
    test_queue,
    test_queue_cost,
    test_queue_evaluations,
    test_queue_leases,
    test_queue_walk,
    test_row_security,
    test_status,
)
from .actors import World
from .servers import MIGRATIONS, ROOT, Server, apply_migrations, make_system_schema
from .writing import Connection, Database


@pytest.fixture(scope="module", params=[15, 17])
def older_server(
    request: pytest.FixtureRequest,
    postgres_programs: Callable[[int], Path],
    one_at_a_time: Callable[[], AbstractContextManager[None]],
) -> Iterator[Server]:
    """A server with databases `system` (before the migrations) and `migrated`."""
    programs = postgres_programs(request.param)
    with ExitStack() as opened:
        with one_at_a_time():
            server = opened.enter_context(Server(programs))
        make_system_schema(server.create_database("system"))
        apply_migrations(server.create_database("migrated", template="system"))
        with server.connect() as connection:
            assert connection.info.server_version // 10000 == request.param
        yield server


@pytest.fixture
def older_db(older_server: Server) -> Iterator[Connection]:
    with Database(older_server.url("migrated")).connect() as connection:
        yield connection


def test_the_embedded_postgres_is_18(db: Connection) -> None:
    assert db.info.server_version // 10000 == 18


@pytest.mark.parametrize(
    "claim",
    [
        test_ingest.test_every_kind_round_trips,
        test_ingest.test_a_batch_delivered_twice_changes_nothing,
        test_ingest.test_one_batch_may_create_and_complete_a_rollout,
        test_ingest.test_a_turn_brings_its_tool_calls_observations_generations_and_rewards,
        test_ingest.test_a_child_takes_its_run_from_its_parent,
        test_ingest.test_a_row_cannot_move_to_another_parent,
        test_ingest.test_children_before_their_parent_are_refused_and_taken_when_delivered_again,
        test_ingest_refusals.test_a_turn_with_a_number_that_is_taken_is_refused_alone,
        test_ingest_refusals.test_all_or_nothing_writes_nothing_when_one_is_refused,
        lambda db: test_counts.test_counts_equal_a_recount_whatever_happens(db, 1),
        lambda db: test_status.test_every_transition_is_made_and_recorded_or_refused(db, "training_runs"),
        test_status.test_a_run_whose_heartbeat_stopped_is_shown_as_stalled_until_it_beats_again,
        test_metrics.test_a_long_series_is_thinned_and_keeps_its_extremes,
        test_queue.test_cancelling_ends_what_waits_asks_who_runs_and_leaves_what_ended,
        lambda db: test_queue.test_a_running_rollout_is_deleted_when_its_worker_is_done_with_it(db, "end"),
        lambda db: test_queue_leases.test_a_worker_that_lost_its_lease_writes_nothing(
            db, test_queue_leases.by_copy, "leased by another"
        ),
        lambda db: test_queue_leases.test_a_lost_attempt_keeps_all_that_it_recorded(db, "expiry"),
        test_queue_evaluations.test_it_is_running_when_the_first_begins_and_completed_when_the_last_has_ended,
        test_queue_cost.test_a_claim_does_not_read_what_ended_or_waits_for_others,
        test_queue_walk.test_a_queue_is_as_its_model_says_whatever_is_done_to_it,
        test_hygiene.test_every_table_has_row_security,
        test_hygiene.test_every_table_grants_what_is_meant_and_no_more,
        test_hygiene.test_no_function_is_everybodys_to_execute,
    ],
    ids=lambda claim: claim.__name__,
)
def test_what_holds_on_the_embedded_postgres_holds_on_older_ones(
    older_db: Connection, claim: Callable[[Connection], None]
) -> None:
    claim(older_db)


# Row security, over HTTP -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def older_world(older_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A gateway on the older server, with somebody for each role and a row in every table."""
    url = older_server.create_database("served", template="migrated")
    with older_server.connect() as connection:
        connection.execute(f"alter role authenticator login password '{older_server.password}'".encode())
    settings = GatewaySettings(
        database_url=url,
        api_url=url.replace("//postgres:", "//authenticator:"),
        storage_dir=tmp_path_factory.mktemp("storage"),
        dashboard_dir=tmp_path_factory.mktemp("dashboard"),
    )
    with (
        Gateway(settings) as gateway,
        test_row_security.filled(
            gateway.url, url, publishable_key=settings.publishable_key, secret_key=settings.secret_key
        ) as world,
    ):
        yield world


@pytest.mark.parametrize("verb", test_row_security.VERBS)
def test_everybody_can_do_to_every_table_what_they_may_and_no_more(older_world: World, verb: str) -> None:
    test_row_security.test_everybody_can_do_to_every_table_what_they_may_and_no_more(older_world, verb)


def test_everybody_can_call_what_they_may_and_no_more(older_world: World) -> None:
    test_row_security.test_everybody_can_call_what_they_may_and_no_more(older_world)


# The schema --------------------------------------------------------------------------------------------------------

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


def test_they_end_in_the_same_schema_as_the_embedded_one(older_db: Connection, db: Connection) -> None:
    on_older, embedded = (session.execute(CATALOG).fetchall() for session in (older_db, db))
    assert len(embedded) > 500
    assert on_older == embedded


def test_the_supabase_cli_applies_them_too(
    older_server: Server, supabase_cli: Callable[..., Any], tmp_path: Path
) -> None:
    url = older_server.create_database("pushed", template="system")
    shutil.copytree(ROOT / "supabase" / "migrations", tmp_path / "supabase" / "migrations")
    shutil.copy(ROOT / "supabase" / "config.toml", tmp_path / "supabase")
    done = supabase_cli("db", "push", "--yes", f"--remote={url}", "--workdir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with Database(url).connect() as pushed, Database(older_server.url("migrated")).connect() as applied:
        history = pushed.execute("select version from supabase_migrations.schema_migrations order by 1").fetchall()
        assert [found["version"] for found in history] == [path.name.split("_")[0] for path in MIGRATIONS]
        assert pushed.execute(CATALOG).fetchall() == applied.execute(CATALOG).fetchall()
