"""What happens while Stable-Baselines3 trains a run: metrics, frames, evaluations, checkpoints, and stops."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from openmanus_rl.integrations.stable_baselines3 import OpenManusEvalCallback
from openmanus_rl.recorder import Run
from openmanus_rl.records.ids import frame_id
from openmanus_rl.training.checkpoints import Progress, save
from openmanus_rl.training.stopping import Stop

__all__ = ["Checkpoints", "Evaluations", "Evaluator", "Frames", "Metrics", "OnProgress", "Watcher"]

_logger = logging.getLogger(__name__)


OnProgress = Callable[[int, float | None], None]
"""Told the timestep and the mean reward of the last episodes, whenever metrics are written."""


class _Schedule:
    """Says when something that happens every n timesteps is due; 0 means never."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self.next = 0

    def begin(self, step: int) -> None:
        """Set the next time to the first multiple after a step."""
        self.next = (step // self._interval + 1) * self._interval if self._interval else 0

    def is_due(self, step: int) -> bool:
        """Return whether it is time, without waiting for the next time."""
        return self._interval > 0 and step >= self.next


class Metrics(BaseCallback):
    """Lets the logger write what it knows at a fixed interval, instead of at the algorithm's own times.

    Training must be started with `log_interval=None`, so that no value is written twice.
    """

    def __init__(
        self,
        interval: int,
        *,
        unwritten: Mapping[str, Mapping[str, Any]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        super().__init__()
        self._unwritten = unwritten or {}
        self._schedule = _Schedule(interval)
        self._on_progress = on_progress
        self._last = -1
        self._names: set[str] = set()
        self.is_wanted = False
        """Whether to write at this step in any case, as after an evaluation."""

    def _on_training_start(self) -> None:
        self._last = self.num_timesteps
        self._schedule.begin(self.num_timesteps)
        # What the process that saved the checkpoint would have written next.
        for name, values in self._unwritten.items():
            getattr(self.logger, name).update(values)

    def _on_step(self) -> bool:
        if self.is_wanted or self._schedule.is_due(self.num_timesteps):
            self._write()
        return True

    def _on_training_end(self) -> None:
        if self.is_wanted or self.num_timesteps > self._last:
            self._write()

    def _write(self) -> None:
        self.is_wanted = False
        step, unwritten = self.num_timesteps, self.logger.name_to_value
        if step == self._last:
            # Written before the last update and evaluation: only what is not there yet.
            for name in [name for name in unwritten if name in self._names]:
                del unwritten[name]
            self.logger.dump(step)
            return
        self._last, self._names = step, set(unwritten)
        self._schedule.begin(step)
        self.model.dump_logs()
        if self._on_progress is not None:
            rewards = [one["r"] for one in self.model.ep_info_buffer or ()]
            self._on_progress(step, sum(rewards) / len(rewards) if rewards else None)


class Frames(BaseCallback):
    """Records a picture of the first environment every n timesteps."""

    def __init__(self, run: Run, interval: int) -> None:
        super().__init__()
        self._run = run
        self._schedule = _Schedule(interval)

    def _on_training_start(self) -> None:
        self._schedule.begin(self.num_timesteps)
        if self.training_env.render_mode != "rgb_array":
            self._schedule = _Schedule(0)

    def _on_step(self) -> bool:
        if self._schedule.is_due(self.num_timesteps):
            self._schedule.begin(self.num_timesteps)
            self._record()
        return True

    def _record(self) -> None:
        step = self.num_timesteps
        try:
            frame = self.training_env.env_method("render", indices=[0])[0]
        # A picture is not worth the training, and drawing one is anybody's code.
        except Exception as error:  # noqa: BLE001
            _logger.warning("no more frames are recorded: the environment cannot be rendered: %s", error)
            self._schedule = _Schedule(0)
            return
        if frame is not None:
            row_id = frame_id(self._run.id, step, rewinds=self._run.rewinds)
            self._run.log_media(frame, kind="frame", id=row_id, metadata={"step": step})


class _WithoutDump:
    """A logger that keeps values until the training's own metrics are written."""

    def __init__(self, logger: Logger) -> None:
        self.record = logger.record

    def dump(self, _step: int = 0) -> None:
        """Do nothing: `Metrics` writes the values."""


class _Stopped(BaseException):
    """A stop was asked for during an evaluation."""


class Evaluator(OpenManusEvalCallback):
    """Evaluates whenever it is called, and can be stopped between two steps."""

    def __init__(self, eval_env: Any, *, run: Run, episodes: int, stop: Stop) -> None:
        super().__init__(eval_env, run=run, n_eval_episodes=episodes, eval_freq=1, verbose=0, warn=False)
        self._stop = stop

    @property
    def logger(self) -> Any:
        """The model's logger, without its dump at the end of an evaluation."""
        return _WithoutDump(self.model.logger)

    def _log_success_callback(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        super()._log_success_callback(locals_, globals_)
        if self._stop.is_set:
            raise _Stopped(self._stop.message)


class Evaluations(BaseCallback):
    """Evaluates every n timesteps, and at the end."""

    def __init__(
        self, evaluator: Evaluator, metrics: Metrics, *, interval: int, total: int, stop: Stop, next_step: int | None
    ) -> None:
        super().__init__()
        self._evaluator = evaluator
        self._metrics = metrics
        self._schedule = _Schedule(interval)
        self._given_next = next_step
        self._total = total
        self._stop = stop
        self.is_complete = False
        """Whether the evaluation at the end was made."""

    @property
    def next_step(self) -> int:
        """The timestep from which the next evaluation is due."""
        return self._schedule.next

    @property
    def mean_reward(self) -> float | None:
        """The mean reward of the last evaluation in this process."""
        reward = float(self._evaluator.last_mean_reward)
        return reward if reward > float("-inf") else None

    def _init_callback(self) -> None:
        self._evaluator.init_callback(self.model)

    def _on_training_start(self) -> None:
        self._evaluator.on_training_start(self.locals, self.globals)
        self._schedule.begin(self.num_timesteps)
        if self._given_next is not None:
            self._schedule.next = min(self._schedule.next, self._given_next)

    def _on_step(self) -> bool:
        # The evaluation at the end comes after the last update of the policy.
        if self._schedule.is_due(self.num_timesteps) and self.num_timesteps < self._total:
            return self._evaluate()
        return True

    def _on_training_end(self) -> None:
        if self.num_timesteps >= self._total and not self._stop.is_set:
            self.is_complete = self._evaluate()

    def _evaluate(self) -> bool:
        try:
            self._evaluator.on_step()
        except _Stopped:
            return False
        self._schedule.begin(self.num_timesteps)
        self._metrics.is_wanted = True
        return True


class Checkpoints(BaseCallback):
    """Saves the model every n timesteps, once it has learned from them, and at the end."""

    def __init__(self, run: Run, evaluations: Evaluations, *, interval: int, stop: Stop) -> None:
        super().__init__()
        self._run = run
        self._evaluations = evaluations
        self._stop = stop
        self._schedule = _Schedule(interval)
        self.saved_id: str | None = None
        """The id of the last checkpoint."""

    def _on_training_start(self) -> None:
        self._schedule.begin(self.num_timesteps)

    def _on_rollout_start(self) -> None:
        # Not in the middle of a rollout: what was collected of it would be lost to the model.
        if self._schedule.is_due(self.num_timesteps):
            self._save()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        # What is saved after another process has taken the run over is of no use to anybody.
        if not self._stop.is_replaced:
            self._save()

    def _save(self) -> None:
        self._schedule.begin(self.num_timesteps)
        evaluations = self._evaluations
        progress = Progress(evaluations.next_step, evaluations.is_complete, evaluations.mean_reward)
        self.saved_id = save(self._run, self.model, step=self.num_timesteps, progress=progress)


class Watcher(BaseCallback):
    """Ends training after the current step once a stop was asked for."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self._stop = stop

    def _on_step(self) -> bool:
        return not self._stop.is_set
