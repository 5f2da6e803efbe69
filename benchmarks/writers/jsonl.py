"""Plain JSONL: `json.dumps` and a write to an open file; durable when it is flushed and synced."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads import Messages, Rollout

from writers.base import Writer, turn_line


class JsonlWriter(Writer):
    """One file for metrics and one for rollouts, a line a call."""

    def open(self) -> None:
        self._files = {name: (self.folder / f"{name}.jsonl").open("a") for name in ("metrics", "rollouts")}

    def _write(self, name: str, record: Any) -> None:
        self._files[name].write(json.dumps(record) + "\n")

    def log_metrics(self, values: Mapping[str, float], step: int) -> None:
        self.watch.call(self._write, "metrics", {"step": step, **values})

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        begin = {"rollout": number, "task_description": rollout["task_description"]}
        self.watch.call(self._write, "rollouts", begin)
        for position, turn in enumerate(rollout["turns"]):
            self.watch.call(self._write, "rollouts", turn_line(number, position, turn))
        total = sum(turn["reward"] for turn in rollout["turns"])
        self.watch.call(self._write, "rollouts", {"rollout": number, "status": "success", "total_reward": total})

    def log_chat(self, number: int, states: list[Messages]) -> None:
        for position, messages in enumerate(states):
            record = turn_line(number, position, {"messages": messages, "reward": 1.0})
            self.watch.call(self._write, "rollouts", record)

    def finish(self) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        metrics = (folder / "metrics.jsonl").read_bytes().count(b"\n")
        rollouts = (folder / "rollouts.jsonl").read_bytes().count(b'"status": "success"')
        return {"metrics": metrics, "rollouts": rollouts}
