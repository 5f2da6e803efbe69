"""Copies the logs of attempts from SkyPilot to this machine, where they can be read from any place."""

from __future__ import annotations

import time
from collections.abc import Callable

from openmanus_rl.errors import LaunchError
from openmanus_rl.jobs.backends.skypilot_answers import Answers
from openmanus_rl.jobs.backends.skypilot_notes import Notes, exit_code_in, printed_lines
from openmanus_rl.skypilot.sdk import Seen, SkyPilot
from openmanus_rl.skypilot.task import Kind

__all__ = ["LogCopier"]

_KEEP_SECONDS = 5.0
_SETTLE_SECONDS = 1.0
_SETTLE_TIMES = 5


class LogCopier:
    """Keeps the copies in the notes of the attempts, with the exit code that SkyPilot tells at the end of a log."""

    def __init__(self, sky: Callable[[], SkyPilot], notes: Callable[[str], Notes], answers: Answers) -> None:
        self._sky = sky
        self._notes = notes
        self._answers = answers
        self._complete: set[str] = set()

    def copy(self, kind: Kind, job: Seen) -> None:
        """Copy the log of a job that runs, unless that was done a moment ago."""
        # The whole log is read each time: a long one takes a while, and is read more seldom.
        self._answers.keep(f"log {job.name}", _KEEP_SECONDS, lambda: self._copy(kind, job))

    def complete(self, kind: Kind, job: Seen) -> None:
        """Copy the log of a job that has ended, once."""
        if job.name in self._complete:
            return
        shown = self._copy(kind, job)
        # SkyPilot tells how a job ended before it has written the last of its log.
        for _ in range(_SETTLE_TIMES):
            time.sleep(_SETTLE_SECONDS)
            before, shown = shown, self._copy(kind, job)
            if shown == before:
                break
        self._complete.add(job.name)

    def forget(self, name: str) -> None:
        """Copy the log of an attempt anew the next time."""
        self._complete.discard(name)
        self._answers.forget(f"log {name}")

    def _copy(self, kind: Kind, job: Seen) -> str:
        notes = self._notes(job.name)
        try:
            shown = self._sky().read_log(kind, job)
        except LaunchError:
            # It has none, or its machine is gone. What was copied before is all there is.
            shown = ""
        notes.keep_log(printed_lines(shown))
        code = exit_code_in(shown)
        if code is not None:
            notes.write("exit", code=code)
        return shown
