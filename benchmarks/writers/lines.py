"""Plain JSONL, and W&B offline: a line for the beginning and the end of a rollout, and one for each turn."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.workloads import Rollout
from benchmarks.writers import Writer, total_reward

_BLOCK_BYTES = 32768
_HEADER_BYTES = 7
_WHOLE, _LAST = 1, 4


class LineWriter(Writer):
    """A writer that takes any record."""

    @abstractmethod
    def write(self, record: dict[str, Any]) -> None:
        """Write a line of a rollout."""

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        self.call(self.write, {"rollout": number, "task_description": rollout["task_description"]})
        for position, turn in enumerate(rollout["turns"]):
            self.call(self.write, {"rollout": number, "turn": position, **turn})
        self.call(self.write, {"rollout": number, "status": "success", "total_reward": total_reward(rollout)})


class JsonlWriter(LineWriter):
    """`json.dumps` and a write to an open file: one for metrics, one for rollouts. Durable when flushed and synced."""

    def open(self) -> None:
        self._metrics, self._rollouts = ((self.folder / f"{name}.jsonl").open("a") for name in ("metrics", "rollouts"))

    def write(self, record: dict[str, Any]) -> None:
        file = self._rollouts if "rollout" in record else self._metrics
        file.write(json.dumps(record) + "\n")

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.call(self.write, {"step": step, **values})

    def finish(self) -> None:
        for file in (self._metrics, self._rollouts):
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        metrics = (folder / "metrics.jsonl").read_bytes().count(b"\n")
        rollouts = (folder / "rollouts.jsonl").read_bytes().count(b'"status": "success"')
        return {"metrics": metrics, "rollouts": rollouts}


def keep_offline(folder: Path) -> None:
    """Let W&B, which is imported afterwards, write to this folder alone."""
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=str(folder))
    os.environ.update(WANDB_CACHE_DIR=str(folder), WANDB_CONFIG_DIR=str(folder))


class WandbWriter(LineWriter):
    """A run in offline mode; turns go into its history as strings, its fastest way for text. Durable after `finish`."""

    def open(self) -> None:
        keep_offline(self.folder)
        import wandb

        settings = wandb.Settings(x_disable_stats=True, console="off", x_disable_meta=True, disable_git=True)
        self._run = wandb.init(project="bench", settings=settings)

    def write(self, record: dict[str, Any]) -> None:
        self._run.log(record)

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        # As a value: it drops rows whose own step is behind, and turns count as steps too.
        self.call(self._run.log, {**values, "trainer_step": step})

    def finish(self) -> None:
        self._run.finish()

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        from wandb.proto import wandb_internal_pb2

        (path,) = folder.glob("wandb/offline-run-*/*.wandb")
        found = {"metrics": 0, "rollouts": 0}
        for data in _records(path.read_bytes()):
            record = wandb_internal_pb2.Record.FromString(data)
            names = {item.key or "/".join(item.nested_key) for item in record.history.item}
            found["metrics"] += "actor/a" in names
            found["rollouts"] += "total_reward" in names
        return found


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a run file (LevelDB's log format) as far as they are whole."""
    place, parts = _HEADER_BYTES, b""
    while place + _HEADER_BYTES <= len(data):
        left = _BLOCK_BYTES - place % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            place += left
            continue
        size = int.from_bytes(data[place + 4 : place + 6], "little")
        kind = data[place + 6]
        end = place + _HEADER_BYTES + size
        if kind == 0 or end > len(data):
            return
        parts += data[place + _HEADER_BYTES : end]
        if kind in (_WHOLE, _LAST):
            yield parts
            parts = b""
        place = end
