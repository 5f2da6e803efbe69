"""Detects a part of the stack that hangs: it runs, but does not respond."""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import psutil

from openmanus_rl.local.health import check_health

_logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0
_PAUSE_AFTER_SILENCE_SECONDS = 1.0
_ANSWER_TIMEOUT_SECONDS = 5.0
_HEALTH_TIMEOUT_SECONDS = 10.0
# A silent gateway that uses the CPU may be busy with a large request; one that does not use it hangs.
_IDLE_CHECKS = 3
_BUSY_SECONDS = 120.0
# Each health check begins a transaction, so a working connection pool is never silent for long.
_DATABASE_SILENCE_SECONDS = 60.0
_POSTGRES_SILENCE_SECONDS = 30.0

# Ignore the proxies of the environment: they must not be used for loopback addresses.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Watched(Protocol):
    """A part of the stack; its `serving_pid` is None while it is not ready."""

    @property
    def serving_pid(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a process must be replaced."""

    pid: int
    reason: str


class PostgresMonitor:
    """Detects a Postgres that has not accepted connections for too long."""

    def __init__(self, part: Watched, *, answers: Callable[[], bool]) -> None:
        self._part = part
        self._answers = answers
        self._pid: int | None = None
        self._silent_since: float | None = None

    def check(self, now: float) -> Complaint | None:
        """Try to connect once; return a complaint if all attempts have failed for too long."""
        pid = self._part.serving_pid
        if pid != self._pid:
            self._pid, self._silent_since = pid, None
        if pid is None or self._answers():
            self._silent_since = None
            return None
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since < _POSTGRES_SILENCE_SECONDS:
            return None
        return Complaint(pid, f"it has accepted no connection for {now - self._silent_since:.0f} s")

    @property
    def healthy(self) -> bool:
        """Whether Postgres accepted a connection at the last check."""
        return self._pid is not None and self._silent_since is None


class ExternalMonitor:
    """Knows whether a Postgres that somebody else runs accepts connections; it is theirs to restart."""

    def __init__(self, *, answers: Callable[[], bool]) -> None:
        self._answers = answers
        self.healthy = True

    def check(self, _now: float) -> None:
        """Try to connect once."""
        self.healthy = self._answers()


class GatewayMonitor:
    """Distinguishes a gateway that hangs from one that is busy."""

    def __init__(
        self,
        part: Watched,
        *,
        alive: Callable[[], float | None],
        healthy: Callable[[], bool],
        cpu_seconds: Callable[[int], float],
    ) -> None:
        self._part = part
        self._alive = alive
        self._healthy = healthy
        self._cpu_seconds = cpu_seconds
        self._pid: int | None = None
        self._silent_since: float | None = None
        self._last_cpu_seconds = -1.0
        self._idle_checks = 0

    def check(self, now: float, *, postgres_is_healthy: bool) -> Complaint | None:
        """Send a request once; return a complaint if it hangs, or cannot reach a Postgres that works."""
        pid = self._part.serving_pid
        if pid != self._pid:
            self._pid = pid
            self._forget()
        if pid is None:
            return None
        database_silence = self._alive()
        if database_silence is None:
            return self._check_silence(pid, now)
        self._forget()
        if not postgres_is_healthy or self._healthy() or database_silence < _DATABASE_SILENCE_SECONDS:
            return None
        return Complaint(
            pid, f"it has not reached Postgres for {database_silence:.0f} s, although Postgres accepts connections"
        )

    @property
    def silent(self) -> bool:
        """Whether it did not respond at the last check."""
        return self._silent_since is not None

    def _check_silence(self, pid: int, now: float) -> Complaint | None:
        cpu_seconds = self._cpu_seconds(pid)
        self._idle_checks = self._idle_checks + 1 if cpu_seconds == self._last_cpu_seconds else 0
        self._last_cpu_seconds = cpu_seconds
        self._silent_since = now if self._silent_since is None else self._silent_since
        if self._idle_checks >= _IDLE_CHECKS - 1:
            return Complaint(pid, "it does not respond and uses no CPU")
        if now - self._silent_since >= _BUSY_SECONDS:
            return Complaint(pid, f"it has used the CPU without responding for {now - self._silent_since:.0f} s")
        return None

    def _forget(self) -> None:
        self._silent_since, self._last_cpu_seconds, self._idle_checks = None, -1.0, 0


class Watch(threading.Thread):
    """Checks both parts every few seconds, in a thread, because a check may block and the supervisor must not."""

    def __init__(
        self, postgres: PostgresMonitor | ExternalMonitor, gateway: GatewayMonitor, *, on_complaint: Callable[[], None]
    ) -> None:
        super().__init__(name="stack-watch", daemon=True)
        self._postgres = postgres
        self._gateway = gateway
        self._on_complaint = on_complaint
        self._ended = threading.Event()
        self._complaints: dict[int, str] = {}

    def run(self) -> None:
        pause = _PAUSE_SECONDS
        while not self._ended.wait(pause):
            try:
                self._check()
            except Exception:  # The checks must go on, whatever went wrong.
                _logger.exception("the check of the stack failed")
            pause = (
                _PAUSE_AFTER_SILENCE_SECONDS if self._gateway.silent or not self._postgres.healthy else _PAUSE_SECONDS
            )

    def end(self) -> None:
        """Stop checking."""
        self._ended.set()

    def complaint_about(self, part: Watched) -> str | None:
        """Return and forget why the process of a part must be replaced."""
        pid = part.serving_pid
        return self._complaints.pop(pid, None) if pid is not None else None

    def _check(self) -> None:
        complaints = [
            self._postgres.check(time.monotonic()),
            self._gateway.check(time.monotonic(), postgres_is_healthy=self._postgres.healthy),
        ]
        # Only the results of the last check: a part that responds again stays.
        self._complaints = {complaint.pid: complaint.reason for complaint in complaints if complaint is not None}
        if self._complaints:
            self._on_complaint()


def watch(
    postgres: Watched | None, gateway: Watched, *, url: str, database_url: str, on_complaint: Callable[[], None]
) -> Watch:
    """Return a thread that checks a running stack; its Postgres is None where somebody else runs it."""

    def answers() -> bool:
        return postgres_answers(database_url)

    return Watch(
        ExternalMonitor(answers=answers) if postgres is None else PostgresMonitor(postgres, answers=answers),
        GatewayMonitor(
            gateway,
            alive=lambda: database_silence_seconds(url),
            healthy=lambda: check_health(url, timeout_seconds=_HEALTH_TIMEOUT_SECONDS).ok,
            cpu_seconds=_cpu_seconds,
        ),
        on_complaint=on_complaint,
    )


def diagnose(url: str, database_url: str, *, external: str = "") -> str:
    """Return which part of an unhealthy stack does not respond."""
    if database_silence_seconds(url) is None:
        return "the gateway does not respond; its supervisor restarts it within half a minute if it hangs"
    if external and not postgres_answers(database_url):
        return f"{external} does not respond; the gateway goes on as soon as it does"
    if not postgres_answers(database_url):
        return "Postgres does not respond; its supervisor restarts it within a minute if it hangs"
    return (
        "the gateway and Postgres respond, but the gateway cannot reach Postgres; its supervisor restarts the gateway"
    )


def postgres_answers(database_url: str) -> bool:
    """Return whether a Postgres responds, with a connection or with an error."""
    # Imported here because it is slow, and `status` needs it only if something is wrong.
    from openmanus_rl.transport.postgres import answers

    return answers(database_url, timeout_seconds=_ANSWER_TIMEOUT_SECONDS)


def database_silence_seconds(url: str) -> float | None:
    """Return how long ago the gateway last reached Postgres; None if the gateway does not respond."""
    try:
        with _direct.open(f"{url}/gateway/alive", timeout=_ANSWER_TIMEOUT_SECONDS) as response:
            return float(json.load(response)["database_silent_ms"]) / 1000
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    return 0.0  # It responds, although in the format of another version.


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
