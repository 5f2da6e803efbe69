"""The recorder, and the other ways into the same database."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

import openmanus_rl
from benchmarks.rows import Batch, copy_rows, flatten, make_batch
from benchmarks.workloads import SCALARS, Rollout
from benchmarks.writers import Writer
from openmanus_rl.managers.batches import write_batch
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.utils.supabase_db import RolloutManager

_FLUSH_TIMEOUT_SECONDS = 600.0
_TABLES = "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname in ('public', 'internal')"
# Everything that a row costs: the table, its TOAST table, its indexes, and their free space.
_SIZE = "select sum(pg_total_relation_size(name::regclass))::bigint from unnest(%s::text[]) name"
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


def _fetch(connection: psycopg.Connection[Any], statement: str, values: Any) -> tuple[Any, ...]:
    row = connection.execute(statement, values).fetchone()
    assert row is not None
    return tuple(row)


def database_bytes() -> int:
    """Return the size of all tables after a vacuum."""
    with connect() as connection:
        tables = [row[0] for row in connection.execute(_TABLES)]
        connection.execute(f"vacuum {', '.join(tables)}")
        connection.execute("checkpoint")
        return int(_fetch(connection, _SIZE, [tables])[0])


class DatabaseWriter(Writer):
    """A run in the stack's database; `open` writes its id to a file, so that another process can count its rows."""

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        with connect() as connection:
            points, rollouts = _fetch(connection, _STORED, {"run": (folder / "run").read_text()})
        return {"metrics": points // SCALARS, "rollouts": rollouts}


class OursWriter(DatabaseWriter):
    """The recorder: durable when `flush` says that everything is committed in Postgres."""

    def open(self) -> None:
        self._bytes_before = database_bytes()
        self._run = openmanus_rl.init("benchmark", algorithm="none", environment="bench")
        (self.folder / "run").write_text(self._run.id)

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

    def close(self) -> None:
        self._run.finish()

    def disk_bytes(self) -> int:
        return database_bytes() - self._bytes_before


class BatchWriter(DatabaseWriter):
    """All rollouts at once, from records that are made before the clock starts."""

    def open(self) -> None:
        self._connection = connect()
        run_id = new_id()
        (self.folder / "run").write_text(run_id)
        self._connection.execute("insert into public.training_runs (id, name) values (%s, 'batches')", [run_id])

    def prepare(self, first: Rollout, others: list[Rollout]) -> None:
        run_id = (self.folder / "run").read_text()
        self._first, self._others = (self.make(make_batch(run_id, rollouts)) for rollouts in ([first], others))

    def make(self, batch: Batch) -> Batch:
        """Return a batch as `write` takes it."""
        return batch

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Write a batch; it is committed when this returns."""

    def settle(self) -> None:
        self.write(self._first)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        """Do nothing: `finish` writes all of them."""

    def finish(self) -> None:
        self.write(self._others)

    def close(self) -> None:
        self._connection.close()

    def disk_bytes(self) -> None:
        return None


class CopyWriter(BatchWriter):
    """COPY straight into the tables, the fastest way into this database: it checks and explains nothing."""

    def make(self, batch: Batch) -> Batch:
        return flatten(batch)

    def write(self, batch: Batch) -> None:
        with self._connection.transaction():
            # Not even that a turn has its rollout.
            self._connection.execute("select internal.begin_copy('{}')")
            copy_rows(self._connection, batch)


class StagingWriter(CopyWriter):
    """COPY to the tables that `ingest` checks and merges from."""

    def write(self, batch: Batch) -> None:
        kinds = [list(batch)]
        with self._connection.transaction():
            self._connection.execute("select internal.open_stage(%s)", kinds)
            copy_rows(self._connection, batch, staged=True)
            (answer,) = _fetch(self._connection, "select internal.merge_stage(%s)", kinds)
        assert answer["refused"] == []


class IngestWriter(BatchWriter):
    """The function `ingest`, over HTTP."""

    def write(self, batch: Batch) -> None:
        assert write_batch(batch).refused == ()


class ManagersWriter(BatchWriter):
    """The managers, a request for each row."""

    def write(self, batch: Batch) -> None:
        for rollout in batch["rollouts"]:
            rollout = dict(rollout)
            outcome = {key: rollout.pop(key) for key in ("status", "total_reward", "step_count")}
            rollout_id = RolloutManager.create_rollout(rollout_id=rollout.pop("id"), **rollout)["id"]
            for turn in batch["agent_states"]:
                if turn["rollout_id"] == rollout_id:
                    self._log_turn(turn)
            RolloutManager.complete_rollout(rollout_id, **outcome)

    def _log_turn(self, turn: dict[str, Any]) -> None:
        texts = (turn["observation"], turn["action"], turn["thought"])
        state_id = RolloutManager.log_agent_state(turn["rollout_id"], turn["step_number"], *texts)
        for call in turn["tool_calls"]:
            RolloutManager.log_tool_call(state_id, **{key: value for key, value in call.items() if key != "id"})
        RolloutManager.log_reward(turn["rollout_id"], turn["step_number"], turn["reward"])
