"""The log files of the stack, and their rotation."""

from __future__ import annotations

import io
import logging
import logging.handlers
import os
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from openmanus_rl._private import append_private
from openmanus_rl.local.home import Home

_LIMIT_BYTES = 10 * 2**20


class _PrivateFileHandler(logging.handlers.RotatingFileHandler):
    """A rotating log that only its owner can read, regardless of the umask."""

    def _open(self) -> TextIO:  # type: ignore[override]
        return io.TextIOWrapper(append_private(Path(self.baseFilename)), encoding=self.encoding)


def configure_logging(home: Home) -> None:
    """Write the supervisor's log messages to its log file."""
    handler = _PrivateFileHandler(
        home.supervisor_log, maxBytes=_LIMIT_BYTES, backupCount=1, encoding="utf-8", delay=True
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s [%(process)d] %(message)s"))
    logger = logging.getLogger("openmanus_rl.local")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def rotate_if_large(path: Path) -> None:
    """Rotate a log that a child process writes, if it is large; on an error, such as a full disk, leave it as it is."""
    with suppress(OSError):
        if path.stat().st_size <= _LIMIT_BYTES:
            return
        # The child keeps the file open for appending: copy its end, then truncate it in place.
        with open(path, "rb") as source, append_private(path.with_name(f"{path.name}.1")) as target:
            target.truncate(0)
            source.seek(-_LIMIT_BYTES, os.SEEK_END)
            target.write(source.read(_LIMIT_BYTES))
        os.truncate(path, 0)
