"""stack.json and stack.lock: how to reach the stack of a home, and the lock that shows it runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from openmanus_rl.errors import StackError
from openmanus_rl.local.home import Home, read_json, write_private_json

_HOLDER_WIDTH = 20


@dataclass(frozen=True, slots=True)
class StackInfo:
    """How to reach a running stack."""

    pid: int
    version: str
    url: str
    port: int
    database_url: str
    recorder_url: str
    postgres_port: int
    postgres_version: str
    publishable_key: str
    secret_key: str
    jwt_secret: str
    dashboard_url: str
    started_at: str
    public_url: str | None = None
    """What other machines call it, if it serves a team."""
    external: str = ""
    """The Postgres that somebody else runs; empty for the embedded one."""

    def __repr__(self) -> str:
        return f"StackInfo(pid={self.pid}, url={self.url!r})"  # A traceback must not carry secrets.

    def write(self, home: Home) -> None:
        """Write stack.json, which programs of this user read."""
        write_private_json(home.stack, asdict(self))


def read_stack(home: Home) -> StackInfo | None:
    """Return the content of stack.json; None if it is missing or incomplete."""
    content = read_json(home.stack)
    if content is None:
        return None
    known = {field.name: content[field.name] for field in fields(StackInfo) if field.name in content}
    try:
        return StackInfo(**known)
    except TypeError:
        return None


class StackLock:
    """The lock for running the stack of a home; the system releases it when the process ends, even if killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; return False if another process holds it."""
        descriptor = _open(self._path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        _write_holder(descriptor, str(os.getpid()))
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            _write_holder(self._descriptor, "")
            os.close(self._descriptor)
            self._descriptor = None


def supervisor_pid(home: Home) -> int | None:
    """Return the pid that holds the lock of a home; None if it is free."""
    try:
        descriptor = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise StackError(f"{home.root} belongs to another user; run as that user, or set OPENMANUS_RL_HOME") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(ValueError):
            return int(os.read(descriptor, 32))
        return -1  # Held, but the holder has not written its pid yet.
    finally:
        os.close(descriptor)
    return None


@contextmanager
def held_lock(home: Home) -> Iterator[bool]:
    """Hold the lock of a home for the block; yields False if another process holds it."""
    lock = StackLock(home.lock)
    acquired = lock.acquire()
    try:
        yield acquired
    finally:
        lock.release()


def _write_holder(descriptor: int, holder: str) -> None:
    # Fixed width and in place: on a full disk a file can be overwritten, but not extended.
    os.pwrite(descriptor, f"{holder:<{_HOLDER_WIDTH}}\n".encode(), 0)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StackError(
            f"{path} cannot be opened: {error.strerror}; set OPENMANUS_RL_HOME to a folder of your own"
        ) from error
