"""The video of a rollout: webm with a duration and an index, so that players can jump in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from openmanus_rl.agents.browser.chromium import find_ffmpeg

__all__ = ["duration_seconds", "is_seekable", "make_seekable"]

_DURATION = re.compile(rb"Duration: (\d+):(\d+):(\d+(?:\.\d+)?)")
# The id of the element of Matroska files that lists where the key frames are.
_CUES = b"\x1c\x53\xbb\x6b"
_LIMIT_SECONDS = 300


def duration_seconds(path: Path) -> float | None:
    """Return the length that a video's header says; None if it says none."""
    done = subprocess.run(
        [find_ffmpeg(), "-hide_banner", "-i", str(path)], capture_output=True, check=False, timeout=_LIMIT_SECONDS
    )
    found = _DURATION.search(done.stderr)
    if found is None:
        return None
    hours, minutes, seconds = (float(part) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def is_seekable(path: Path) -> bool:
    """Return whether a video has a duration and an index."""
    return _CUES in path.read_bytes() and duration_seconds(path) is not None


def make_seekable(path: Path) -> Path | None:
    """Return the video with a duration and an index, copied if it has none; None if there is nothing to play."""
    if not path.is_file() or path.stat().st_size == 0:
        return None
    if is_seekable(path):
        return path
    copy = path.with_name(f"{path.stem}-indexed.webm")
    command = [find_ffmpeg(), "-v", "error", "-y", "-i", str(path), "-c", "copy", str(copy)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=_LIMIT_SECONDS)
    return copy if done.returncode == 0 and copy.exists() and is_seekable(copy) else None
