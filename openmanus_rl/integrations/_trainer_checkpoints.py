"""Checkpoint folders on their way to storage, packed beside training."""

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
    """Packs checkpoint folders into one zip file each and hands them to a run; training does not wait for it."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def send(self, run: Run, folder: Path, *, step: int, metadata: Mapping[str, Any]) -> None:
        """Begin to pack the folder of the checkpoint of a step."""
        thread = threading.Thread(
            target=self._pack, args=(run, folder, step, dict(metadata)), name=f"openmanus-rl checkpoint {step}"
        )
        self._threads = [old for old in self._threads if old.is_alive()] + [thread]
        thread.start()

    def wait(self) -> None:
        """Return when all that was begun is packed."""
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _pack(self, run: Run, folder: Path, step: int, metadata: dict[str, Any]) -> None:
        try:
            size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            limit_bytes = BUCKETS[_BUCKET].limit_bytes
            if size_bytes > limit_bytes:
                size, limit = format_size(size_bytes), format_size(limit_bytes)
                self._give_up(run, step, metadata, f"it has {size}, and bucket {_BUCKET} takes at most {limit}")
                return
            with tempfile.TemporaryDirectory(prefix="openmanus-rl-") as scratch:
                packed = Path(scratch) / f"{folder.name}.zip"
                _zip(folder, packed)
                run.log_checkpoint(step, step=step, file=packed, metadata=metadata)
        except OSError as error:
            # The trainer may have removed it meanwhile (save_total_limit), or the disk may be full.
            self._give_up(run, step, metadata, str(error))

    def _give_up(self, run: Run, step: int, metadata: dict[str, Any], reason: str) -> None:
        _logger.warning("checkpoint of step %d: not uploaded: %s", step, reason)
        run.log_checkpoint(step, step=step, metadata={**metadata, "not_uploaded": reason})


def _zip(folder: Path, packed: Path) -> None:
    # Stored, not deflated: weights do not get smaller, and training needs the cores.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
