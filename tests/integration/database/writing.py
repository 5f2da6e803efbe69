"""Short ways to write to the database and to look at it, for tests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from openmanus_rl.transport.batch_text import encode_batch

Record: TypeAlias = dict[str, Any]
Batch: TypeAlias = dict[str, list[Any]]
Connection: TypeAlias = psycopg.Connection[DictRow]


@dataclass(frozen=True)
class Database:
    """A migrated database that sessions are opened on."""

    url: str

    def connect(self) -> Connection:
        return psycopg.connect(self.url, autocommit=True, row_factory=dict_row)


def new_id() -> str:
    return str(uuid.uuid4())


def ingest(db: Connection, batch: Batch, **options: bool) -> Record:
    """Write a batch; return what the database says of it."""
    named = "".join(f", {name} => %({name})s" for name in options)
    answer = db.execute(
        f"select public.ingest(%(batch)s{named}) as answer", {"batch": Jsonb(batch), **options}
    ).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def load_text(db: Connection, batch: Batch, leases: Sequence[str] = ()) -> Record:
    """Write a batch as `HttpSink` does: as text, or as JSON where that cannot be done."""
    try:
        text = encode_batch(batch, leases).decode()
        with db.transaction():
            answer = db.execute("select public.load_batch(%s) as answer", [text]).fetchone()
    except (ValueError, psycopg.DataError):
        json_ = {"batch": Jsonb(batch), "leases": list(leases) or None}
        answer = db.execute("select public.ingest(%(batch)s, leases => %(leases)s::uuid[]) as answer", json_).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def write(db: Connection, batch: Batch) -> None:
    """Write a batch of which nothing may be refused."""
    refused = ingest(db, batch)["refused"]
    assert refused == [], refused


def change_status(db: Connection, entity: str, entity_id: str, status: str | None, **more: Any) -> Record:
    """Call change_status; return the row."""
    named = "".join(f", {name} => %({name})s" for name in more)
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in more.items()}
    answer = db.execute(
        f"select public.change_status(%(entity)s, %(id)s, %(status)s{named}) as answer",
        {"entity": entity, "id": entity_id, "status": status, **values},
    ).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def row(db: Connection, table: str, row_id: str) -> Record:
    """Return a row as the API would show it."""
    found = db.execute(f"select to_jsonb(t) as row from public.{table} t where id = %s", [row_id]).fetchone()
    assert found is not None, f"{table} {row_id} is not there"
    return dict(found["row"])


def count(db: Connection, table: str, **where: Any) -> int:
    condition = "".join(f" and {name} = %({name})s" for name in where)
    found = db.execute(f"select count(*) as n from public.{table} where true{condition}", where).fetchone()
    assert found is not None
    return int(found["n"])


def history(db: Connection, entity_id: str) -> list[tuple[str | None, str, str | None]]:
    """Return (old, new, message) of every change of status, in their order."""
    rows = db.execute(
        "select old_status, new_status, message from public.status_history"
        " where entity_id = %s order by changed_at, id",
        [entity_id],
    )
    return [(found["old_status"], found["new_status"], found["message"]) for found in rows]


@contextmanager
def acting_as(db: Connection, *, user_id: str | None = None, role: str = "authenticated") -> Iterator[Connection]:
    """Run statements with the rights of an API caller, in one transaction, as the Data API does."""
    claims = {"role": role} | ({"sub": user_id} if user_id else {})
    with db.transaction():
        db.execute("select set_config('request.jwt.claims', %s, true)", [json.dumps(claims)])
        db.execute(f"set local role {role}")
        yield db


def new_member(db: Connection, role: str | None) -> str:
    """Sign somebody up and, with a role, make them a member; return their id."""
    user_id = new_id()
    db.execute("insert into auth.users (id, email) values (%s, %s)", [user_id, f"{user_id}@example.org"])
    if role is not None:
        db.execute("insert into public.members (user_id, role) values (%s, %s)", [user_id, role])
    return user_id


def new_run(db: Connection, **fields: Any) -> str:
    """Create a training run; return its id."""
    run = {"id": new_id(), "name": "a run", "status": "running", "environment": "alfworld"} | fields
    write(db, {"training_runs": [run]})
    return str(run["id"])


def new_group(db: Connection, run_id: str, *, number: int = 0) -> str:
    """Create a group with a step of its own; return its id."""
    step_id, group_id = new_id(), new_id()
    step = int(uuid.UUID(step_id).int % 2**40)
    write(
        db,
        {
            "training_steps": [{"id": step_id, "training_run_id": run_id, "step": step}],
            "rollout_groups": [{"id": group_id, "training_step_id": step_id, "number": number}],
        },
    )
    return group_id


def new_rollout(db: Connection, run_id: str | None, **fields: Any) -> str:
    """Create a rollout; return its id."""
    rollout = {"id": new_id(), "training_run_id": run_id, "environment": "alfworld"} | fields
    write(db, {"rollouts": [rollout]})
    return str(rollout["id"])


def rows_read(db: Connection) -> int:
    """Return how many rows this session has read lately, by scans and by indexes.

    Compare two readings within a transaction. One alone may include earlier transactions: a session hands its counts
    over at most once a second, and never within a transaction.
    """
    found = db.execute(
        "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint as n"
        " from pg_stat_xact_all_tables where schemaname <> 'pg_catalog'"
    ).fetchone()
    assert found is not None
    return int(found["n"] or 0)
