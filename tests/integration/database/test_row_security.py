"""Who may do what: every actor, on every table and view, with every verb, on private and public runs, over HTTP."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from .actors import (
    ACTORS,
    ADMIN,
    MAY_CHANGE,
    MAY_READ,
    OTHER,
    OWNER,
    PUBLISHABLE,
    SECRET,
    STRANGER,
    VIEWER,
    World,
    populated,
)
from .writing import Record, count, new_id

VERBS = ["select", "insert", "update", "delete"]
VISIBILITIES = ["private", "public"]

# How a table is owned. A table that is not named here has no expectation, and the matrix fails.
OF_A_RUN = {
    "training_runs",
    "training_steps",
    "model_checkpoints",
    "evaluations",
    "evaluation_results",
    "rollout_groups",
    "rollouts",
    "agent_states",
    "observations",
    "generations",
    "tool_calls",
    "rewards",
    "validations",
    "media",
    "metric_axes",
    "metric_chunks",
}
OF_THE_WORKSPACE = {"environments", "tasks", "validators"}
KEPT_BY_THE_DATABASE = {
    "status_history",
    "rollout_stats",
    "rewinds",
    "archives",
    "activity",
    "validation_overrides",
    "jobs",
    "sweep_trials",
}
# Written by functions, and read by members.
OF_THE_QUEUE = {"workers", "orchestrators", "sweeps", "job_logs", "environment_versions"}
# Written by functions and triggers alone, whoever calls; read by admins, and keys by their member.
OF_MEMBERSHIP = {"member_keys", "invitations", "audit_log"}
KEPT = KEPT_BY_THE_DATABASE | OF_THE_QUEUE | OF_MEMBERSHIP
# What hangs on no run.
WITHOUT_A_RUN = OF_THE_WORKSPACE | OF_THE_QUEUE | OF_MEMBERSHIP | {"members"}
VIEWS = {"metrics", "run_list", "run_overview"}
# Columns that no role writes; those that count are told by their names.
RESERVED = {
    "archive_status",
    "reward_sum",
    "reward_squares",
    "version",
    "is_queued",
    "request",
    "priority",
    "worker_id",
    "lease_id",
    "attempt",
    "max_attempts",
    "attempt_of",
    "cancel_requested_at",
    "delete_requested",
    "stop_requested_at",
    "cache_key",
}
KNOWN = OF_A_RUN | WITHOUT_A_RUN | KEPT_BY_THE_DATABASE | VIEWS


def is_allowed(actor: str, table: str, verb: str, visibility: str) -> bool:
    """Say what the architecture says of it."""
    if table in OF_MEMBERSHIP:
        readers = (SECRET, ADMIN, OWNER) if table == "member_keys" else (SECRET, ADMIN)
        return verb == "select" and actor in readers
    if verb == "select":
        shown = table in OF_A_RUN | KEPT_BY_THE_DATABASE | VIEWS
        return actor in MAY_READ or (actor == PUBLISHABLE and visibility == "public" and shown)
    if table in VIEWS:
        return False
    if table in KEPT:
        return actor == SECRET
    if table == "metric_axes" and verb == "delete":
        return actor == SECRET  # Other metrics than one that is deleted may need it.
    if table == "members":
        return actor in (SECRET, ADMIN)
    return actor in MAY_CHANGE


@pytest.fixture(scope="module")
def world(stack: Any) -> Iterator[World]:
    with filled(
        stack.url, stack.database_url, publishable_key=stack.publishable_key, secret_key=stack.secret_key
    ) as world:
        yield world


@contextmanager
def filled(url: str, database_url: str, *, publishable_key: str, secret_key: str) -> Iterator[World]:
    """Let every table and view have a row of each run."""
    with populated(url, database_url, publishable_key=publishable_key, secret_key=secret_key) as world:
        for visibility in VISIBILITIES:
            # So late that it hides nothing.
            world.db.execute(
                "insert into public.rewinds (training_run_id, timeline, to_step, cut_at)"
                " values (%s, 1, 1000, 'infinity')",
                [world.run_id(visibility)],
            )
            # Of a run whose rows are all there: its status says so.
            world.db.execute(
                "insert into public.archives"
                " (training_run_id, files, row_counts, figures, archive_bytes, database_bytes)"
                " values (%s, '[]', '{}', '{}', 0, 0)",
                [world.run_id(visibility)],
            )
            world.db.execute(
                "insert into public.metric_axes (training_run_id, steps, times) values (%s, '{1}', '{now}')",
                [world.run_id(visibility)],
            )
            # One that was withdrawn, so that it changes nothing.
            world.db.execute(
                "insert into public.validation_overrides (rollout_id, training_run_id, reason, old_status, new_status)"
                " values (%s, %s, 'seen', 'failed', 'success')",
                [world.records[visibility]["rollouts"]["id"], world.run_id(visibility)],
            )
            world.db.execute(
                "with job as (insert into public.jobs (training_run_id, backend, status)"
                " values (%(run)s, 'local', 'succeeded') returning id), logged as (insert into public.job_logs"
                " (job_id, attempt, start, bytes, text) select id, 1, 0, 1, 'x' from job), sweep as"
                " (insert into public.sweeps (name, method, template, space, metric, max_trials)"
                " values ('s', 'grid', '{}', '{}', 'm', 1) returning id)"
                " insert into public.sweep_trials (sweep_id, trial, training_run_id, parameters)"
                " select id, 0, %(run)s, '{}' from sweep",
                {"run": world.run_id(visibility)},
            )
        world.rpc(OWNER, "register_worker", worker={"name": "the owner's"})
        assert world.rpc(OWNER, "create_key", name="the owner's").status_code == 200
        assert world.rpc(ADMIN, "invite_member", email="invited@example.org").status_code == 200
        world.rpc(OWNER, "register_orchestrator", orchestrator={"host": "here"})
        yield world


# What makes a copy of a row another row: its natural key.
DISTINCT: dict[str, tuple[str, ...]] = {
    "environments": ("name",),
    "tasks": ("external_id",),
    "validators": ("external_id",),
    "training_runs": ("run_name",),
    "training_steps": ("step",),
    "model_checkpoints": ("checkpoint_number",),
    "evaluation_results": ("environment",),
    "rollout_groups": ("number",),
    "agent_states": ("step_number",),
    "observations": ("position",),
    "generations": ("position",),
    "tool_calls": ("position",),
    "rewards": ("reward_type",),
    "validations": ("validator_name",),
    "rollout_stats": ("shard", "environment"),
    "rewinds": ("timeline",),
    "environment_versions": ("version",),
    "job_logs": ("start",),
    "sweep_trials": ("trial",),
}


class Table:
    """A table or view, with a row of it that hangs on the owner's run, and ways to make more such rows."""

    def __init__(self, world: World, name: str, visibility: str) -> None:
        self.db, self.name, self.visibility, self.world = world.db, name, visibility, world
        self.key = {"members": "user_id", "metrics": "chunk_id"}.get(name, "id")
        self.columns = world.db.execute(
            "select column_name as name, data_type as type from information_schema.columns"
            " where table_schema = 'public'"
            " and table_name = %s and is_generated = 'NEVER' and is_identity = 'NO'",
            [name],
        ).fetchall()

    @property
    def stored(self) -> str:
        """Where a row that was written lies."""
        return "internal.rewards" if self.name == "rewards" else f"public.{self.name}"

    def row(self) -> Record:
        """Return the row that everybody tries to see and to change."""
        records = self.world.records[self.visibility]
        condition, value = f"{self.key} = %s", records.get(self.name, {}).get("id")
        if self.name in KEPT_BY_THE_DATABASE | VIEWS | {"metric_axes"}:
            column = "id" if self.name in ("run_list", "run_overview") else "training_run_id"
            condition, value = f"{column} = %s", self.world.run_id(self.visibility)
        elif self.name == "members":
            value = self.world.user_ids[VIEWER]
        elif self.name == "member_keys":
            condition, value = "member_id = %s", self.world.user_ids[OWNER]
        elif self.name in OF_THE_QUEUE | OF_MEMBERSHIP:
            # Members read them all, and nobody but the functions writes them.
            condition, value = "%s::uuid is not null", self.world.user_ids[OWNER]
        found = self.db.execute(
            f"select to_jsonb(t) as row from public.{self.name} t where {condition} limit 1", [value]
        ).fetchone()
        assert found is not None, f"there is no row in {self.name} to try with"
        return dict(found["row"])

    def another(self) -> Record:
        """Return a row like it, with an id and a natural key of its own, that is not in the table."""
        names = {column["name"] for column in self.columns}
        row = {name: value for name, value in self.row().items() if name in names and not name.endswith("_count")}
        row = {name: value for name, value in row.items() if self.name in KEPT or name not in RESERVED}
        types = {column["name"]: column["type"] for column in self.columns}
        for name in DISTINCT.get(self.name, ()):
            row[name] = secrets.randbelow(30_000) + 100 if types[name] != "text" else new_id()
        if "status_change_id" in row:
            row["status_change_id"] = new_id()
        if self.name in ("activity", "archives"):  # One a run: another wants a run that has none.
            row["training_run_id"] = self.unmarked_run()
        if self.name == "members":
            row["user_id"] = new_id()
            email = f"{row['user_id']}@example.org"
            self.db.execute("insert into auth.users (id, email) values (%s, %s)", [row["user_id"], email])
        elif "id" in row:
            row["id"] = new_id()
        return row

    def unmarked_run(self) -> str:
        made = self.db.execute(
            "insert into public.training_runs (name, visibility) values ('unmarked', %s) returning id::text as id",
            [self.visibility],
        ).fetchone()
        assert made is not None
        self.db.execute("delete from public.activity where training_run_id = %s", [made["id"]])
        return str(made["id"])

    def place(self) -> str:
        """Put another row into the table; return its key."""
        row = self.another()
        names = ", ".join(f'"{name}"' for name in row)
        placed = self.db.execute(
            f"insert into public.{self.name} ({names}) select {names}"
            f" from jsonb_populate_record(null::public.{self.name}, %s)"
            f" returning {self.key} as key",
            [Jsonb(row)],
        ).fetchone()
        assert placed is not None
        return str(placed["key"])

    def version(self, key: str) -> str | None:
        """Return what changes whenever the row is written; None when it is not there."""
        found = self.db.execute(
            f"select xmin::text as version from {self.stored} where {self.key}::text = %s", [key]
        ).fetchone()
        return found["version"] if found else None

    def remove(self, key: str) -> None:
        self.db.execute(f"delete from public.{self.name} where {self.key}::text = %s", [key])


def was_done(world: World, table: Table, actor: str, verb: str) -> tuple[bool, str]:
    """Try something over HTTP; say whether it happened, as the database sees it, and what the answer was."""
    path = f"/rest/v1/{table.name}"
    if verb == "select":
        answer = world.call(actor, "GET", path, params={table.key: f"eq.{table.row()[table.key]}", "limit": "1"})
        return answer.status_code == 200 and len(answer.json()) == 1, answer.text
    if table.name in VIEWS:
        row = table.row()
        where = {table.key: f"eq.{row[table.key]}"}
        method = {"insert": "POST", "update": "PATCH", "delete": "DELETE"}[verb]
        answer = world.call(
            actor, method, path, params={} if verb == "insert" else where, json=None if verb == "delete" else row
        )
        return answer.status_code < 300, answer.text
    if verb == "insert":
        row = table.another()
        answer = world.call(actor, "POST", path, json=row)
        key = row.get(table.key)
        if key is None:  # The database gives the key: the natural one finds the row.
            found = table.db.execute(
                f"select {table.key} as key from public.{table.name} where shard = %s", [row["shard"]]
            ).fetchone()
            key = str(found["key"]) if found else ""
        happened = table.version(key) is not None
        table.remove(key)
        return happened, answer.text
    key = table.place()
    before = table.version(key)
    where = {table.key: f"eq.{key}"}
    if verb == "update":
        column = {
            "members": "role",
            "rollout_stats": "environment",
            "status_history": "message",
            "workers": "name",
            "orchestrators": "name",
            "activity": "changed_at",
            "audit_log": "action",
            "metric_axes": "points",
            "metric_chunks": "name",
            "observations": "position",
            "generations": "position",
        }.get(table.name, "created_at")
        value = {
            "role": "viewer",
            "created_at": "2026-02-03T04:05:06+00:00",
            "changed_at": "2026-02-03T04:05:06+00:00",
            "position": secrets.randbelow(30_000),
            "points": 1,
        }.get(column, new_id())
        answer = world.call(actor, "PATCH", path, params=where, json={column: value})
        happened = table.version(key) != before
    else:
        answer = world.call(actor, "DELETE", path, params=where)
        happened = table.version(key) is None
    table.remove(key)
    return happened, answer.text


def tables_and_views(world: World) -> list[str]:
    rows = world.db.execute(
        "select relname from pg_class where relnamespace = 'public'::regnamespace"
        " and relkind in ('r', 'v', 'm', 'p', 'f') order by 1"
    )
    return [found["relname"] for found in rows]


def test_every_table_and_view_has_an_expectation(world: World) -> None:
    assert set(tables_and_views(world)) == KNOWN


@pytest.mark.parametrize("verb", VERBS)
def test_everybody_can_do_to_every_table_what_they_may_and_no_more(world: World, verb: str) -> None:
    wrong, tried = [], 0
    for name, visibility in product(tables_and_views(world), VISIBILITIES):
        if visibility == "public" and name in WITHOUT_A_RUN:
            continue  # These hang on no run.
        table = Table(world, name, visibility)
        for actor in ACTORS:
            expected = is_allowed(actor, name, verb, visibility)
            happened, answer = was_done(world, table, actor, verb)
            tried += 1
            if happened != expected:
                place = "" if name in WITHOUT_A_RUN else f" of a {visibility} run"
                wrong.append(
                    f"{actor}: {verb} {name}{place}: {'' if happened else 'not '}possible; the API said {answer[:200]}"
                )
    assert not wrong, "\n" + "\n".join(wrong)
    assert tried == len(ACTORS) * (2 * len(KNOWN) - len(WITHOUT_A_RUN))


# Functions -----------------------------------------------------------------------------------------------------------


def code_of(world: World, actor: str, function: str, visibility: str) -> str:
    """Call a function on the owner's run; return "ok" or the code of the error or refusal."""
    run_id = world.run_id(visibility)
    if function in ("ingest", "load_batch"):
        batch = {"rollouts": [{"id": new_id(), "training_run_id": run_id, "environment": "a"}]}
        answer = world.rpc(actor, "ingest", batch=batch) if function == "ingest" else world.load(actor, batch)
        refused = answer.json().get("refused")
        return answer.json()["code"] if refused is None else refused[0]["code"] if refused else "ok"
    if function in ("change_status", "override_validation"):
        rollout = Table(world, "rollouts", visibility)
        key = rollout.place()
        if function == "change_status":
            answer = world.rpc(actor, "change_status", entity="rollouts", entity_id=key, status="failed")
        else:
            answer = world.rpc(actor, "override_validation", rollout_id=key, verdict="fail", reason="seen")
        rollout.remove(key)
    elif function == "heartbeat":
        answer = world.rpc(actor, "heartbeat", run_id=run_id)
    else:
        answer = world.rpc(actor, function, training_run_id=run_id)
    return "ok" if answer.status_code == 200 else answer.json()["code"]


def expected_code(actor: str, function: str, visibility: str) -> str:
    if function in ("run_metrics", "metric_series", "metric_names"):
        sees = actor in MAY_READ or (actor == PUBLISHABLE and visibility == "public")
        return "ok" if sees else "OM404"
    if actor == PUBLISHABLE:
        return "42501"
    if actor in MAY_CHANGE:
        return "ok"
    return "OM404" if actor == STRANGER or function == "heartbeat" else "OM403"


def test_everybody_can_call_what_they_may_and_no_more(world: World) -> None:
    wrong = []
    functions = [
        "ingest",
        "load_batch",
        "change_status",
        "override_validation",
        "heartbeat",
        "run_metrics",
        "metric_series",
        "metric_names",
    ]
    for function, actor, visibility in product(functions, ACTORS, VISIBILITIES):
        expected, code = expected_code(actor, function, visibility), code_of(world, actor, function, visibility)
        if code != expected:
            wrong.append(f"{actor}: {function} on a {visibility} run: {code}, and should be {expected}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_turns_that_are_not_staged_are_refused_to_the_same_actors(world: World) -> None:
    """Recorders that know only the API write new turns directly: row security holds there too."""
    for actor, visibility in product(ACTORS, VISIBILITIES):
        told = []
        for way in ("ingest", "load_batch"):
            turn_id = new_id()
            rollout_id = world.records[visibility]["rollouts"]["id"]
            turn = {"id": turn_id, "rollout_id": rollout_id, "step_number": secrets.randbelow(10**9)}
            part = {"id": new_id(), "agent_state_id": turn_id, "tool_name": "t"}
            batch = {"agent_states": [turn], "tool_calls": [part]}
            answer = world.rpc(actor, way, batch=batch) if way == "ingest" else world.load(actor, batch)
            found = answer.json()
            codes = [one["code"] for one in found["refused"]] if "refused" in found else found["code"]
            parts = count(world.db, "tool_calls", agent_state_id=turn_id)
            told.append((codes, count(world.db, "agent_states", id=turn_id), parts))
        assert told[0] == told[1], (actor, visibility)
        assert told[0][1] == (actor in MAY_CHANGE), (actor, visibility)


def test_there_are_no_other_functions_to_call(world: World) -> None:
    rows = world.db.execute(
        "select p.proname from pg_proc p where p.pronamespace in ('internal'::regnamespace)"
        " and p.prorettype <> 'trigger'::regtype"
    ).fetchall()
    assert len(rows) > 40
    for actor in (PUBLISHABLE, STRANGER, OWNER, SECRET):
        for name in ("protect", "open_stage", "merge_stage", "owns_run", "define_merge"):
            for path in (f"/rest/v1/rpc/{name}", f"/rest/v1/rpc/internal.{name}"):
                answer = world.call(actor, "POST", path, json={}, headers={"Content-Profile": "internal"})
                assert answer.status_code in (404, 406), f"{actor}: {path}: {answer.status_code} {answer.text}"


def test_the_gateway_leaves_the_grants_as_the_migrations_made_them(world: World, db: Any) -> None:
    grants = """select table_name, grantee, privilege_type from information_schema.role_table_grants
                where table_schema = 'public' and grantee not in ('postgres', 'openmanus_owner') order by 1, 2, 3"""
    assert world.db.execute(grants).fetchall() == db.execute(grants).fetchall()


def test_the_actors_are_who_they_are_said_to_be(world: World) -> None:
    """Else the matrix would prove nothing."""
    for actor in (ADMIN, OWNER, OTHER, VIEWER, STRANGER):
        user = world.call(actor, "GET", "/auth/v1/user")
        assert user.json()["id"] == world.user_ids[actor]
    assert world.db.execute(
        "select owner_id from public.training_runs where id = %s", [world.run_id("private")]
    ).fetchone() == {"owner_id": uuid.UUID(world.user_ids[OWNER])}
