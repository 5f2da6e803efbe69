"""Records evaluations by Stable-Baselines3."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.vec_env import VecEnv

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._beginning import axis_of
from openmanus_rl.integrations._episodes import Episodes, outcome
from openmanus_rl.integrations._sb3_episodes import episodes_of, info_of_turn, plan_for
from openmanus_rl.integrations._sb3_model import Originals, environment_of, is_monitored, pick, runs
from openmanus_rl.recorder import Evaluation, Run

__all__ = ["OpenManusEvalCallback"]

_MASKS = "action_masks"


class _Masked:
    """A model that predicts with the action masks of the environments, and otherwise delegates to the model."""

    def __init__(self, model: BaseAlgorithm, env: VecEnv) -> None:
        self._model = model
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def predict(self, observation: Any, **options: Any) -> Any:
        masks = np.stack(self._env.env_method(_MASKS))
        return self._model.predict(observation, action_masks=masks, **options)  # type: ignore[call-arg]


class OpenManusEvalCallback(EvalCallback):
    """An `EvalCallback` that records each evaluation, with its episodes as rollouts.

    It records to the given run, or to the run of an `OpenManusCallback` of the same model. A model with action masks,
    such as MaskablePPO, is evaluated with those of the environment, like sb3-contrib's `MaskableEvalCallback`.
    """

    def __init__(
        self,
        eval_env: Any,
        *,
        run: Run | None = None,
        name: str | None = None,
        turn_interval_episodes: int = 5,
        frame_interval: int = 0,
        video_interval_episodes: int = 0,
        use_masking: bool = True,
        **options: Any,
    ) -> None:
        """Evaluate as `EvalCallback` does with the same options.

        In each evaluation, the first and then every `turn_interval_episodes`-th episode has turns, and every
        `video_interval_episodes`-th a video; every `frame_interval`-th turn has a frame. 0 means none.
        `use_masking=False` evaluates a model without action masks.
        """
        super().__init__(eval_env, **options)
        self._run = run
        self._name = name
        self._uses_masks = use_masking
        env: VecEnv = self.eval_env
        self._plan = plan_for(
            env,
            {
                "turn_interval_episodes": turn_interval_episodes,
                "frame_interval": frame_interval,
                "video_interval_episodes": video_interval_episodes,
            },
        )
        self._originals = Originals(env)
        self._monitored = is_monitored(env)
        self._episodes: list[Episodes] = []
        self._begun: set[int] = set()
        self._lengths: list[int] = []

    def _on_rollout_start(self) -> None:
        # Checked before the first step, because the first evaluation may be hours away.
        self._find_run()
        if self._is_masked() and not self.eval_env.has_attr(_MASKS):
            raise InvalidInput(
                f"{environment_of(self.eval_env)}: it has no {_MASKS}, which {type(self.model).__name__} needs",
                field="eval_env",
                hint="wrap it in sb3_contrib's ActionMasker, or use_masking=False",
            )

    def _is_masked(self) -> bool:
        return self._uses_masks and _MASKS in inspect.signature(self.model.predict).parameters

    def _find_run(self) -> Run:
        run = self._run or runs.get(self.model)
        if run is None:
            raise InvalidInput(
                "no run to record evaluations to: none is given, and no OpenManusCallback records this model",
                field="run",
                hint="run=run, or callback=[OpenManusCallback(), OpenManusEvalCallback(eval_env)]",
            )
        return run

    def _on_step(self) -> bool:
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq != 0:
            return super()._on_step()
        run = self._find_run()
        step, environment = axis_of(run).step(self.num_timesteps), environment_of(self.eval_env)
        with run.evaluation(step=step, name=self._name, environment=environment) as evaluation:
            self._episodes = episodes_of(self.eval_env, plan=self._plan, new_rollout=evaluation.rollout)
            self._begun, self._lengths = set(), []
            try:
                with self._masked():
                    goes_on = super()._on_step()
            except BaseException as error:
                for episodes in self._episodes:
                    episodes.fail(error)
                raise
            self._finish(evaluation)
        return goes_on

    @contextmanager
    def _masked(self) -> Iterator[None]:
        """Replace the model during an evaluation by one that adds the action masks."""
        model = self.model
        if self._is_masked():
            self.model = _Masked(model, self.eval_env)  # type: ignore[assignment]
        try:
            yield
        finally:
            self.model = model

    def _finish(self, evaluation: Evaluation) -> None:
        for episodes in self._episodes:
            # Episodes that the next reset would have started.
            episodes.end("interrupted")
        successes = self._is_success_buffer
        evaluation.finish(
            mean_reward=self.last_mean_reward,
            mean_turns=float(np.mean(self._lengths)) if self._lengths else None,
            success_rate=float(np.mean(successes)) if successes else None,
        )

    def _log_success_callback(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        """Record one step of one environment; called with the local variables of the evaluation loop."""
        super()._log_success_callback(locals_, globals_)
        index, info = locals_["i"], locals_["info"]
        episodes = self._episodes[index]
        if index not in self._begun:
            # Called after the step: the first frame can no longer be rendered.
            self._begun.add(index)
            episodes.begin(self._originals.unscaled(pick(locals_["observations"], index)), see_start=False)
        last = bool(locals_["done"]) and (not self._monitored or "episode" in info)
        seen = pick(self._originals.observations(locals_["new_observations"]), index)
        if episodes.watches:
            episodes.take(
                action=locals_["actions"][index],
                reward=self._originals.rewards(locals_["rewards"])[index],
                info=info_of_turn(info),
                observation=self._originals.final(info, otherwise=seen) if last else seen,
                last=last,
                see_end=False,
            )
        if last:
            self._end(episodes, locals_, index)
            episodes.begin(seen)

    def _end(self, episodes: Episodes, locals_: dict[str, Any], index: int) -> None:
        info = locals_["info"]
        counted = info.get("episode") or {
            "r": locals_["current_rewards"][index],
            "l": locals_["current_lengths"][index],
        }
        truncated = bool(info.get("TimeLimit.truncated", False))
        self._lengths.append(int(counted["l"]))
        episodes.end(
            outcome(info, truncated=truncated),
            total_reward=float(counted["r"]),
            step_count=int(counted["l"]),
            result={"terminated": not truncated, "truncated": truncated},
        )
