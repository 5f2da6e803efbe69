"""The recorder: durable when `flush` says that all of it is committed in Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import psycopg
from workloads import Messages, Rollout

import openmanus_rl
from openmanus_rl.settings import load_settings
from writers.base import Writer

_LONGEST_SECONDS = 600.0

# Everything that a row costs: the table, its TOAST table, its indexes, and the maps of their free space.
_SIZE = """
select sum(pg_total_relation_size(c.oid))::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname in ('public', 'internal')
"""

_TABLES = """
select format('%I.%I', schemaname, tablename) from pg_tables where schemaname in ('public', 'internal')
"""

# A rollout counts with all of its turns.
_STORED = """
select (select count(distinct step) from public.metrics where training_run_id = %(run)s),
       (select count(*) from public.rollouts r where r.training_run_id = %(run)s and r.status = 'success'
        and r.step_count = (select count(*) from public.agent_states a where a.rollout_id = r.id))
"""


def database() -> psycopg.Connection:
    """Connect to the stack's database, as its owner: the recorder may not clear away what is dead."""
    stack = json.loads((load_settings().home / "stack.json").read_text())
    return psycopg.connect(stack["database_url"], autocommit=True)


def database_bytes() -> int:
    """Return the size of all tables once what is dead in them has been cleared away."""
    with database() as connection:
        tables = [row[0] for row in connection.execute(_TABLES)]
        connection.execute(f"vacuum {', '.join(tables)}")
        connection.execute("checkpoint")
        row = connection.execute(_SIZE).fetchone()
    assert row is not None
    return int(row[0])


class OursWriter(Writer):
    """A run of the recorder on the embedded stack."""

    def open(self) -> None:
        self._bytes_before = database_bytes()
        self._run = openmanus_rl.init("benchmark", algorithm="none", environment="bench")
        (self.folder / "run").write_text(self._run.id)

    def settle(self) -> None:
        self._wait()

    def log_metrics(self, values: Mapping[str, float], step: int) -> None:
        self.watch.call(self._run.log, values, step=step)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        call = self.watch.call
        made = call(self._run.rollout, episode_number=number, task_description=rollout["task_description"])
        for turn in rollout["turns"]:
            call(made.log_turn, **turn)
        call(made.complete, "success")

    def log_chat(self, number: int, states: list[Messages]) -> None:
        made = self._run.rollout(episode_number=number)
        for messages in states:
            self.watch.call(made.log_turn, messages=messages, reward=1.0)
        made.complete("success")

    def finish(self) -> None:
        self._wait()

    def close(self) -> None:
        self._run.finish()

    def _wait(self) -> None:
        if not self._run.flush(timeout_seconds=_LONGEST_SECONDS):
            raise RuntimeError(f"not everything was delivered: {self._run.stats}")

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        run = (folder / "run").read_text()
        with database() as connection:
            row = connection.execute(_STORED, {"run": run}).fetchone()
        assert row is not None
        return {"metrics": int(row[0]), "rollouts": int(row[1])}

    def disk_bytes(self) -> int:
        return database_bytes() - self._bytes_before
