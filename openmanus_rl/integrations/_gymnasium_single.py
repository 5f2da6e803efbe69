"""Records one environment."""

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
    """Records each episode of an environment as a rollout, each step as a turn; the environment behaves as before.

    A turn holds what was seen, the action, the reward and info that followed. An episode that ends by itself is
    `completed`, one cut off `truncated`; where the last info has `is_success` or `success`, it is `success` or
    `failed`. One that is reset in the middle is `truncated`, one that is closed `interrupted`, one that raised `error`.
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

        `record_every` n-th episode becomes a rollout; of these, every `turn_interval_episodes`-th has its turns and
        every `video_interval_episodes`-th a video; of turns, every `frame_interval`-th has a picture. 0 means none.
        The task is the given text, or what a function says of the first observation and info, or info's
        `task_description` or `task`. `step` says at which step of training an episode begins.
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
        """Reset the environment; an episode that is under way ends as truncated."""
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
        """Close the environment; an episode that is under way ends as interrupted."""
        self._episodes.end("interrupted", message=CLOSE_MESSAGE)
        super().close()
