"""Records a vector environment, in the process that steps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import iterate

from openmanus_rl.integrations._episodes import Episodes, outcome
from openmanus_rl.integrations._gymnasium_common import CLOSE_MESSAGE, RESET_MESSAGE, Bookkeeping, Describe
from openmanus_rl.recorder import Run

__all__ = ["RecordVectorEpisodes"]


class RecordVectorEpisodes(VectorWrapper[Any, Any, Any, Any, Any]):
    """Records each episode of each sub-environment as a rollout, as `RecordEpisodes` does for one environment.

    It records what the vector environment returns, so it works with all vector environments and autoreset modes.
    Episodes are numbered in the order in which they start, across all sub-environments.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        *,
        run: Run | None = None,
        record_every: int = 1,
        turn_interval_episodes: int = 1,
        frame_interval: int = 0,
        video_interval_episodes: int = 0,
        environment: str | None = None,
        task_description: str | Describe | None = None,
        metadata: Mapping[str, Any] | None = None,
        step: Callable[[], int] | None = None,
    ) -> None:
        """Wrap a vector environment; the options are those of `RecordEpisodes`."""
        super().__init__(env)
        self._books = Bookkeeping(
            env,
            run=run,
            environment=environment,
            task_description=task_description,
            metadata=metadata,
            step=step,
            intervals={
                "record_every": record_every,
                "turn_interval_episodes": turn_interval_episodes,
                "frame_interval": frame_interval,
                "video_interval_episodes": video_interval_episodes,
            },
        )
        self._autoreset = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._frames: Sequence[Any] | None = None
        self._episodes = [self._recorder(index) for index in range(env.num_envs)]
        # Sub-environments whose next step is a reset, which ignores the action.
        self._resets_next = [False] * env.num_envs

    def _recorder(self, index: int) -> Episodes:
        return self._books.episodes(render=lambda: self._frame(index), environment_index=index)

    def _frame(self, index: int) -> Any:
        """Return the frame of one sub-environment; all are rendered together, once per step."""
        if self._frames is None:
            self._frames = self.env.render() or ()
        return self._frames[index] if index < len(self._frames) else None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, or those in options["reset_mask"]; unfinished episodes end as truncated."""
        # Gymnasium removes the mask from the options.
        mask = options.get("reset_mask") if options else None
        chosen = [index for index in range(self.num_envs) if mask is None or mask[index]]
        for index in chosen:
            self._episodes[index].end("truncated", message=RESET_MESSAGE)
            self._resets_next[index] = False
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._frames = None
        seen = list(iterate(self.env.observation_space, observations))
        for index in chosen:
            self._begin(index, seen[index], infos, seed=_seed_of(seed, index))
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments and record a turn for each."""
        try:
            observations, rewards, terminations, truncations, infos = self.env.step(actions)
        except BaseException as error:
            self._fail(error)
            raise
        self._frames = None
        seen = list(iterate(self.env.observation_space, observations))
        taken = list(iterate(self.env.action_space, actions))
        for index, episodes in enumerate(self._episodes):
            if self._resets_next[index]:
                self._resets_next[index] = False
                self._begin(index, seen[index], infos)
                continue
            terminated, truncated = bool(terminations[index]), bool(truncations[index])
            same_step = (terminated or truncated) and self._autoreset == AutoresetMode.SAME_STEP
            self._record(
                episodes,
                action=taken[index],
                reward=rewards[index],
                info=_info_of(infos["final_info"] if same_step else infos, index),
                observation=infos["final_obs"][index] if same_step else seen[index],
                terminated=terminated,
                truncated=truncated,
            )
            if same_step:
                self._begin(index, seen[index], infos)
            elif terminated or truncated:
                self._resets_next[index] = self._autoreset == AutoresetMode.NEXT_STEP
        return observations, rewards, terminations, truncations, infos

    def close(self, **kwargs: Any) -> None:
        """Close the environments; unfinished episodes end as interrupted."""
        for episodes in self._episodes:
            episodes.end("interrupted", message=CLOSE_MESSAGE)
        super().close(**kwargs)

    def _record(
        self,
        episodes: Episodes,
        *,
        action: Any,
        reward: Any,
        info: dict[str, Any],
        observation: Any,
        terminated: bool,
        truncated: bool,
    ) -> None:
        over = terminated or truncated
        episodes.take(
            action=action,
            reward=reward,
            info=info,
            observation=observation,
            last=over,
            # An environment that was reset in the same step already shows the next episode.
            see_end=self._autoreset != AutoresetMode.SAME_STEP,
        )
        if over:
            result = {"terminated": terminated, "truncated": truncated}
            episodes.end(outcome(info, truncated=not terminated), result=result)

    def _begin(self, index: int, observation: Any, infos: Mapping[str, Any], *, seed: int | None = None) -> None:
        fields = self._books.fields(observation, _info_of(infos, index), seed=seed)
        self._episodes[index].begin(observation, **fields)

    def _fail(self, error: BaseException) -> None:
        """End every episode with the error of the step; it is not known which environment raised it."""
        for episodes in self._episodes:
            episodes.fail(error)


def _seed_of(seed: int | list[int | None] | None, index: int) -> int | None:
    if isinstance(seed, list):
        return seed[index]
    return None if seed is None else seed + index


def _info_of(infos: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return the info of one environment: its value of each key for which the mask `_key` is set."""
    own: dict[str, Any] = {}
    for key, values in infos.items():
        if (key.startswith("_") and key[1:] in infos) or key in ("final_obs", "final_info"):
            continue
        mask = infos.get(f"_{key}")
        if mask is not None and not mask[index]:
            continue
        if isinstance(values, Mapping):
            own[key] = _info_of(values, index)
        elif hasattr(values, "__len__") and not isinstance(values, str) and len(values) > index:
            own[key] = values[index]
        else:
            # Other vector environments may have values that apply to all environments.
            own[key] = values
    return own
