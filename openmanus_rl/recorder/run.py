"""What a training loop talks to: runs, steps, groups, rollouts and evaluations, as blocks or as plain calls."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from openmanus_rl.recorder.plain import dump_text
from openmanus_rl.recorder.recording import Recording, Stats
from openmanus_rl.records.ids import checkpoint_id, creation_change_id, group_id, new_id, step_id

__all__ = ["Evaluation", "Group", "Rollout", "Run", "Step"]

_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_NAMED = (*_NOT_FINITE.values(), "NaN")
_NO_NUMBER = (TypeError, ValueError, OverflowError, RuntimeError)


class Block:
    """Something that begins, may fail, and ends once."""

    _kind: str
    _failed_status = "failed"

    def __init__(self, recording: Recording, row_id: str, *, status: str, **fields: Any) -> None:
        self.id = row_id
        self._recording = recording
        self._ended = False
        record = {"id": row_id, "status": status, "status_change_id": creation_change_id(row_id), **_known(fields)}
        recording.append(self._kind, record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._end(self._failed_status, message=_describe(error))
        else:
            self._end("completed")

    def _end(self, status: str, *, message: str | None = None, **fields: Any) -> None:
        if not self._ended:
            self._ended = True
            self._change(status=status, status_message=message, status_change_id=new_id(), **fields)

    def _change(self, **fields: Any) -> None:
        self._recording.append(self._kind, {"id": self.id, **_known(fields)})


class Rollout(Block):
    """One episode; turns are numbered as they are logged."""

    _kind = "rollouts"
    _failed_status = "error"

    def __init__(self, recording: Recording, **fields: Any) -> None:
        super().__init__(recording, new_id(), status="running", **fields)
        self._turns = 0
        self._rewards: list[float] = []

    def log_turn(
        self,
        *,
        observation: str | None = None,
        action: str | None = None,
        thought: str | None = None,
        reward: float | Mapping[str, float] | None = None,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        memory_summary: str | None = None,
        step_number: int | None = None,
        **further: Any,
    ) -> str:
        """Record a turn and return its id; a reward may be a number, or several by component."""
        turn_id = new_id()
        if step_number is None:
            step_number = self._turns
        self._turns = max(self._turns, step_number + 1)
        record: dict[str, Any] = {"id": turn_id, "rollout_id": self.id, "step_number": step_number}
        record |= _known(
            {
                "observation": observation,
                "action": action,
                "thought": thought,
                "memory_summary": memory_summary,
                **further,
            }
        )
        if tool_calls:
            record["tool_calls"] = [_tool_call(call) for call in tool_calls]
        if reward is not None:
            components = reward if isinstance(reward, Mapping) else {"step": reward}
            numbers = {name: _number(value) for name, value in components.items()}
            self._rewards += [float(value) for value in numbers.values() if value in _NAMED or isinstance(value, float)]
            record["rewards"] = [{"reward_type": name, "reward": value} for name, value in numbers.items()]
        self._recording.append("agent_states", record)
        return turn_id

    def complete(
        self,
        status: str = "completed",
        *,
        total_reward: float | None = None,
        step_count: int | None = None,
        message: str | None = None,
        **fields: Any,
    ) -> None:
        """End the rollout; the reward and the number of turns are those logged, unless given."""
        if total_reward is None and self._rewards:
            total_reward = sum(self._rewards)
        self._end(
            status,
            message=message,
            total_reward=_number(total_reward),
            step_count=self._turns if step_count is None else step_count,
            **fields,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.complete()
        else:
            self.complete("error", message=_describe(error), error=_describe(error))


class Group:
    """Rollouts of one task, compared with each other."""

    def __init__(self, recording: Recording, *, parent: str, run: Run, number: int, **fields: Any) -> None:
        self.id = group_id(parent, number)
        self.number = number
        self._recording = recording
        self._run = run
        recording.append("rollout_groups", {"id": self.id, "number": number, **_known(fields)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Groups have no status: what failed inside says so itself."""

    def rollout(self, **fields: Any) -> Rollout:
        """Begin a rollout of this group; fields are those of the table, such as task_description or seed."""
        return self._run._new_rollout(group_id=self.id, **fields)


class _Grouped(Block):
    """A block that has groups: a step or an evaluation."""

    _parent_column: str

    def __init__(self, recording: Recording, row_id: str, *, run: Run, **fields: Any) -> None:
        super().__init__(recording, row_id, status="running", **fields)
        self._run = run
        self._groups = 0
        self._lock = threading.Lock()

    def group(
        self, *, task: str | None = None, task_id: str | None = None, number: int | None = None, **fields: Any
    ) -> Group:
        """Begin a group of rollouts of one task; processes of one job (RANK, WORLD_SIZE) number theirs apart."""
        if number is None:
            with self._lock:
                number = self._recording.spread(self._groups)
                self._groups += 1
        return Group(
            self._recording,
            parent=self.id,
            run=self._run,
            number=number,
            task_description=task,
            task_id=task_id,
            **{self._parent_column: self.id},
            **fields,
        )


class Step(_Grouped):
    """One step of training."""

    _kind = "training_steps"
    _parent_column = "training_step_id"

    def __init__(self, recording: Recording, *, run: Run, number: int, **fields: Any) -> None:
        self.number = number
        super().__init__(recording, step_id(run.id, number), run=run, training_run_id=run.id, step=number, **fields)

    def log(self, **fields: Any) -> None:
        """Say more of the step: loss, kl, grad_norm, reward_mean, reward_std, tokens, phase, metrics."""
        self._change(**{name: _number(value) if isinstance(value, float) else value for name, value in fields.items()})

    def finish(self, status: str = "completed", *, message: str | None = None) -> None:
        """End the step."""
        self._end(status, message=message)


class Evaluation(_Grouped):
    """A measurement of a model, beside training or as a baseline."""

    _kind = "evaluations"
    _parent_column = "evaluation_id"

    def rollout(self, **fields: Any) -> Rollout:
        """Begin a rollout in a group of its own."""
        return self.group(task=fields.get("task_description"), task_id=fields.get("task_id")).rollout(**fields)

    def finish(self, status: str = "completed", *, message: str | None = None, **figures: Any) -> None:
        """End the evaluation; what is not given (success_rate, mean_reward, mean_turns) comes from its rollouts."""
        self._end(status, message=message, **figures)


class Run(Block):
    """A training run, and the way everything else of it is recorded."""

    _kind = "training_runs"

    def __init__(
        self,
        recording: Recording,
        run_id: str,
        *,
        next_step: int,
        create: Mapping[str, Any] | None,
        resumed: bool = False,
    ) -> None:
        self._episodes = 0
        self._lock = threading.Lock()
        self.next_step = next_step
        """The step to go on with: 0 for a new run, the one after the last that was completed for a resumed one."""
        if create is None:
            # Another process made the run, and will end it.
            self.id, self._recording, self._ended = run_id, recording, True
        else:
            super().__init__(recording, run_id, status="running", **create)
            if resumed:
                self._change(status="running", status_change_id=new_id())
            recording.at_exit = self._end_at_exit

    @property
    def stats(self) -> Stats:
        """Return how much of what this process recorded is queued, delivered, rejected and lost."""
        return self._recording.stats

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Record a point of each metric; nothing waits. None is unknown and left out; what is no number is refused."""
        self._recording.append("metrics", {"run": self.id, "step": step, "values": _numbers(values)})

    def step(self, number: int, **fields: Any) -> Step:
        """Begin a step of training."""
        return Step(self._recording, run=self, number=number, **fields)

    def rollout(self, **fields: Any) -> Rollout:
        """Begin a rollout that belongs to no group."""
        return self._new_rollout(**fields)

    def evaluation(self, *, kind: str = "eval", step: int | None = None, **fields: Any) -> Evaluation:
        """Begin an evaluation, or with kind="baseline" a baseline."""
        return Evaluation(self._recording, new_id(), run=self, training_run_id=self.id, kind=kind, step=step, **fields)

    def log_checkpoint(self, number: int, *, step: int | None = None, **fields: Any) -> str:
        """Record a checkpoint and return its id; upload its file with `StorageManager.upload_checkpoint`."""
        row_id = checkpoint_id(self.id, number)
        record = {"id": row_id, "training_run_id": self.id, "checkpoint_number": number, "step": step, **fields}
        self._recording.append("model_checkpoints", _known(record))
        return row_id

    def update(self, **fields: Any) -> None:
        """Say more of the run: summary, progress, current_step, tags, description, metadata."""
        self._change(**fields)

    def flush(self, *, timeout_seconds: float = 30.0) -> bool:
        """Wait until all that was recorded is in the database; False if it is not, and `stats` says why."""
        return self._recording.flush(timeout_seconds)

    def finish(
        self, status: str = "completed", *, message: str | None = None, summary: Mapping[str, Any] | None = None
    ) -> None:
        """End the run; what is still queued is delivered in the background, also after this process has ended."""
        self._end(status, message=message, summary=summary)
        self._recording.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            interrupted = isinstance(error, (KeyboardInterrupt, SystemExit))
            self.finish("interrupted" if interrupted else "failed", message=_describe(error))

    def _end_at_exit(self) -> None:
        """Say of a run that nobody ended what is known: an exception ended the process, or it just ended."""
        # Set by the interpreter when it prints an exception that nobody caught.
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and not isinstance(error, KeyboardInterrupt):
            self._end("failed", message=_describe(error))
        else:
            self._end("interrupted", message="the process ended without run.finish()")

    def _new_rollout(self, **fields: Any) -> Rollout:
        if "episode_number" not in fields:
            with self._lock:
                fields["episode_number"] = self._episodes
                self._episodes += 1
        return Rollout(self._recording, training_run_id=self.id, **fields)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _numbers(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return metrics as JSON can carry them; most are finite numbers, which one addition shows."""
    try:
        if math.isfinite(sum(values.values())):
            return values
    except _NO_NUMBER:
        pass  # Something is no number: that one is refused later, not here, where it would stop training.
    return {name: _number(value) for name, value in values.items()}


def _number(value: Any) -> Any:
    """Return a number as JSON can carry it: not finite ones by name, as Postgres reads them."""
    if isinstance(value, (str, type(None))):
        return value
    try:
        number = float(value)
    except _NO_NUMBER:
        return str(value)
    if math.isfinite(number):
        return number
    return _NOT_FINITE.get(number, "NaN")


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    record = dict(call)
    output = record.get("tool_output")
    if output is not None and not isinstance(output, str):
        record["tool_output"] = dump_text(output)
    return record


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
