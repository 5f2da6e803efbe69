"""Records training by Stable-Baselines3."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from stable_baselines3.common.callbacks import BaseCallback

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._beginning import Axis, axis_of, begin_after
from openmanus_rl.integrations._episodes import Plan, check_interval
from openmanus_rl.integrations._sb3_checkpoints import save_checkpoint
from openmanus_rl.integrations._sb3_episodes import TrainingEpisodes, plan_for
from openmanus_rl.integrations._sb3_metrics import MetricsWriter
from openmanus_rl.integrations._sb3_model import algorithm_of, config_of, environment_of, runs
from openmanus_rl.integrations._sb3_quick import QuickEpisodes
from openmanus_rl.recorder import Run, init
from openmanus_rl.recorder.beginning import Resume

__all__ = ["OpenManusCallback"]

_FLUSH_SECONDS = 30.0
_ABORTED = "training was aborted"


class OpenManusCallback(BaseCallback):
    """Records what a model's `learn` does: metrics, episodes, frames and checkpoints.

    All values of the model's logger become metrics. Every episode becomes a rollout with its return and length; every
    n-th has turns, with frames if the environment is rendered. Finished episodes are written within a quarter of a
    second, and the turns of unfinished ones about once per second: a killed process loses what came since then. Turns
    with frames are written immediately.

    A run that the callback creates is named `run_name`, or gets a generated name. Training that continues the count of
    steps (`reset_num_timesteps=False`, also after `load`) resumes the run of that name at that step. Training that
    starts from 0 under an existing name rewinds that run: its records stay readable but no longer count; with
    resume="never" it is refused. In a run that is still open, because it was given or kept open by
    `finish_run=False`, training continues after the last step.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        name: str | None = None,
        run_name: str | None = None,
        resume: Resume = "allow",
        tags: Sequence[str] | None = None,
        environment: str | None = None,
        finish_run: bool = True,
        record_every: int = 1,
        turn_interval_episodes: int = 100,
        frame_interval: int = 0,
        video_interval_episodes: int = 0,
        checkpoint_interval_steps: int = 0,
        save_vecnormalize: bool = True,
        save_replay_buffer: bool = False,
        verbose: int = 0,
    ) -> None:
        """Record to the given run, or to a new one that starts and ends with training.

        With `finish_run=False`, a new run stays open for another `learn` until `callback.run.finish()`. `callback.run`
        stays available after training, for its id, its stats and `flush()`.
        Every `record_every`-th episode becomes a rollout. Of these, every `turn_interval_episodes`-th has turns and
        every `video_interval_episodes`-th a video; every `frame_interval`-th turn has a frame. The model is saved
        every `checkpoint_interval_steps` steps and at the end. 0 means never. The file also contains the statistics of
        VecNormalize and, optionally, the replay buffer; `load_vec_normalize` and `load_replay_buffer` read them.
        """
        super().__init__(verbose)
        check_interval("checkpoint_interval_steps", checkpoint_interval_steps)
        self._given_run = run
        self._own_run: Run | None = None
        self._has_ended = False
        self._name = name
        self._run_name = run_name
        self._made_name: str | None = None
        self._resume: Resume = resume
        self._tags = tags
        self._environment = environment
        self._finishes = finish_run
        self._intervals = {
            "record_every": record_every,
            "turn_interval_episodes": turn_interval_episodes,
            "frame_interval": frame_interval,
            "video_interval_episodes": video_interval_episodes,
        }
        self._checkpoint_interval = checkpoint_interval_steps
        self._saved_with = save_vecnormalize, save_replay_buffer
        self._next_checkpoint = 0
        self._metrics: MetricsWriter | None = None
        self._axis: Axis
        self._episodes: TrainingEpisodes | QuickEpisodes | None = None
        # The last observations: the same objects if training continues, others after a reset.
        self._left_at: Any = None
        self._abandoned: weakref.finalize[Any, Any] | None = None

    @property
    def run(self) -> Run:
        """The run of this callback; if none was given, it exists once training has started."""
        run = self._given_run or self._own_run
        if run is None:
            raise InvalidInput(
                "there is no run yet: this callback creates it when training starts",
                field="run",
                hint="pass one, run=openmanus_rl.init(…), or use it after model.learn(…) has started",
            )
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End open episodes and a run that the callback created, as failed if the block raised."""
        if error is not None and self._episodes is not None:
            self._episodes.fail(error)
            self._episodes = None
        self._stop()
        if self._own_run is not None and not self._has_ended:
            self._own_run.__exit__(kind, error, trace)
            self._has_ended = True

    def _on_training_start(self) -> None:
        # First, so that invalid options are refused before a run is created.
        plan = plan_for(self.training_env, self._intervals)
        self._stop()
        run = self._given_run or self._open_run() or self._begin_run()
        self._axis = axis_of(run)
        self._axis.begin(self.num_timesteps)
        runs[self.model] = run
        self._metrics = MetricsWriter(run, self.model)
        self._metrics.attach(self.logger)
        if self._own_run is not None:
            self._abandoned = weakref.finalize(self, _abandon, self._own_run, self._metrics)
            # At the end of the process, the run determines its status itself.
            self._abandoned.atexit = False
        self._watch_episodes(run, plan)
        if self._checkpoint_interval:
            interval = self._checkpoint_interval
            self._next_checkpoint = (self.num_timesteps // interval + 1) * interval

    def _open_run(self) -> Run | None:
        """Return the callback's run if it is open and this training continues it."""
        run = self._own_run
        if run is None or self._has_ended:
            return None
        if self._finishes and self.num_timesteps == 0:
            # The previous training was aborted by an exception that was caught; this is a new one.
            run.finish("failed", message=_ABORTED)
            self._has_ended, self._episodes = True, None
            return None
        return run

    def _begin_run(self) -> Run:
        """Start a run, or resume the run of the same name at the model's step."""
        algorithm = algorithm_of(self.model)
        environment = self._environment or environment_of(self.training_env)
        name = self._name or self._run_name or f"{environment}-{algorithm}"
        if self._own_run is not None:
            # The next run reads from the database how far this one came.
            self._own_run.flush(timeout_seconds=_FLUSH_SECONDS)
        begin = partial(
            init,
            name,
            algorithm=algorithm,
            environment=environment,
            config=config_of(self.model),
            tags=self._tags,
            total_steps=self.model._total_timesteps,
        )
        self._own_run = self._go_on(begin, name) if self.num_timesteps > 0 else self._begin_anew(begin, name)
        self._has_ended = False
        return self._own_run

    def _go_on(self, begin: Callable[..., Run], name: str) -> Run:
        # Later steps of the run are rewound. "never" applies only to training that starts from 0.
        self._made_name = self._made_name or _unique(name)
        resume: Resume = "must" if self._resume == "must" else "allow"
        return begin_after(begin, self._run_name or self._made_name, self.num_timesteps, resume=resume)

    def _begin_anew(self, begin: Callable[..., Run], name: str) -> Run:
        if self._run_name is None:
            self._made_name = _unique(name)
            return begin(run_name=self._made_name)
        return begin_after(begin, self._run_name, -1, resume=self._resume)

    def _watch_episodes(self, run: Run, plan: Plan) -> None:
        if self._episodes is not None and self._left_at is not None and self.model._last_obs is self._left_at:
            # Without a reset, episodes continue from the last learn().
            episodes = self._episodes
        else:
            if self._episodes is not None:
                self._episodes.pause("the environment was reset in the middle of the episode")
            kind = TrainingEpisodes if plan.looks else QuickEpisodes
            episodes = self._episodes = kind(
                self.training_env,
                plan=plan,
                new_rollout=run.rollout,
                environment=self._environment,
                axis=self._axis,
            )
            episodes.begin(self.model._last_obs, timesteps=self.num_timesteps)
        if isinstance(episodes, QuickEpisodes):
            run.gatherers.add(episodes.write_ended)

    def _on_step(self) -> bool:
        # For algorithms with their own loop (evolution strategies), only metrics are recorded.
        if self._episodes is not None and "dones" in self.locals:
            self._episodes.take(self.locals, timesteps=self.num_timesteps)
        if self._checkpoint_interval and self.num_timesteps >= self._next_checkpoint:
            self._next_checkpoint += self._checkpoint_interval
            self._save_checkpoint()
        return True

    def _on_rollout_end(self) -> None:
        if self._episodes is not None:
            self._episodes.settle()

    def _on_training_end(self) -> None:
        self._left_at = self.model._last_obs
        if self._checkpoint_interval:
            # Even if there is one of this step: it was saved before the model learned from the last steps.
            self._save_checkpoint()
        if self._metrics is not None:
            self._metrics.write_rest()
        self._stop()
        # An evaluation in another training must find that training's run.
        runs.pop(self.model, None)
        if self._own_run is not None and self._finishes:
            self._own_run.finish()
            self._has_ended, self._episodes = True, None

    def _stop(self) -> None:
        if self._episodes is not None:
            self._episodes.pause("training ended in the middle of the episode")
            if isinstance(self._episodes, QuickEpisodes):
                self.run.gatherers.discard(self._episodes.write_ended)
        if self._metrics is not None:
            self._metrics.detach()
            self._metrics = None
        if self._abandoned is not None:
            self._abandoned.detach()
            self._abandoned = None

    def _save_checkpoint(self) -> None:
        step = self._axis.step(self.num_timesteps)
        vec_normalize, replay_buffer = self._saved_with
        save_checkpoint(self.run, self.model, step=step, vec_normalize=vec_normalize, replay_buffer=replay_buffer)


def _unique(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}"


def _abandon(run: Run, metrics: MetricsWriter) -> None:
    """Mark a run as failed whose training was aborted by an exception that was caught."""
    metrics.detach()
    run.finish("failed", message=_ABORTED)
