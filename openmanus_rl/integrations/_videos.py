"""Encodes the frames of an episode to an mp4 file, in constant memory."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from openmanus_rl.integrations._extras import require

__all__ = ["Video", "as_frame", "require_encoder"]

_logger = logging.getLogger(__name__)


def require_encoder(*, extra: str) -> None:
    """Raise now, not at the first episode, if there is no encoder."""
    require("imageio_ffmpeg", extra=extra)


def as_frame(rendered: Any) -> np.ndarray[Any, Any] | None:
    """Return a rendered frame as height x width x RGB; None if it is not an image."""
    if not isinstance(rendered, np.ndarray) or rendered.dtype != np.uint8:
        return None
    if rendered.ndim == 2:
        return np.repeat(rendered[:, :, np.newaxis], 3, axis=2)
    if rendered.ndim != 3 or rendered.shape[2] not in (3, 4):
        return None
    return rendered[:, :, :3]


class Video:
    """A video that is being encoded; an error of the encoder discards the video, and training continues."""

    def __init__(self, *, frames_per_second: float) -> None:
        self._frames_per_second = frames_per_second
        # Encoding starts with the second frame: episodes that are discarded mostly have only one.
        self._first: np.ndarray[Any, Any] | None = None
        self._encoding: _Encoding | None = None
        self._failed = False

    def add(self, frame: np.ndarray[Any, Any]) -> None:
        """Append a frame; frames of another size than the first are skipped."""
        # Players require even sides: remove at most one line of pixels.
        height, width = frame.shape[0] // 2 * 2, frame.shape[1] // 2 * 2
        frame = np.ascontiguousarray(frame[:height, :width])
        if not frame.size:
            return
        if self._first is None:
            self._first = frame.copy()
        elif frame.shape == self._first.shape:
            self._write(frame)

    def finish(self) -> Path | None:
        """Close the file and return its path, valid until `discard`; None if there is no video."""
        if self._first is not None and self._encoding is None:
            self._write(None)
        if self._encoding is None:
            return None
        self._encoding.close()
        path = self._encoding.path
        return path if not self._failed and path.exists() and path.stat().st_size > 0 else None

    def discard(self) -> None:
        """Remove the file."""
        if self._encoding is not None:
            self._encoding.discard()

    def _write(self, frame: np.ndarray[Any, Any] | None) -> None:
        if self._failed or self._first is None:
            return
        try:
            if self._encoding is None:
                self._encoding = _Encoding(self._first, frames_per_second=self._frames_per_second)
                self._encoding.frames.send(self._first)
            if frame is not None:
                self._encoding.frames.send(frame)
        except OSError as error:
            self._failed = True
            _logger.warning("a video was not recorded: the encoder failed (%s)", error)


class _Encoding:
    """A running encoder and its file; both are removed in this order, at the latest when the process ends."""

    def __init__(self, first: np.ndarray[Any, Any], *, frames_per_second: float) -> None:
        library: Any = require("imageio_ffmpeg", extra="gymnasium")
        folder = Path(tempfile.mkdtemp(prefix="openmanus-rl-video-"))
        self.path = folder / "episode.mp4"
        self.frames: Generator[None, Any, None] = library.write_frames(
            self.path,
            (first.shape[1], first.shape[0]),
            fps=frames_per_second,
            codec="libx264",
            macro_block_size=1,
            ffmpeg_log_level="error",
            # One thread, because training needs the CPU. The index comes first, so that browsers can stream the file.
            output_params=["-preset", "veryfast", "-threads", "1", "-movflags", "+faststart"],
        )
        self.close = self.frames.close
        self.discard = weakref.finalize(self, _discard, self.frames, folder)
        next(self.frames)


def _discard(frames: Generator[None, Any, None], folder: Path) -> None:
    frames.close()
    shutil.rmtree(folder, ignore_errors=True)
