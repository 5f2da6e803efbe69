"""Folders and files that nobody but their owner may read, whatever the umask is and whoever made them before."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_OTHERS = 0o077


def make_private(folder: Path) -> None:
    """Make a folder, and what is missing above it, for its owner alone; close one that is there and open to others."""
    # Not mkdir(parents=True), which makes all but the last one for everybody.
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
        with suppress(OSError):  # Some file systems know no rights.
            folder.chmod(0o700)


def append_private(path: Path) -> BinaryIO:
    """Open a file to append to, for its owner alone, also where it was open to others before."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
        with suppress(OSError):
            os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")
