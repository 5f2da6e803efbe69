"""Records training by Stable-Baselines3."""

from __future__ import annotations

import logging
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from stable_baselines3.common.callbacks import BaseCallback

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._episodes import Plan, check_interval
from openmanus_rl.integrations._sb3_episodes import TrainingEpisodes, plan_for
from openmanus_rl.integrations._sb3_metrics import MetricsWriter
from openmanus_rl.integrations._sb3_model import algorithm_of, config_of, environment_of, runs
from openmanus_rl.recorder import Run, init

__all__ = ["OpenManusCallback"]

_logger = logging.getLogger(__name__)


class OpenManusCallback(BaseCallback):
    """Records what a model's `learn` does: metrics, episodes, frames and checkpoints.

    Metrics are everything that the model's logger writes. Every episode is a rollout with its return and length; every
    n-th has its turns, and pictures where the environment draws them.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        name: str | None = None,
        run_name: str | None = None,
        resume: Literal["allow", "must", "never"] = "allow",
        tags: Sequence[str] | None = None,
        environment: str | None = None,
        finish_run: bool = True,
        record_every: int = 1,
        turn_interval_episodes: int = 100,
        frame_interval: int = 0,
        video_interval_episodes: int = 0,
        checkpoint_interval_steps: int = 0,
        verbose: int = 0,
    ) -> None:
        """Record to the given run, or to one that is made when training begins and ends with it.

        With `finish_run=False` a run made here stays open for another `learn`; `callback.run.finish()` ends it.
        `record_every` n-th episode becomes a rollout; of these, every `turn_interval_episodes`-th has its turns and
        every `video_interval_episodes`-th a video; of turns, every `frame_interval`-th has a picture. The model is
        saved every `checkpoint_interval_steps` steps and at the end. 0 means never.
        """
        super().__init__(verbose)
        check_interval("checkpoint_interval_steps", checkpoint_interval_steps)
        self._given_run = run
        self._own_run: Run | None = None
        self._about_run: dict[str, Any] = {"name": name, "run_name": run_name, "resume": resume, "tags": tags}
        self._environment = environment
        self._finishes = finish_run
        self._intervals = {
            "record_every": record_every,
            "turn_interval_episodes": turn_interval_episodes,
            "frame_interval": frame_interval,
            "video_interval_episodes": video_interval_episodes,
        }
        self._checkpoint_interval = checkpoint_interval_steps
        self._next_checkpoint = 0
        self._saved_at = -1
        self._metrics: MetricsWriter | None = None
        self._episodes: TrainingEpisodes | None = None
        # What was seen last; still the same when training goes on, and another after a reset.
        self._left_at: Any = None
        self._abandoned: weakref.finalize[Any, Any] | None = None

    @property
    def run(self) -> Run:
        """The run that is recorded to; before training there is none unless it was given."""
        run = self._given_run or self._own_run
        if run is None:
            raise InvalidInput(
                "there is no run yet: this callback makes its own when training begins",
                field="run",
                hint="give it one, run=openmanus_rl.init(…), or ask after model.learn(…) has begun",
            )
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what training left open, and a run of our own, by how the block ended."""
        if error is not None and self._episodes is not None:
            self._episodes.fail(error)
            self._episodes = None
        self._stop()
        if self._own_run is not None:
            self._own_run.__exit__(kind, error, trace)
            self._own_run = None

    def _on_training_start(self) -> None:
        # First: what can't be recorded as asked for is refused before there is a run of it.
        plan = plan_for(self.training_env, self._intervals)
        run = self._given_run or self._own_run or self._begin_run()
        runs[self.model] = run
        self._stop()
        self._metrics = MetricsWriter(run, self.model)
        self._metrics.attach(self.logger)
        if self._own_run is not None:
            self._abandoned = weakref.finalize(self, _abandon, self._own_run, self._metrics)
            # At the end of the process the run itself knows better why it ended.
            self._abandoned.atexit = False
        self._watch_episodes(run, plan)
        if self._checkpoint_interval:
            interval = self._checkpoint_interval
            self._next_checkpoint = (self.num_timesteps // interval + 1) * interval

    def _begin_run(self) -> Run:
        algorithm = algorithm_of(self.model)
        environment = self._environment or environment_of(self.training_env)
        about = dict(self._about_run)
        self._own_run = init(
            about.pop("name") or about["run_name"] or f"{environment}-{algorithm}",
            algorithm=algorithm,
            environment=environment,
            config=config_of(self.model),
            total_steps=self.model._total_timesteps,
            **about,
        )
        return self._own_run

    def _watch_episodes(self, run: Run, plan: Plan) -> None:
        if self._episodes is not None and self._left_at is not None and self.model._last_obs is self._left_at:
            # No reset: episodes go on where the last learn() left them.
            return
        if self._episodes is not None:
            self._episodes.pause("the environment was reset in the middle of the episode")
        env = self.training_env
        self._episodes = TrainingEpisodes(env, plan=plan, new_rollout=run.rollout, environment=self._environment)
        self._episodes.begin(self.model._last_obs, step=self.num_timesteps)

    def _on_step(self) -> bool:
        # Algorithms that step environments in a way of their own (evolution strategies) have metrics only.
        if self._episodes is not None and "dones" in self.locals:
            self._episodes.take(self.locals, step=self.num_timesteps)
        if self._checkpoint_interval and self.num_timesteps >= self._next_checkpoint:
            self._next_checkpoint += self._checkpoint_interval
            self._save_checkpoint()
        return True

    def _on_training_end(self) -> None:
        self._left_at = self.model._last_obs
        if self._checkpoint_interval and self._saved_at != self.num_timesteps:
            self._save_checkpoint()
        if self._metrics is not None:
            self._metrics.write_rest()
        self._stop()
        if self._own_run is not None and self._finishes:
            self._own_run.finish()
            # Another learn() makes another run: what is completed stays as it was.
            self._own_run, self._episodes = None, None

    def _stop(self) -> None:
        if self._episodes is not None:
            self._episodes.pause("training ended in the middle of the episode")
        if self._metrics is not None:
            self._metrics.detach()
            self._metrics = None
        if self._abandoned is not None:
            self._abandoned.detach()
            self._abandoned = None

    def _save_checkpoint(self) -> None:
        step = self.num_timesteps
        try:
            with tempfile.TemporaryDirectory(prefix="openmanus-rl-checkpoint-") as folder:
                path = Path(folder) / "model.zip"
                self.model.save(path)
                self.run.log_checkpoint(step, step=step, file=path, metadata={"algorithm": algorithm_of(self.model)})
        except OSError as error:
            _logger.warning("checkpoint of step %d: not saved: %s", step, error)
            return
        self._saved_at = step


def _abandon(run: Run, metrics: MetricsWriter) -> None:
    """Say of a run whose training was broken off, by an exception that somebody caught, that it will not go on."""
    metrics.detach()
    run.finish("failed", message="training was broken off")
