"""The folder of an embedded stack: its paths, and checks that it can be used."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmanus_rl._private import make_private
from openmanus_rl.errors import StackError

# A new database takes about 50 MB and its write-ahead log starts with 16 MB; the rest is working space.
REQUIRED_FREE_MB = 200


@dataclass(frozen=True, slots=True)
class Home:
    """Paths of one embedded stack."""

    root: Path

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    @property
    def keys(self) -> Path:
        return self.root / "keys.json"

    @property
    def stack(self) -> Path:
        return self.root / "stack.json"

    @property
    def lock(self) -> Path:
        return self.root / "stack.lock"

    @property
    def state(self) -> Path:
        """State kept between starts: the ports, and the gateway version that created the system schema."""
        return self.root / "state.json"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def postgres_log(self) -> Path:
        return self.logs / "postgres.log"

    @property
    def gateway_log(self) -> Path:
        return self.logs / "gateway.log"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    def prepare(self) -> None:
        """Create the folder and its subfolders, accessible to the owner only."""
        try:
            if not self.root.exists():
                make_private(self.root)
            for folder in (self.storage, self.logs, self.cache):
                make_private(folder)
            # Keep the group execute bit: an account that runs Postgres may need it to traverse the folder.
            if self.root.stat().st_uid == os.geteuid() and self.root.stat().st_mode & 0o067:
                self.root.chmod(0o700)
            # Only a real write detects a read-only file system: mkdir succeeds on existing folders.
            with tempfile.NamedTemporaryFile(dir=self.root, prefix=".writable-"):
                pass
        except OSError as error:
            if _is_full(error) and self.postgres.exists():
                return  # The existing data may still be readable; a later step reports what does not fit.
            raise _unusable(self.root, error) from error

    def require_free_space(self) -> None:
        """Refuse to start if Postgres would soon run out of disk space."""
        free_mb = self.free_mb()
        if free_mb < REQUIRED_FREE_MB:
            raise StackError(
                f"the disk of {self.root} has {free_mb} MB free, and the embedded stack needs {REQUIRED_FREE_MB} MB; "
                "free some space, or set OPENMANUS_RL_HOME to a folder on another disk"
            )

    def free_mb(self) -> int:
        """Return the free space on the home's disk."""
        return free_bytes(self.root) // 2**20


def free_bytes(folder: Path) -> int:
    """Return the free space on a folder's disk."""
    return shutil.disk_usage(folder).free


def disk_bytes(folder: Path) -> int:
    """Return the bytes that a folder takes on disk; files removed meanwhile are ignored."""
    total = 0
    for parent, _, names in os.walk(folder, onerror=lambda _: None):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def write_private_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file atomically; only its owner may read it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if there is no file, or no JSON object in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return None
    return content if isinstance(content, dict) else None


def start_error(root: Path, error: OSError) -> StackError:
    """Return the error for a start that could not read or write a file of the home."""
    if _is_full(error):
        return StackError(f"the disk of {root} is full; free some space and start again; no committed data is lost")
    return StackError(f"the stack of {root} could not be started: {error}")


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _unusable(root: Path, error: OSError) -> StackError:
    way_out = "set OPENMANUS_RL_HOME to a folder that you can write to"
    if error.errno == errno.EROFS:
        return StackError(f"{root} is on a read-only file system; {way_out}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return StackError(f"no permission to write to {error.filename or root}; {way_out}")
    if _is_full(error):
        return StackError(
            f"the disk of {root} is full (0 MB free, {REQUIRED_FREE_MB} MB needed); free some space, or {way_out}"
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StackError(f"{root} is, or lies under, a file that is not a folder; {way_out}")
    return StackError(f"{root} cannot be used for the embedded stack: {error.strerror}; {way_out}")
