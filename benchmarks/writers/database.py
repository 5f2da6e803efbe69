"""The recorder, and COPY into the same tables."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

import openmanus_rl
from benchmarks.workloads import SCALARS, Rollout
from benchmarks.writers import Writer, total_reward
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings

Rows = dict[str, list[dict[str, Any]]]

_FLUSH_TIMEOUT_SECONDS = 600.0
# Everything that a row costs: the table, its TOAST table, its indexes, and their free space.
_SIZE = """
select sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass))::bigint
from pg_tables where schemaname in ('public', 'internal')
"""
# A rollout counts with all of its turns.
_STORED = """
select (select count(*) from public.metrics where training_run_id = %(run)s),
       (select count(*) from public.rollouts r where r.training_run_id = %(run)s and r.status = 'success'
        and r.step_count = (select count(*) from public.agent_states a where a.rollout_id = r.id))
"""


def connect() -> psycopg.Connection[Any]:
    """Connect to the stack's database as its owner: the recorder's role may not vacuum."""
    stack = json.loads((load_settings().home / "stack.json").read_text())
    return psycopg.connect(stack["database_url"], autocommit=True)


def database_bytes() -> int:
    """Return the size of all tables after a vacuum."""
    with connect() as connection:
        connection.execute("vacuum")
        connection.execute("checkpoint")
        ((size,),) = connection.execute(_SIZE).fetchall()
        return int(size)


class DatabaseWriter(Writer):
    """A run in the stack's database; its id is written to a file, so that another process can count its rows."""

    def open(self) -> None:
        self._bytes_before = database_bytes()
        (self.folder / "run").write_text(self.begin())

    @abstractmethod
    def begin(self) -> str:
        """Make a run and return its id."""

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        with connect() as connection:
            ((points, rollouts),) = connection.execute(_STORED, {"run": (folder / "run").read_text()}).fetchall()
        return {"metrics": points // SCALARS, "rollouts": rollouts}

    def disk_bytes(self) -> int:
        return database_bytes() - self._bytes_before


class OursWriter(DatabaseWriter):
    """The recorder: durable when `flush` says that everything is committed in Postgres."""

    def begin(self) -> str:
        self._run = openmanus_rl.init("benchmark", algorithm="none", environment="bench")
        return self._run.id

    def settle(self) -> None:
        self.finish()

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.call(self._run.log, values, step=step)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        task = rollout["task_description"]
        recorded = self.call(self._run.rollout, episode_number=number, task_description=task)
        for turn in rollout["turns"]:
            self.call(recorded.log_turn, **turn)
        self.call(recorded.complete, "success")

    def finish(self) -> None:
        if not self._run.flush(timeout_seconds=_FLUSH_TIMEOUT_SECONDS):
            raise RuntimeError(f"not everything was delivered: {self._run.stats}")


class HttpWriter(OursWriter):
    """The recorder where only the API is known, as with a hosted project or a team's server."""

    def begin(self) -> str:
        settings = load_settings()
        stack = json.loads((settings.home / "stack.json").read_text())
        os.environ["SUPABASE_URL"] = stack["url"]
        os.environ["SUPABASE_SERVICE_ROLE_KEY"] = stack["secret_key"]
        return super().begin()


class CopyWriter(DatabaseWriter):
    """COPY into the tables, the fastest way into this database: the rows are made before, and nothing is checked."""

    def begin(self) -> str:
        self._connection = connect()
        self._run_id = new_id()
        self._connection.execute("insert into public.training_runs (id, name) values (%s, 'copy')", [self._run_id])
        return self._run_id

    def prepare(self, items: list[Rollout]) -> None:
        self._first, self._others = (_make_rows(self._run_id, rollouts) for rollouts in (items[:1], items[1:]))

    def settle(self) -> None:
        self._copy(self._first)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        """Do nothing: `finish` writes all of them."""

    def finish(self) -> None:
        self._copy(self._others)

    def _copy(self, tables: Rows) -> None:
        with self._connection.transaction():
            # Not even that a turn has its rollout is checked.
            self._connection.execute("select internal.begin_copy('{}')")
            for table, rows in tables.items():
                columns = sql.SQL(", ").join(map(sql.Identifier, rows[0]))
                statement = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier("public", table), columns)
                with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
                    for row in rows:
                        copy.write_row([Jsonb(value) if isinstance(value, dict) else value for value in row.values()])


def _make_rows(run_id: str, rollouts: list[Rollout]) -> Rows:
    """Return the rows of finished rollouts by table."""
    rows: Rows = {"rollouts": [], "agent_states": [], "tool_calls": []}
    shared = {"training_run_id": run_id}
    for episode, rollout in enumerate(rollouts):
        rollout_id, turns = new_id(), rollout["turns"]
        rows["rollouts"].append({
            "id": rollout_id, "environment": "bench", "episode_number": episode, "status": "success",
            "task_description": rollout["task_description"], "total_reward": total_reward(rollout),
            "step_count": len(turns), **shared,
        })  # fmt: skip
        for position, turn in enumerate(turns):
            turn_id, fields = new_id(), {**turn, **shared}
            calls = fields.pop("tool_calls")
            rows["agent_states"].append({"id": turn_id, "rollout_id": rollout_id, "step_number": position, **fields})
            rows["tool_calls"] += [{"id": new_id(), "agent_state_id": turn_id, **call, **shared} for call in calls]
    return rows
