"""Follows one job: looks at its attempt and does what is to be done next, until the job has ended.

Nothing is remembered that matters: each step begins with what the database and the backend say now, so that another
orchestrator can go on wherever this one was killed. The order of the steps sees to it:

- The database is told that an attempt was launched, or how it ended, before the backend forgets it. A job that is
  `launching` may be launched; one that is `queued` or `running` and gone from the backend was lost.
- The backend removes an attempt before the job ends, because nobody follows a job that has ended.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from openmanus_rl.errors import InvalidInput, NotFoundError, OpenManusError, SettingsError, TransientError
from openmanus_rl.jobs.backends.base import ALREADY_TRAINING, Attempt, Backend, Look, State
from openmanus_rl.managers.jobs import ACTIVE, JobClaim, JobLease, JobManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.rows import TrainingRun

__all__ = ["Follower"]

LINGER_SECONDS = 300.0
"""How long a process may go on after its run has ended, such as to upload files."""

_GRACE_SECONDS = 60
# Beyond the grace period, before what was asked to stop is removed.
_REMOVE_SECONDS = 60.0
_LOG_BYTES = 256 * 1024
_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0
# Somebody else's: the kernel out of memory, a machine that shuts down, a scheduler. Others are the program's own fault.
_FOREIGN_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Verdict(NamedTuple):
    """How a job ends, or that its attempt was lost, if the status is None."""

    status: str | None
    message: str | None


class Follower:
    """Follows one job under its lease; `advance` is called again and again until `is_done`."""

    def __init__(
        self,
        claim: JobClaim,
        backend: Backend,
        *,
        tell: Callable[[str, str], None] = lambda _job_id, _text: None,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self.lease_id = claim.lease_id
        self.job = claim.job
        self.is_done = False
        self.lease = JobLease(stop_requested=claim.job["stop_requested_at"] is not None, run_ended_seconds=None)
        self._claim = claim
        self._backend = backend
        self._tell = tell
        self._linger_seconds = linger_seconds
        self._log_end: int | None = None
        self._stop_since: float | None = None
        self._launch_at = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def advance(self) -> bool:
        """Do the next steps; return whether to go on at once, rather than after a while."""
        if self.job["exit_code"] is not None:
            self._finish(self.job["exit_code"])
            return not self.is_done
        look = self._backend.look(self._attempt)
        if look.state is State.GONE:
            return self._launch_or_end()
        self._note(look)
        if look.state in (State.WAITING, State.RUNNING):
            self._stop_if_asked()
            return self._ship_log()
        while self._ship_log():
            pass
        self._end(look)
        return not self.is_done

    @property
    def _attempt(self) -> Attempt:
        claim = self._claim
        return Attempt(claim.name, claim.job["id"], claim.job["attempt"], claim.job["config"], claim.task)

    # Launching -----------------------------------------------------------------------------------------------------

    def _launch_or_end(self) -> bool:
        verdict = self._asked_verdict()
        if verdict is not None:
            self._conclude(verdict)
        elif self.job["status"] != "launching":
            self._conclude(Verdict(None, f"it is gone from {self._backend.kind}"))
        elif time.monotonic() >= self._launch_at:
            return self._launch()
        return not self.is_done

    def _launch(self) -> bool:
        try:
            yaml = self._backend.final_yaml(self._attempt)
        except (InvalidInput, SettingsError) as error:
            self._conclude(Verdict("failed", f"it cannot be launched: {error}"))
            return not self.is_done
        # Refused if the lease was lost meanwhile: another orchestrator launches it.
        self._update(external_id=self._claim.name, yaml=yaml)
        try:
            self._backend.launch(self._attempt)
        except TransientError as error:
            self._pause()
            self._say(f"not launched, trying again: {error}")
            return False
        except (InvalidInput, SettingsError) as error:
            self._conclude(Verdict("failed", f"it cannot be launched: {error}"))
        except OpenManusError as error:
            self._pause()
            self._conclude(Verdict(None, f"it was not launched: {error}"))
        return not self.is_done

    def _pause(self) -> None:
        self._launch_at = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    # Following -----------------------------------------------------------------------------------------------------

    def _note(self, look: Look) -> None:
        """Tell the database what an attempt does now; what has ended already was launched, too."""
        status = "queued" if look.state is State.WAITING else "running"
        is_new_cost = (
            look.cost_usd is not None and look.cost_usd + float(self.job["earlier_cost_usd"]) != (self.job["cost_usd"])
        )
        if status != self.job["status"]:
            self._update(status=status, message=look.reason, cost_usd=look.cost_usd)
            self._say(status)
        elif is_new_cost:
            self._update(cost_usd=look.cost_usd)

    def _ship_log(self) -> bool:
        """Copy a part of the log to the database; return whether there was any."""
        if self._log_end is None:
            self._log_end = self._append("", start=0)
        text = self._backend.read_log(self._attempt, start=self._log_end, max_bytes=_LOG_BYTES)
        if text:
            self._log_end = self._append(text, start=self._log_end)
        return text != ""

    def _append(self, text: str, *, start: int) -> int:
        return JobManager.append_log(self.lease_id, attempt=self.job["attempt"], start=start, text=text)

    def _stop_if_asked(self) -> None:
        verdict = self._asked_verdict()
        if verdict is None:
            return
        grace = float(self.job["config"].get("stop_grace_seconds", _GRACE_SECONDS))
        if self._stop_since is None:
            self._say(f"stopping: {verdict.message}")
            self._backend.stop(self._attempt, grace_seconds=grace)
            self._stop_since = time.monotonic()
        elif time.monotonic() > self._stop_since + grace + _REMOVE_SECONDS:
            self._conclude(verdict)

    def _asked_verdict(self) -> Verdict | None:
        """Return how the job ends if it must not go on: it was stopped, its time is over, or its run has ended."""
        minutes = self.job["config"].get("timeout_minutes")
        if self.lease.stop_requested:
            return Verdict("cancelled", "it was asked to stop")
        if minutes is not None and self._seconds_running() > minutes * 60:
            return Verdict("failed", f"it was stopped after its time limit of {minutes} minutes")
        if self.lease.run_ended_seconds is not None and self.lease.run_ended_seconds > self._linger_seconds:
            return self._verdict_of_run()
        return None

    def _seconds_running(self) -> float:
        started_at = self.job["started_at"]
        return 0.0 if started_at is None else (datetime.now(UTC) - datetime.fromisoformat(started_at)).total_seconds()

    # Ending --------------------------------------------------------------------------------------------------------

    def _end(self, look: Look) -> None:
        """An attempt has ended, and its log is in the database."""
        if look.state is State.LOST:
            self._conclude(self._asked_verdict() or Verdict(None, look.reason or "it was lost"))
        elif look.exit_code is None:
            self._conclude(self._asked_verdict() or Verdict("cancelled", look.reason or "it was stopped"))
        elif self._verdict(look.exit_code).status is None:
            self._conclude(self._verdict(look.exit_code))
        else:
            # First written down: once it is removed, nobody knows.
            self._update(exit_code=look.exit_code, cost_usd=look.cost_usd)
            self._finish(look.exit_code)

    def _finish(self, exit_code: int) -> None:
        self._conclude(self._verdict(exit_code))

    def _verdict(self, exit_code: int) -> Verdict:
        run = self._read_run()
        asked = self._asked_verdict()
        if exit_code == 0 and run is not None and run["status"] == "completed":
            return Verdict("succeeded", None)
        if asked is not None:
            return asked
        if exit_code == 0:
            # Interrupted by somebody who did not ask us, such as a scheduler: it goes on from its checkpoint.
            verdict = self._verdict_of_run()
            return Verdict(None, "its run was interrupted") if verdict.status == "cancelled" else verdict
        if exit_code == ALREADY_TRAINING:
            return Verdict(None, "another process had begun this attempt")
        if exit_code in {-number for number in _FOREIGN_SIGNALS} | {128 + number for number in _FOREIGN_SIGNALS}:
            return Verdict(None, f"it was killed by signal {-exit_code if exit_code < 0 else exit_code - 128}")
        end = JobManager.read_log_end(self.job["id"], attempt=self.job["attempt"])
        return Verdict("failed", f"exit code {exit_code}" + (f"\n{end}" if end else ""))

    def _verdict_of_run(self) -> Verdict:
        """Return how a job ends whose run has ended by itself; a run whose end is not told yet went well."""
        run = self._read_run()
        if run is None:
            return Verdict("cancelled", "its run was deleted")
        if run["status"] in ("interrupted", "cancelled"):
            return Verdict("cancelled", run["status_message"])
        return Verdict("failed", run["status_message"]) if run["status"] == "failed" else Verdict("succeeded", None)

    def _read_run(self) -> TrainingRun | None:
        run_id = self.job["training_run_id"]
        try:
            return None if run_id is None else TrainingRunManager.get_run(run_id)
        except NotFoundError:
            return None

    def _conclude(self, verdict: Verdict) -> None:
        """Remove what is left of an attempt; then end the job, or begin its next attempt if this one was lost."""
        self._backend.remove(self._attempt)
        if verdict.status is None:
            claim = JobManager.restart_job(
                self.lease_id, attempt=self.job["attempt"], reason=verdict.message or "it was lost"
            )
            self._claim, self.job = claim, claim.job
            self._log_end = self._stop_since = None
        else:
            self._update(status=verdict.status, message=verdict.message)
        self.is_done = self.job["status"] not in ACTIVE
        self._say(f"{self.job['status']}: {verdict.message}" if verdict.message else self.job["status"])

    def _update(self, **changes: object) -> None:
        self.job = JobManager.update_job(self.lease_id, **changes)

    def _say(self, text: str) -> None:
        self._tell(self.job["id"], text)
