"""COPY of the same rows into the same tables: how fast this database can take them at all."""

from __future__ import annotations

from pathlib import Path

from copying import by_copy
from workloads import Rollout, as_batch, flatten

from openmanus_rl.records.ids import new_id
from writers.base import Writer
from writers.ours import database


class CopyWriter(Writer):
    """All rollouts in one COPY a table, from rows that are made beforehand."""

    def open(self) -> None:
        self._connection = database()
        self._run_id = new_id()
        (self.folder / "run").write_text(self._run_id)
        self._connection.execute("insert into public.training_runs (id, name) values (%s, 'COPY')", [self._run_id])

    def prepare(self, rollouts: list[Rollout]) -> None:
        self._first = flatten(as_batch(self._run_id, rollouts[:1]))
        self._rows = flatten(as_batch(self._run_id, rollouts[1:]))

    def settle(self) -> None:
        by_copy(self._connection, self._first)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        """Nothing: the rows are there."""

    def finish(self) -> None:
        by_copy(self._connection, self._rows)

    def close(self) -> None:
        self._connection.close()

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        with database() as connection:
            row = connection.execute(
                "select count(*) from public.rollouts where training_run_id = %s", [(folder / "run").read_text()]
            ).fetchone()
        assert row is not None
        return {"metrics": 0, "rollouts": int(row[0])}
