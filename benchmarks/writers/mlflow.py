"""MLflow on its sqlite store: metrics with `log_metrics`, rollouts as traces, a span a turn."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from workloads import SCALARS, Messages, Rollout

from writers.base import Writer

_DATABASE = "mlflow.db"


class MlflowWriter(Writer):
    """Synchronous: a call returns when it is stored."""

    synchronous = True

    def open(self) -> None:
        os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
        os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = str(not self.synchronous).lower()
        import mlflow

        logging.getLogger("mlflow").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        self._mlflow = mlflow
        mlflow.set_tracking_uri(f"sqlite:///{self.folder / _DATABASE}")
        mlflow.set_experiment("bench")
        mlflow.start_run()

    def settle(self) -> None:
        self.finish()

    def log_metrics(self, values: Mapping[str, float], step: int) -> None:
        self.watch.call(self._mlflow.log_metrics, dict(values), step=step, synchronous=self.synchronous)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        call = self.watch.call
        root = call(
            self._mlflow.start_span_no_context,
            "rollout",
            inputs={"rollout": number, "task_description": rollout["task_description"]},
        )
        for turn in rollout["turns"]:
            call(self._log_span, root, {"observation": turn["observation"]}, turn)
        total = sum(turn["reward"] for turn in rollout["turns"])
        call(root.end, outputs={"status": "success", "total_reward": total})

    def _log_span(self, root: object, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> None:
        span = self._mlflow.start_span_no_context("turn", parent_span=root, inputs=inputs)
        span.end(outputs={name: value for name, value in outputs.items() if name not in inputs})

    def log_chat(self, number: int, states: list[Messages]) -> None:
        root = self._mlflow.start_span_no_context("rollout", inputs={"rollout": number})
        for messages in states:
            self.watch.call(self._log_span, root, {"messages": messages}, {"reward": 1.0})
        self.watch.call(root.end)

    def finish(self) -> None:
        self._mlflow.flush_async_logging()
        self._mlflow.flush_trace_async_logging()

    def close(self) -> None:
        self._mlflow.end_run()

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        with closing(sqlite3.connect(folder / _DATABASE)) as connection:
            points = connection.execute("select count(*) from metrics").fetchone()[0]
            traces = connection.execute("select count(*) from spans where name = 'rollout'").fetchone()[0]
        return {"metrics": points // SCALARS, "rollouts": traces}


class MlflowAsyncWriter(MlflowWriter):
    """Asynchronous: calls queue, `flush` waits."""

    synchronous = False
