"""W&B offline: metrics and the text of turns with `log`; durable after `finish`, in its run file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from workloads import Messages, Rollout

from writers.base import Writer, turn_line

_BLOCK_BYTES = 32768
_RECORD_HEADER_BYTES = 7
_FILE_HEADER_BYTES = 7
_WHOLE, _LAST = 1, 4


class WandbWriter(Writer):
    """A run in offline mode; turns go into its history as strings, which is its fastest way for text."""

    def open(self) -> None:
        os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=str(self.folder))
        os.environ.update(WANDB_CACHE_DIR=str(self.folder), WANDB_CONFIG_DIR=str(self.folder))
        import wandb

        settings = wandb.Settings(x_disable_stats=True, console="off", x_disable_meta=True, disable_git=True)
        self._run = wandb.init(project="bench", settings=settings)

    def log_metrics(self, values: Mapping[str, float], step: int) -> None:
        # As a value: it drops rows whose own step is behind, and turns count as steps too.
        self.watch.call(self._run.log, {**values, "trainer_step": step})

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        self.watch.call(self._run.log, {"rollout": number, "task_description": rollout["task_description"]})
        for position, turn in enumerate(rollout["turns"]):
            self.watch.call(self._run.log, turn_line(number, position, turn))
        total = sum(turn["reward"] for turn in rollout["turns"])
        self.watch.call(self._run.log, {"rollout": number, "status": "success", "total_reward": total})

    def log_chat(self, number: int, states: list[Messages]) -> None:
        for position, messages in enumerate(states):
            self.watch.call(self._run.log, turn_line(number, position, {"messages": messages, "reward": 1.0}))

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
            found["metrics"] += bool(names & {"actor/a", "critic/a"})
            found["rollouts"] += "total_reward" in names
        return found


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a run file (LevelDB's log format) as far as they are whole."""
    place, parts = _FILE_HEADER_BYTES, b""
    while place + _RECORD_HEADER_BYTES <= len(data):
        left = _BLOCK_BYTES - place % _BLOCK_BYTES
        if left < _RECORD_HEADER_BYTES:
            place += left
            continue
        size = int.from_bytes(data[place + 4 : place + 6], "little")
        kind = data[place + 6]
        end = place + _RECORD_HEADER_BYTES + size
        if kind == 0 or end > len(data):
            return
        parts += data[place + _RECORD_HEADER_BYTES : end]
        if kind in (_WHOLE, _LAST):
            yield parts
            parts = b""
        place = end
