"""What the orchestrator asks of a backend: to launch an attempt of a job, to look at it, to stop and to remove it.

The orchestrator may be killed between any two calls, and the next one knows nothing but the database. So a backend
finds everything by the attempt's name, and all of its methods can be repeated:

    launch      nothing happens if something of that name is there already
    look        tells what is there now, without a memory of its own
    stop        asks, and does not wait
    read_log    reads from any place, always the same bytes
    remove      leaves nothing that runs or costs money; what is gone already is no error

They are called from several threads, for each attempt about once a second, never twice at once for the same attempt.
A backend whose provider is slow to answer keeps an answer for a few seconds. Errors are raised as `OpenManusError`:
the orchestrator tells them and tries again, except for those of `launch`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from openmanus_rl.jobs.backends._runner import LogDecoder

__all__ = ["ALREADY_TRAINING", "Attempt", "Backend", "LogDecoder", "Look", "State", "as_log_text", "parse_name"]

ALREADY_TRAINING = 75
"""The exit code of a training process that `begin_attempt` refused: another process trains in this attempt."""

# As the SQL function internal.job_name writes it.
_NAME = re.compile(r"omrl-([0-9a-f]{8})([0-9a-f]{8})-([1-9][0-9]*)")


@dataclass(frozen=True)
class Attempt:
    """One launch of a job. `name` is its own at the backend, derived from the job's id and the attempt's number."""

    name: str
    job_id: str
    number: int
    config: Mapping[str, Any]
    """What was asked of the job: `accelerator`, `infra`, `secrets`, …; see request_job."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """The task as SkyPilot reads it. Values of null in `envs` and `secrets` are the backend's to fill in at launch;
    they are passed by the environment, never on a command line or in a file that others may read."""


class State(StrEnum):
    """What a backend says of an attempt."""

    GONE = "gone"
    """There is nothing of that name: it was never launched, or the provider has lost every trace of it."""
    WAITING = "waiting"
    """It was launched, and the provider has not begun it: it waits for a machine, or sets it up."""
    RUNNING = "running"
    ENDED = "ended"
    """Its program has ended by itself, or because `stop` asked it to."""
    LOST = "lost"
    """It was ended by something else, such as the machine, a signal or a reclaimed spot instance: it may be launched
    again as the next attempt."""


@dataclass(frozen=True)
class Look:
    """The present state of an attempt."""

    state: State
    exit_code: int | None = None
    """Of the program, if the state is `ended`; minus the number of a signal that killed it, and 1 where the provider
    says only that it failed. None if it ended without one because of `stop`."""
    was_stopped: bool = False
    """Whether `stop` was called before it ended."""
    reason: str | None = None
    """Why it waits, ended or was lost, in the provider's words."""
    cost_usd: float | None = None
    """What this attempt has cost so far, where that is known."""


class Backend(Protocol):
    """A way to run attempts of jobs."""

    @property
    def kind(self) -> str:
        """The value of `jobs.backend`."""

    def final_yaml(self, attempt: Attempt) -> str | None:
        """Return the task as `launch` gives it to the provider, without secrets; None if it gives no task."""

    def launch(self, attempt: Attempt) -> None:
        """Launch an attempt; return when `look` finds it, which may be long before its program begins.

        `InvalidInput` and `SettingsError`: it can never be launched so, and the job fails. Any other
        `OpenManusError`: it may be launched later, as the next attempt. In both cases `remove` is called.
        """

    def look(self, attempt: Attempt) -> Look:
        """Tell how an attempt goes."""

    def stop(self, attempt: Attempt, *, grace_seconds: float) -> None:
        """Ask an attempt to end: SIGTERM to its program, and SIGKILL after the grace period. Do not wait for it."""

    def read_log(self, attempt: Attempt, *, start: int, max_bytes: int) -> str:
        """Return what was printed from byte `start` on, at most so many bytes; "" if there is no more now.

        The log is a stream of valid UTF-8 that only grows: bytes are those of its encoding, and the same place always
        holds the same text. `as_log_text` makes it of what a program prints. It is complete once `look` says `ended`
        or `lost`, and stays readable until `remove`.
        """

    def remove(self, attempt: Attempt) -> None:
        """End what still runs of an attempt, at once, and forget it; return when nothing of it is left."""

    def names(self) -> list[str]:
        """Return the names of all attempts that this backend has a trace of, also of other orchestrators'."""


def parse_name(name: str) -> tuple[str, str, int] | None:
    """Return the first and last 8 hex digits of the job's id, and the number of the attempt; None if it is not ours."""
    found = _NAME.fullmatch(name)
    return (found[1], found[2], int(found[3])) if found else None


def as_log_text(printed: bytes, *, final: bool = False) -> str:
    """Return the log text of all that was printed so far; an incomplete last character is left out unless `final`."""
    return LogDecoder().decode(printed, final=final)
