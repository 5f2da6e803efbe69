"""Writes the frames of one episode to an mp4 file as they come, in constant memory."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from openmanus_rl.integrations._extras import require

__all__ = ["Video", "as_frame", "require_encoder"]

_logger = logging.getLogger(__name__)


def require_encoder(*, extra: str) -> None:
    """Refuse at once, not at the first episode, where there is no encoder."""
    require("imageio_ffmpeg", extra=extra)


def as_frame(rendered: Any) -> np.ndarray[Any, Any] | None:
    """Return what an environment rendered as height x width x RGB; None if it is no picture."""
    if not isinstance(rendered, np.ndarray) or rendered.dtype != np.uint8:
        return None
    if rendered.ndim == 2:
        return np.repeat(rendered[:, :, np.newaxis], 3, axis=2)
    if rendered.ndim != 3 or rendered.shape[2] not in (3, 4):
        return None
    return rendered[:, :, :3]


class Video:
    """A video in the making; what the encoder cannot do costs the video, never the training."""

    def __init__(self, *, frames_per_second: float) -> None:
        self._frames_per_second = frames_per_second
        self._folder = tempfile.TemporaryDirectory(prefix="openmanus-rl-video-")
        self._size: tuple[int, int] | None = None
        self._encoder: Generator[None, Any, None] | None = None
        self._failed = False

    @property
    def path(self) -> Path:
        """Where the file is, until `discard`."""
        return Path(self._folder.name) / "episode.mp4"

    def add(self, frame: np.ndarray[Any, Any]) -> None:
        """Append a frame; one of another size than the first is left out."""
        # Players want even sides; at most one line of pixels goes.
        height, width = frame.shape[0] // 2 * 2, frame.shape[1] // 2 * 2
        if self._failed or not height or not width:
            return
        try:
            if self._encoder is None:
                self._size = (width, height)
                self._encoder = self._start()
            if self._size == (width, height):
                self._encoder.send(np.ascontiguousarray(frame[:height, :width]))
        except OSError as error:
            self._failed = True
            _logger.warning("a video is given up: the encoder failed (%s)", error)

    def finish(self) -> Path | None:
        """Close the file and return its path; None if there is nothing to see."""
        if self._encoder is not None:
            self._encoder.close()
        written = not self._failed and self.path.exists() and self.path.stat().st_size > 0
        return self.path if written else None

    def discard(self) -> None:
        """Remove the file."""
        if self._encoder is not None:
            self._encoder.close()
        self._folder.cleanup()

    def _start(self) -> Generator[None, Any, None]:
        library: Any = require("imageio_ffmpeg", extra="gymnasium")
        encoder: Generator[None, Any, None] = library.write_frames(
            self.path,
            self._size,
            fps=self._frames_per_second,
            codec="libx264",
            macro_block_size=1,
            ffmpeg_log_level="error",
            # One thread: training needs the others. The index comes first so that browsers play while they load.
            output_params=["-preset", "veryfast", "-threads", "1", "-movflags", "+faststart"],
        )
        next(encoder)
        return encoder
