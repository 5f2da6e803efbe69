"""Records a single environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium

from openmanus_rl.integrations._episodes import outcome
from openmanus_rl.integrations._gymnasium_common import CLOSE_MESSAGE, RESET_MESSAGE, Bookkeeping, Describe
from openmanus_rl.recorder import Run

__all__ = ["RecordEpisodes"]


class RecordEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Records each episode of an environment as a rollout, and each step as a turn.

    A turn holds the observation, the action, and the reward and info that followed. The status is `completed` for a
    terminated episode and `truncated` for a truncated one; if the last info has `is_success` or `success`, it is
    `success` or `failed`. An unfinished episode is `truncated` if the environment is reset, `interrupted` if it is
    closed, and `error` if it raises.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
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
        """Wrap an environment.

        Every `record_every`-th episode becomes a rollout. Of these, every `turn_interval_episodes`-th has turns and
        every `video_interval_episodes`-th a video; every `frame_interval`-th turn has a frame. 0 means none.
        `task` is a text, or a function of the first observation and info; by default, it is the `task_description` or
        `task` of the info. `step` returns the training step at which an episode starts.
        """
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
        self._episodes = self._books.episodes(render=env.render)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an unfinished episode ends as truncated."""
        self._episodes.end("truncated", message=RESET_MESSAGE)
        observation, info = self.env.reset(seed=seed, options=options)
        self._episodes.begin(observation, **self._books.fields(observation, info, seed=seed))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment and record it as a turn."""
        started = time.perf_counter()
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except BaseException as error:
            self._episodes.fail(error, action=action)
            raise
        over = bool(terminated or truncated)
        self._episodes.take(
            action=action,
            reward=reward,
            info=info,
            observation=observation,
            last=over,
            duration_ms=(time.perf_counter() - started) * 1000,
        )
        if over:
            result = {"terminated": bool(terminated), "truncated": bool(truncated)}
            self._episodes.end(outcome(info, truncated=not terminated), result=result)
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Close the environment; an unfinished episode ends as interrupted."""
        self._episodes.end("interrupted", message=CLOSE_MESSAGE)
        super().close()
