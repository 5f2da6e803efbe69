"""Upload checkpoint folders, packed in the background."""

from __future__ import annotations

import logging
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openmanus_rl.managers.storage.buckets import BUCKETS, format_size
from openmanus_rl.recorder import Run

__all__ = ["CheckpointPacker"]

_logger = logging.getLogger(__name__)
_BUCKET = "model-checkpoints"


class CheckpointPacker:
    """Packs each checkpoint folder into a zip file and records it, in the background."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def send(self, run: Run, folder: Path, *, step: int, metadata: Mapping[str, Any]) -> None:
        """Start packing the checkpoint folder of a step."""
        thread = threading.Thread(
            target=self._pack, args=(run, folder, step, dict(metadata)), name=f"openmanus-rl checkpoint {step}"
        )
        self._threads = [old for old in self._threads if old.is_alive()] + [thread]
        thread.start()

    def wait(self) -> None:
        """Wait until all folders are packed."""
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _pack(self, run: Run, folder: Path, step: int, metadata: dict[str, Any]) -> None:
        try:
            size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            limit_bytes = BUCKETS[_BUCKET].limit_bytes
            if size_bytes > limit_bytes:
                size, limit = format_size(size_bytes), format_size(limit_bytes)
                self._give_up(run, step, metadata, f"it has {size}, and the limit of bucket {_BUCKET} is {limit}")
                return
            with tempfile.TemporaryDirectory(prefix="openmanus-rl-") as scratch:
                packed = Path(scratch) / f"{folder.name}.zip"
                _zip(folder, packed)
                run.log_checkpoint(step, step=step, file=packed, metadata=metadata)
        except OSError as error:
            # For example removed by the trainer (save_total_limit), or a full disk.
            self._give_up(run, step, metadata, str(error))

    def _give_up(self, run: Run, step: int, metadata: dict[str, Any], reason: str) -> None:
        _logger.warning("checkpoint of step %d was not uploaded: %s", step, reason)
        run.log_checkpoint(step, step=step, metadata={**metadata, "not_uploaded": reason})


def _zip(folder: Path, packed: Path) -> None:
    # Not compressed: weights do not compress well, and training needs the CPU.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
