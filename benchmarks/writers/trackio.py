"""Trackio, local: metrics with `log`, rollouts as a `Trace` each; durable after `finish`."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.workloads import Rollout
from benchmarks.writers import Writer

_PROJECT = "bench"
# Its sender wakes up twice a second: by then the database and its tables are there.
_WARM_SECONDS = 0.7


class TrackioWriter(Writer):
    """A run in a database of its own."""

    def open(self) -> None:
        # Read when it is imported.
        os.environ["TRACKIO_DIR"] = str(self.folder)
        import trackio

        self._trace = trackio.Trace
        quiet = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False}
        self._run = trackio.init(project=_PROJECT, name="benchmark", **quiet)

    def settle(self) -> None:
        time.sleep(_WARM_SECONDS)

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.call(self._run.log, dict(values), step=step)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        turns = rollout["turns"]
        if "messages" in turns[0]:
            for turn in turns:
                self.call(self._log_trace, number, turn["messages"], {"reward": turn["reward"]})
        else:
            self.call(self._log_whole, number, rollout)

    def _log_whole(self, number: int, rollout: Rollout) -> None:
        rewards = [turn["reward"] for turn in rollout["turns"]]
        metadata = {"task_description": rollout["task_description"], "status": "success", "rewards": rewards}
        self._log_trace(number, [message for turn in rollout["turns"] for message in _messages(turn)], metadata)

    def _log_trace(self, number: int, messages: list[dict[str, Any]], metadata: dict[str, Any]) -> None:
        self._run.log({"rollout": self._trace(messages, metadata=metadata)}, step=number)

    def finish(self) -> None:
        self._run.finish()

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        with closing(sqlite3.connect(folder / f"{_PROJECT}.db")) as connection:
            # A trace leaves an empty row there.
            ((metrics,),) = connection.execute("select count(*) from metrics where length(metrics) > 2")
            ((traces,),) = connection.execute("select count(distinct step) from traces")
        return {"metrics": metrics, "rollouts": traces}


def _messages(turn: Mapping[str, Any]) -> list[dict[str, Any]]:
    call = turn["tool_calls"][0]
    called = {"id": "0", "type": "function", "function": {"name": call["tool_name"], "arguments": call["tool_input"]}}
    said = {"role": "assistant", "content": turn["action"], "reasoning_content": turn["thought"]}
    return [
        {"role": "user", "content": turn["observation"]},
        said | {"tool_calls": [called]},
        {"role": "tool", "content": call["tool_output"], "tool_call_id": "0"},
    ]
