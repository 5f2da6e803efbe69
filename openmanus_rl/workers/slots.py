"""A slot: a process that works on one rollout at a time, kept for the next one."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl import _child
from openmanus_rl._private import append_private
from openmanus_rl.sandboxes._marked import end_marked
from openmanus_rl.sandboxes.base import SandboxError
from openmanus_rl.settings import Settings
from openmanus_rl.workers.claims import Claim
from openmanus_rl.workers.owners import Owner
from openmanus_rl.workers.stopping import Reason

__all__ = ["Slot"]

_logger = logging.getLogger(__name__)

_RECEIVED_BYTES = 64 * 1024
# What agents print. It is for whoever looks for a fault, and is not to fill the disk.
_LARGEST_LOG_BYTES = 16 * 1024 * 1024


class Slot:
    """The worker's end of a slot."""

    def __init__(self, settings: Settings, *, owner: Owner, cache: Path, number: int) -> None:
        self._folder = owner.folder
        self.claim: Claim | None = None
        self.since = self.phase_since = 0.0
        self.phase = "provisioning"
        self.stop_by: float | None = None
        """When the process is killed if it has not stopped by then."""
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        self._unread = b""
        self._mark = f"{owner.id}/{number}"
        self._log = owner.folder / f"slot-{number}.log"
        with theirs, append_private(self._log) as log:
            self._process = subprocess.Popen(
                _child.command("openmanus_rl.workers.slot_process", str(theirs.fileno()), owner.id, str(cache)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Signals of the terminal are the worker's. Killing the group ends all that an agent started.
                start_new_session=True,
                pass_fds=[theirs.fileno()],
                env=_child.environment(
                    OPENMANUS_RL_HOME=str(settings.home), TMPDIR=str(owner.temporary), **{_child.MARK: self._mark}
                ),
            )

    @property
    def is_free(self) -> bool:
        """Return whether it has nothing to do."""
        return self.claim is None and self.is_running

    @property
    def is_running(self) -> bool:
        """Return whether its process is running."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return how its process ended."""
        return self._process.poll()

    def start(self, claim: Claim) -> None:
        """Begin an attempt."""
        folder = self._folder / claim.rollout_id
        self.claim, self.stop_by = claim, None
        self.phase, self.since = "provisioning", time.monotonic()
        self.phase_since = self.since
        self.socket.setblocking(True)
        try:
            self.socket.sendall(orjson.dumps({"claim": claim.content, "folder": str(folder)}) + b"\n")
        finally:
            self.socket.setblocking(False)

    def stop(self, reason: Reason, *, within_seconds: float) -> None:
        """Ask the attempt to end."""
        if self.claim is None:
            return
        if self.stop_by is None:
            self.stop_by = time.monotonic() + within_seconds
        with suppress(OSError):
            self.socket.sendall(orjson.dumps({"stop": reason, "lease_id": self.claim.lease_id}) + b"\n")

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that have come."""
        with suppress(BlockingIOError, ConnectionResetError):
            while received := self.socket.recv(_RECEIVED_BYTES):
                self._unread += received
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            yield orjson.loads(line)

    def kill(self) -> None:
        """End the process and everything that it started, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        try:
            # What has left the group.
            end_marked(_child.MARK, self._mark)
        except SandboxError as error:
            _logger.warning("slot %s: %s", self._mark, error)

    def limit_log(self) -> None:
        """Empty the log if it has become too large."""
        with suppress(OSError):
            if self._log.stat().st_size > _LARGEST_LOG_BYTES:
                os.truncate(self._log, 0)

    def close(self, *, within_seconds: float) -> None:
        """Let the process end, or kill it."""
        self.socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_seconds)
        self.kill()
