"""Notices a part that runs but does not answer: a process can hang without ever ending."""

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
# A gateway that computes may be busy with one large request; one that does not even compute waits for nothing.
_IDLE_LOOKS = 3
_BUSY_SECONDS = 120.0
# The health check begins a transaction at each look, so that a pool which works is never silent for long.
_DATABASE_SILENCE_SECONDS = 60.0
_POSTGRES_SILENCE_SECONDS = 30.0

# Loopback must not go through a proxy that the environment names for the outside.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Watched(Protocol):
    """A part that is ready and may be asked; None while it is not."""

    @property
    def serving_pid(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a process must be replaced."""

    pid: int
    reason: str


class PostgresJudge:
    """Tells when Postgres has not answered for too long."""

    def __init__(self, part: Watched, *, answers: Callable[[], bool]) -> None:
        self._part = part
        self._answers = answers
        self._pid: int | None = None
        self._silent_since: float | None = None

    def look(self, now: float) -> Complaint | None:
        """Ask once; return a complaint when the silence has lasted."""
        pid = self._part.serving_pid
        if pid != self._pid:
            self._pid, self._silent_since = pid, None
        if pid is None or self._answers():
            self._silent_since = None
            return None
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since < _POSTGRES_SILENCE_SECONDS:
            return None
        return Complaint(pid, f"it takes no connection for {now - self._silent_since:.0f} s")

    @property
    def well(self) -> bool:
        """Whether Postgres answered at the last look."""
        return self._pid is not None and self._silent_since is None


class GatewayJudge:
    """Tells a gateway that hangs from one that is busy."""

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
        self._idle_looks = 0

    def look(self, now: float, *, postgres_is_well: bool) -> Complaint | None:
        """Ask once; return a complaint when it hangs, or has lost a database that answers others."""
        pid = self._part.serving_pid
        if pid != self._pid:
            self._pid = pid
            self._forget()
        if pid is None:
            return None
        database_silence = self._alive()
        if database_silence is None:
            return self._judge_silence(pid, now)
        self._forget()
        if not postgres_is_well or self._healthy() or database_silence < _DATABASE_SILENCE_SECONDS:
            return None
        return Complaint(pid, f"it has not reached Postgres for {database_silence:.0f} s, though Postgres answers")

    @property
    def silent(self) -> bool:
        """Whether it did not answer at the last look."""
        return self._silent_since is not None

    def _judge_silence(self, pid: int, now: float) -> Complaint | None:
        cpu_seconds = self._cpu_seconds(pid)
        self._idle_looks = self._idle_looks + 1 if cpu_seconds == self._last_cpu_seconds else 0
        self._last_cpu_seconds = cpu_seconds
        self._silent_since = now if self._silent_since is None else self._silent_since
        if self._idle_looks >= _IDLE_LOOKS - 1:
            return Complaint(pid, "it neither answers nor computes")
        if now - self._silent_since >= _BUSY_SECONDS:
            return Complaint(pid, f"it computes without an answer for {now - self._silent_since:.0f} s")
        return None

    def _forget(self) -> None:
        self._silent_since, self._last_cpu_seconds, self._idle_looks = None, -1.0, 0


class Watch(threading.Thread):
    """Looks at both parts every few seconds, beside the supervisor, which an unanswered question would hold up."""

    def __init__(self, postgres: PostgresJudge, gateway: GatewayJudge, *, on_complaint: Callable[[], None]) -> None:
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
                self._look()
            except Exception:  # Nobody else watches: whatever went wrong, look again.
                _logger.exception("the stack could not be watched")
            pause = _PAUSE_AFTER_SILENCE_SECONDS if self._gateway.silent or not self._postgres.well else _PAUSE_SECONDS

    def end(self) -> None:
        """Look no more."""
        self._ended.set()

    def complaint_about(self, part: Watched) -> str | None:
        """Return why the process of a part must be replaced, once."""
        pid = part.serving_pid
        return self._complaints.pop(pid, None) if pid is not None else None

    def _look(self) -> None:
        complaints = [
            self._postgres.look(time.monotonic()),
            self._gateway.look(time.monotonic(), postgres_is_well=self._postgres.well),
        ]
        # Only what the last look found: whoever answered since may stay.
        self._complaints = {complaint.pid: complaint.reason for complaint in complaints if complaint is not None}
        if self._complaints:
            self._on_complaint()


def watch(
    postgres: Watched, gateway: Watched, *, url: str, database_url: str, on_complaint: Callable[[], None]
) -> Watch:
    """Return a watch over a running stack."""
    return Watch(
        PostgresJudge(postgres, answers=lambda: postgres_answers(database_url)),
        GatewayJudge(
            gateway,
            alive=lambda: database_silence_seconds(url),
            healthy=lambda: check_health(url, timeout_seconds=_HEALTH_TIMEOUT_SECONDS).ok,
            cpu_seconds=_cpu_seconds,
        ),
        on_complaint=on_complaint,
    )


def diagnose(url: str, database_url: str) -> str:
    """Say which part of a stack that is not well does not answer."""
    if database_silence_seconds(url) is None:
        return "the gateway does not answer; its supervisor restarts it within half a minute if it hangs"
    if not postgres_answers(database_url):
        return "Postgres does not answer; its supervisor restarts it within a minute if it hangs"
    return "the gateway and Postgres answer, the gateway does not reach Postgres; its supervisor restarts it"


def postgres_answers(database_url: str) -> bool:
    """Say whether a Postgres takes connections, or says why it does not."""
    # Here, not above: slow to import, and `status` needs it only where something is wrong.
    from openmanus_rl.transport.postgres import answers

    return answers(database_url, timeout_seconds=_ANSWER_TIMEOUT_SECONDS)


def database_silence_seconds(url: str) -> float | None:
    """Return how long ago the gateway last reached Postgres; None when the gateway does not answer."""
    try:
        with _direct.open(f"{url}/gateway/alive", timeout=_ANSWER_TIMEOUT_SECONDS) as response:
            return float(json.load(response)["database_silent_ms"]) / 1000
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    return 0.0  # It answers, if only as a gateway of another version does.


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
