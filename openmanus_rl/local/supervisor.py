"""Starts Postgres and the gateway, restarts them if they end, and stops both in order.

Where somebody else runs Postgres, only the gateway is kept alive.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Protocol

import psutil

from openmanus_rl.errors import OpenManusError
from openmanus_rl.local import gateway_process
from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.home import Home
from openmanus_rl.local.logs import rotate_if_large
from openmanus_rl.local.progress import Progress
from openmanus_rl.local.serving import Serving
from openmanus_rl.local.stack_file import StackInfo, read_stack
from openmanus_rl.local.startup import Stack, start_stack
from openmanus_rl.local.watch import Watch, watch

_logger = logging.getLogger(__name__)

_FIRST_BACKOFF_SECONDS = 0.2
_LAST_BACKOFF_SECONDS = 30.0
# After a part ran this long, its next failure starts with the shortest backoff.
_STABLE_SECONDS = 60.0
_FAILURES = (OpenManusError, OSError, psutil.Error, subprocess.SubprocessError)
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Part(Protocol):
    """A process that the supervisor keeps alive."""

    def start(self) -> None: ...

    def exit_code(self) -> int | None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    @property
    def serving_pid(self) -> int | None: ...


class KeptAlive:
    """A part that is restarted when it ends, with exponential backoff."""

    def __init__(self, name: str, part: Part) -> None:
        self.name = name
        self.part = part
        self._backoff_seconds = _FIRST_BACKOFF_SECONDS
        self._started_at = time.monotonic()
        self._retry_at: float | None = None

    def restart_if_due(self, now: float) -> float | None:
        """Restart the part if it ended and its backoff is over; return when to check again, None if it runs."""
        if self._retry_at is None:
            code = self.part.exit_code()
            if code is None:
                return None
            if now - self._started_at >= _STABLE_SECONDS:
                self._backoff_seconds = _FIRST_BACKOFF_SECONDS
            _logger.warning(
                "%s ended (%s); restarting in %.1f s", self.name, describe_exit(code), self._backoff_seconds
            )
            self._postpone(now)
        assert self._retry_at is not None
        if now < self._retry_at:
            return self._retry_at
        try:
            self.part.start()
        except _FAILURES as error:  # Retried forever: a full disk may have space later.
            self._postpone(now)
            _logger.error("%s did not restart: %s; next attempt in %.1f s", self.name, error, self._retry_at - now)
            return self._retry_at
        _logger.info("%s is running again", self.name)
        self._started_at, self._retry_at = time.monotonic(), None
        return None

    def replace(self, reason: str) -> None:
        """Kill a process that hangs, so that it is restarted."""
        _logger.warning("%s hangs: %s; killing it", self.name, reason)
        try:
            self.part.kill()
        except _FAILURES as error:  # The next check reports it again.
            _logger.error("%s could not be killed: %s", self.name, error)

    def _postpone(self, now: float) -> None:
        self._retry_at = now + self._backoff_seconds
        self._backoff_seconds = min(self._backoff_seconds * 2, _LAST_BACKOFF_SECONDS)


class Supervisor:
    """Runs a stack in this process until a stop signal; the caller holds the lock."""

    def __init__(
        self,
        *,
        home: Home,
        port: int | None,
        version: str,
        database: ExternalDatabase | None = None,
        serving: Serving | None = None,
    ) -> None:
        self._home = home
        self._database = database
        self._serving = serving
        self._port = port
        self._version = version
        self._stopping = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)

    def run(self, *, progress: Progress, on_ready: Callable[[StackInfo], None]) -> None:
        """Start the stack, call `on_ready`, and keep it running until a stop signal."""
        previous = self._listen_to_signals()
        stack: Stack | None = None
        try:
            stack = start_stack(
                self._home,
                port=self._port,
                previous_port=self._clear_crash(),
                version=self._version,
                progress=progress,
                stopping=lambda: self._stopping,
                serving=self._serving,
                database=self._database,
            )
            if stack is not None:
                on_ready(self._publish(stack))
                self._keep_alive(stack)
        finally:
            if stack is not None:
                self._stop(stack)
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)

    def _clear_crash(self) -> int | None:
        """Clean up after a supervisor that was killed; return the port of its gateway, if there was one."""
        crashed = read_stack(self._home)  # We hold the lock, so the process that wrote it has ended.
        self._home.stack.unlink(missing_ok=True)
        if crashed is None:
            return None
        gateway_process.end_left_over(self._home)
        return crashed.port

    def _publish(self, stack: Stack) -> StackInfo:
        base = stack.base
        info = StackInfo(
            pid=os.getpid(),
            version=self._version,
            url=stack.url,
            port=stack.gateway.port,
            database_url=base.database_url,
            recorder_url=base.recorder_url,
            postgres_port=base.postgres_port,
            postgres_version=base.postgres_version,
            publishable_key=base.keys.publishable_key,
            secret_key=base.keys.secret_key,
            jwt_secret=base.keys.jwt_secret,
            dashboard_url=f"{self._serving.public_url if self._serving else stack.url}/",
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            external=base.external,
            public_url=self._serving.public_url if self._serving else None,
        )
        info.write(self._home)
        _logger.info("serving at %s, Postgres on port %d", info.url, info.postgres_port)
        return info

    def _keep_alive(self, stack: Stack) -> None:
        # Postgres first: the gateway needs it.
        parts = [KeptAlive("Postgres", stack.postgres)] if stack.postgres is not None else []
        parts.append(KeptAlive("the gateway", stack.gateway))
        watching = watch(
            stack.postgres,
            stack.gateway,
            url=stack.url,
            database_url=stack.base.database_url,
            on_complaint=self._wake,
        )
        watching.start()
        try:
            self._supervise(parts, watching)
        finally:
            watching.end()

    def _supervise(self, parts: list[KeptAlive], watching: Watch) -> None:
        while not self._stopping:
            if not os.path.exists(self._home.lock):
                _logger.warning("%s was removed; stopping", self._home.root)
                return
            for kept in parts:
                if reason := watching.complaint_about(kept.part):
                    kept.replace(reason)
            now = time.monotonic()
            times = [due for part in parts if (due := part.restart_if_due(now)) is not None]
            rotate_if_large(self._home.postgres_log)
            rotate_if_large(self._home.gateway_log)
            # SIGCHLD interrupts the pause when a child ends; the timeout is only a fallback.
            self._sleep(max(0.05, min(times) - time.monotonic()) if times else 5.0)

    def _stop(self, stack: Stack) -> None:
        _logger.info("stopping")
        self._home.stack.unlink(missing_ok=True)
        stack.gateway.stop()
        if stack.postgres is not None:
            stack.postgres.stop()
        _logger.info("stopped")

    def _listen_to_signals(self) -> dict[signal.Signals, Any]:
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        previous: dict[signal.Signals, Any] = {}
        for number in _STOP_SIGNALS:
            previous[number] = signal.signal(number, self._on_stop_signal)
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _ignore)
        return previous

    def _on_stop_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _wake(self) -> None:
        with suppress(OSError):
            self._wake_writer.send(b"\0")

    def _sleep(self, seconds: float) -> None:
        select.select([self._wake_reader], [], [], seconds)
        with suppress(BlockingIOError):
            while self._wake_reader.recv(1024):
                pass


def describe_exit(code: int) -> str:
    """Describe how a process ended, for the log."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; without a handler, the signal would not reach the wake-up descriptor."""
