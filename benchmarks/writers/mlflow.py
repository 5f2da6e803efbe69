"""MLflow on its sqlite store: metrics with `log_metrics`, rollouts as traces with a span for each turn."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.workloads import SCALARS, Rollout
from benchmarks.writers import Writer, total_reward

_DATABASE = "mlflow.db"


class MlflowWriter(Writer):
    """Synchronous: a call returns when it is stored."""

    synchronous = True

    def open(self) -> None:
        os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
        os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = str(not self.synchronous).lower()
        import mlflow

        for library in ("mlflow", "alembic"):
            logging.getLogger(library).setLevel(logging.ERROR)
        self._mlflow = mlflow
        mlflow.set_tracking_uri(f"sqlite:///{self.folder / _DATABASE}")
        mlflow.set_experiment("bench")
        mlflow.start_run()

    def settle(self) -> None:
        self.finish()

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.call(self._mlflow.log_metrics, dict(values), step=step, synchronous=self.synchronous)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        begin = {"rollout": number, "task_description": rollout["task_description"]}
        root = self.call(self._mlflow.start_span_no_context, "rollout", inputs=begin)
        for turn in rollout["turns"]:
            self.call(self._log_span, root, turn)
        self.call(root.end, outputs={"status": "success", "total_reward": total_reward(rollout)})

    def _log_span(self, root: Any, turn: Mapping[str, Any]) -> None:
        seen = {"observation": turn["observation"]}
        span = self._mlflow.start_span_no_context("turn", parent_span=root, inputs=seen)
        span.end(outputs={name: value for name, value in turn.items() if name not in seen})

    def finish(self) -> None:
        self._mlflow.flush_async_logging()
        self._mlflow.flush_trace_async_logging()

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        with closing(sqlite3.connect(folder / _DATABASE)) as connection:
            ((points,),) = connection.execute("select count(*) from metrics")
            ((traces,),) = connection.execute("select count(*) from spans where name = 'rollout'")
        return {"metrics": points // SCALARS, "rollouts": traces}


class MlflowAsyncWriter(MlflowWriter):
    """Asynchronous: calls queue, `flush` waits."""

    synchronous = False
