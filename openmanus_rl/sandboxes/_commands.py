"""Local commands that end with this process, together with everything that they started."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

from openmanus_rl import _child
from openmanus_rl.sandboxes.base import SandboxError
from openmanus_rl.sandboxes.spec import Resources

__all__ = ["GUARD", "Collector", "GuardedCommand", "as_arguments"]

GUARD = Path(__file__).resolve().with_name("_guard.py")
_KILL_SECONDS = 10.0
_CHUNK_BYTES = 64 * 1024
# The kernel ends a guard with the thread that started it, so that one must be there until the process ends.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-spawner")


def _renew_spawner() -> None:
    # A forked process has none of its parent's threads.
    global _spawner
    _spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-spawner")


os.register_at_fork(after_in_child=_renew_spawner)


def as_arguments(command: str | Sequence[str]) -> list[str]:
    """Return a command as a list; a string is for the shell."""
    return ["sh", "-c", command] if isinstance(command, str) else list(command)


class GuardedCommand:
    """A running command, below a guard process that knows all of its descendants."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        resources: Resources,
        takes_input: bool = False,
        merge_output: bool = False,
    ) -> None:
        self._status, theirs = os.pipe()
        request = {"command": list(command), "limits": _limits(resources), "parent": os.getpid(), "status": theirs}
        try:
            self._guard: subprocess.Popen[bytes] = _spawner.submit(
                subprocess.Popen,
                _child.script(GUARD, json.dumps(request)),
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merge_output else subprocess.PIPE,
                pass_fds=(theirs,),
                start_new_session=True,
            ).result()
        except (OSError, ValueError) as error:
            os.close(self._status)
            raise SandboxError(f"{' '.join(command)!r:.200} could not be started: {error}") from error
        finally:
            os.close(theirs)
        self.stdin, self.stdout, self.stderr = self._guard.stdin, self._guard.stdout, self._guard.stderr
        self.exit_code: int | None = None
        self._lock = threading.Lock()
        self._has_ended = False

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until the command has ended, whatever it left running; return False if it has not."""
        with self._lock:
            if self._has_ended:
                return True
            poll = select.poll()
            poll.register(self._status, select.POLLIN | select.POLLHUP)
            if not poll.poll(max(0.0, timeout_seconds) * 1000):
                return False
            answer = os.read(self._status, 64)
            os.close(self._status)
            self._has_ended = True
            if answer:
                code = int(answer)
                self.exit_code = code if code >= 0 else 128 - code
            return True

    @property
    def is_running(self) -> bool:
        """Return whether it, or something that it started, still runs."""
        return self._guard.poll() is None

    def kill(self) -> None:
        """End it and everything that it started."""
        with suppress(ProcessLookupError):
            self._guard.send_signal(signal.SIGTERM)
        try:
            self._guard.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()


class Collector(threading.Thread):
    """Keeps the beginning of an output, and reads on for as long as somebody writes."""

    def __init__(self, stream: IO[bytes], limit_bytes: int) -> None:
        super().__init__(daemon=True, name="sandbox-output")
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._kept = bytearray()
        self.is_truncated = False
        self.start()

    def run(self) -> None:
        """Read until the end."""
        with suppress(OSError, ValueError), self._stream:
            while chunk := os.read(self._stream.fileno(), _CHUNK_BYTES):
                room = self._limit_bytes - len(self._kept)
                self._kept += chunk[:room]
                self.is_truncated |= len(chunk) > room

    def content(self, grace_seconds: float) -> bytes:
        """Return what came; a process that was left in the background may hold the output open, so don't wait long."""
        self.join(grace_seconds)
        return bytes(self._kept)


def _limits(resources: Resources) -> dict[str, int]:
    limits = {"RLIMIT_AS": resources.memory, "RLIMIT_NPROC": resources.pids, "RLIMIT_FSIZE": resources.disk}
    return {"RLIMIT_CORE": 0} | {name: limit for name, limit in limits.items() if limit is not None}
