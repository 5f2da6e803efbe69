"""One attempt at a rollout: provision its environment, let the agent work, verify, tear down, record how it ended."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.agents.base import LimitReached, SafetyStop
from openmanus_rl.agents.recording import LimitedRecorder
from openmanus_rl.agents.registry import make_agent
from openmanus_rl.errors import OpenManusError
from openmanus_rl.recorder.leased import AdoptedRollout, LeasedRecording
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.recorder.values import describe
from openmanus_rl.records.plain import dump_bytes
from openmanus_rl.sandboxes.base import Sandbox, SandboxCancelled, SandboxError
from openmanus_rl.sandboxes.providers import provision
from openmanus_rl.verification.base import Verdict, status_of
from openmanus_rl.verification.validators import verify
from openmanus_rl.workers.claims import Claim
from openmanus_rl.workers.files import fetch_task_files
from openmanus_rl.workers.stopping import Stopped, Stopper

__all__ = ["Attempt", "Outcome"]

_logger = logging.getLogger(__name__)

PROVISION_SECONDS = 1800.0
VERIFY_SECONDS = 3600.0
# A larger answer is stored as a file.
_LARGEST_RESULT_BYTES = 256 * 1024
_SHOWN_CHARACTERS = 4096
_LARGEST_LOG_BYTES = 1024 * 1024


@dataclass
class Outcome:
    """How an attempt ended."""

    status: str
    message: str | None = None
    error: str | None = None
    answer: Any = None
    verdicts: list[Verdict] = field(default_factory=list)


class Attempt:
    """An attempt at a claimed rollout, in the process of a slot."""

    def __init__(
        self,
        claim: Claim,
        recording: Recording,
        *,
        stopper: Stopper,
        owner: str,
        folder: Path,
        cache: Path,
        tell: Callable[[str], object],
    ) -> None:
        self._claim = claim
        self._stopper = stopper
        self._owner = owner
        self._folder = folder
        self._cache = cache
        self._tell = tell
        leased = LeasedRecording(recording, rollout_id=claim.rollout_id, lease_id=claim.lease_id, run_id=claim.run_id)
        self._rollout = AdoptedRollout(leased, claim.rollout_id)
        self._recorder: LimitedRecorder | None = None
        self._sandbox: Sandbox | None = None
        self._files: Path | None = None
        self._logs: Mapping[str, bytes] = {}

    def run(self) -> str:
        """Work on the rollout, record how it ended, and return its status; "returned" if it is not to end here."""
        try:
            outcome = self._work()
        except Stopped as stopped:
            outcome = Outcome(stopped.reason)
        except SandboxCancelled as error:
            outcome = Outcome(self._stopper.reason or "error", error=None if self._stopper.reason else str(error))
        except OpenManusError as error:
            outcome = Outcome("error", error=str(error))
            if isinstance(error, SandboxError):
                self._logs = dict(error.logs)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            # Ctrl-C is the worker's: what is raised here is the agent's.
            _logger.exception("rollout %s", self._claim.rollout_id)
            outcome = Outcome("error", error=describe(error))
        self._tell("stopping")
        self._tear_down(keep_logs=outcome.status in ("error", "failed", "timeout"))
        if outcome.status != "returned":
            self._record(outcome)
        return outcome.status

    def _work(self) -> Outcome:
        claim = self._claim
        agent = make_agent(claim.agent, model=claim.model, options=claim.agent_options)
        task = claim.task(with_solution=bool(agent.sees_solution))
        try:
            with self._stopper.interruptible(seconds=PROVISION_SECONDS):
                self._provision(with_solution=bool(agent.sees_solution))
        except Stopped as stopped:
            if stopped.reason != "timeout":
                raise
            raise SandboxError(f"the environment was not ready within {PROVISION_SECONDS:g} seconds") from None
        assert self._sandbox is not None
        limits = claim.limits
        self._rollout.begin()
        self._tell("running")
        self._recorder = LimitedRecorder(self._rollout, limits)
        answer, limit = None, None
        try:
            with self._stopper.interruptible(seconds=limits.max_seconds):
                answer = agent.run(task, self._sandbox, self._recorder)
        except Stopped as stopped:
            if stopped.reason != "timeout":
                raise
            limit = LimitReached("seconds", limits.max_seconds or 0)
        except LimitReached as reached:
            limit = reached
        except SafetyStop as stop:
            return Outcome("truncated", message=f"the model asked for a person's confirmation: {stop}")
        self._sandbox.check()
        return self._judge(answer, limit)

    def _provision(self, *, with_solution: bool) -> None:
        claim = self._claim
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if claim.files_path is not None:
            self._files = fetch_task_files(claim.files_path, self._folder / "task", cache=self._cache)
        self._sandbox = provision(
            claim.environment,
            rollout_id=claim.rollout_id,
            owner=self._owner,
            folder=self._folder,
            task_files=self._files,
            seed=claim.seed,
            is_cancelled=lambda: self._stopper.reason is not None,
        )
        if with_solution and self._files is not None and (self._files / "solution").is_dir():
            # A local process has no root of its own: paths are within its folder.
            target = "/solution" if self._sandbox.kind == "docker" else "solution"
            self._sandbox.put_folder(self._files / "solution", target)

    def _judge(self, answer: Any, limit: LimitReached | None) -> Outcome:
        claim = self._claim
        self._tell("verifying")
        if claim.validators:
            # These may take a while; the dashboard shows it.
            self._rollout.update(status_message="verifying the answer")
        try:
            with self._stopper.interruptible(seconds=VERIFY_SECONDS):
                verdicts = verify(
                    claim.validators,
                    answer=answer,
                    expected_answer=claim.expected_answer,
                    sandbox=self._sandbox,
                    task_files=self._files,
                    metadata=claim.metadata,
                )
        except Stopped as stopped:
            if stopped.reason != "timeout":
                raise
            late = f"verification did not end within {VERIFY_SECONDS:g} seconds"
            return Outcome("error", error=late, answer=answer)
        status, message = judge(verdicts, limit)
        return Outcome(status, message, error=message if status == "error" else None, answer=answer, verdicts=verdicts)

    def _tear_down(self, *, keep_logs: bool) -> None:
        if self._sandbox is not None:
            if keep_logs:
                with suppress(OpenManusError, OSError):
                    self._logs = self._sandbox.logs()
            try:
                self._sandbox.close()
            except Exception:
                # The worker removes it by its name and labels.
                _logger.exception("the environment of rollout %s could not be removed", self._claim.rollout_id)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _record(self, outcome: Outcome) -> None:
        for verdict in outcome.verdicts:
            self._rollout.log_validation(
                verdict.outcome,
                validator_id=verdict.validator.id,
                validator_name=verdict.validator.name,
                validator_version=verdict.validator.version,
                score=verdict.score,
                expected=verdict.expected,
                actual=verdict.actual,
                message=verdict.message,
                details=verdict.details,
            )
        usage: dict[str, Any] = {}
        if self._recorder is not None and self._recorder.usage.tokens:
            used = self._recorder.usage
            usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "cost_usd": used.cost_usd}
        self._rollout.complete(
            outcome.status,
            message=outcome.message,
            error=outcome.error,
            result=self._result(outcome.answer),
            total_reward=None if self._rollout.rewards else mean_score(outcome.verdicts),
            logs_path=self._keep_logs(),
            **usage,
        )

    def _result(self, answer: Any) -> Any:
        """Return the answer as it is stored: a large one is a file, of which the beginning is shown."""
        if answer is None:
            return None
        encoded = dump_bytes(answer)
        if len(encoded) <= _LARGEST_RESULT_BYTES:
            return orjson.loads(encoded)
        text = answer.encode("utf-8", "replace") if isinstance(answer, str) else encoded
        path = self._rollout.log_media(text, kind="file", content_type="text/plain", metadata={"name": "answer"})
        shown = text[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
        return {"shortened": shown, "size_bytes": len(text), "path": path}

    def _keep_logs(self) -> str | None:
        parts = [f"==> {name} <==\n".encode() + log[-_LARGEST_LOG_BYTES:] for name, log in self._logs.items() if log]
        if not parts:
            return None
        return self._rollout.log_media(
            b"\n".join(parts), kind="file", content_type="text/plain", metadata={"name": "environment logs"}
        )


def judge(verdicts: list[Verdict], limit: LimitReached | None) -> tuple[str, str | None]:
    """Return the status that the verdicts give, and a message."""
    status = status_of(verdicts)
    if limit is not None and status != "success":
        return ("timeout" if limit.kind == "seconds" else "truncated"), str(limit)
    outcome = {"failed": "fail", "error": "error"}.get(status)
    reason = next((verdict for verdict in verdicts if verdict.outcome == outcome), None)
    return status, None if reason is None else f"validator {reason.validator.name}: {reason.message or reason.outcome}"


def mean_score(verdicts: list[Verdict]) -> float | None:
    """Return the mean score of the verdicts, in which a pass without a score is 1 and a failure 0; None if unknown."""
    if not verdicts or any(verdict.outcome == "error" for verdict in verdicts):
        return None
    scores = [verdict.score if verdict.score is not None else float(verdict.outcome == "pass") for verdict in verdicts]
    return sum(scores) / len(scores)
