"""From an environment's steps to rollouts: one rollout an episode, one turn a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._readable import as_info, as_text
from openmanus_rl.integrations._videos import Video, as_frame
from openmanus_rl.recorder import Rollout

__all__ = ["Episodes", "Plan", "check_interval", "outcome"]

_SUCCESS_KEYS = ("is_success", "success")


def check_interval(name: str, value: Any, *, least: int = 0) -> None:
    """Refuse what is no interval."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{name} is {value!r}, and must be a whole number from {least} on", field=name)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of an environment's life is recorded."""

    record_every: int = 1
    """Every n-th episode becomes a rollout; the others leave no trace."""
    turn_interval_episodes: int = 1
    """Every n-th rollout has its turns; the others only their return and length. 0: none has."""
    frame_interval: int = 0
    """Where there are turns, every n-th has the picture of what was seen. 0: none has."""
    video_interval_episodes: int = 0
    """Every n-th rollout has a video. 0: none has."""
    frames_per_second: float = 30.0

    def __post_init__(self) -> None:
        for name, least in (
            ("record_every", 1),
            ("turn_interval_episodes", 0),
            ("frame_interval", 0),
            ("video_interval_episodes", 0),
        ):
            check_interval(name, getattr(self, name), least=least)

    @property
    def looks(self) -> bool:
        """Whether the environment has to be rendered at all."""
        return self.frame_interval > 0 or self.video_interval_episodes > 0


def outcome(info: Mapping[str, Any], *, truncated: bool) -> str:
    """Return how an episode ended: what the environment says of success counts most."""
    for key in _SUCCESS_KEYS:
        if key not in info:
            continue
        said = np.asarray(info[key])
        # One yes or no, as a bool or as 0.0 and 1.0; anything else under that name is something else.
        if said.size == 1 and said.dtype.kind in "biuf" and not np.isnan(said):
            return "success" if said else "failed"
    return "truncated" if truncated else "completed"


def _components(reward: Any) -> tuple[float, float | dict[str, float]]:
    """Return a reward as one number, and as a turn says it: where there are several objectives, each by its place."""
    several = np.asarray(reward, dtype=float)
    if several.size == 1:
        return float(several.item()), float(several.item())
    return float(several.sum()), {str(place): float(part) for place, part in enumerate(several.ravel())}


class Episodes:
    """The episodes of one environment, one after another; a rollout begins with its first step, not at reset."""

    def __init__(
        self,
        *,
        plan: Plan,
        order: Iterator[int],
        new_rollout: Callable[..., Rollout],
        fields: Mapping[str, Any],
        render: Callable[[], Any] | None = None,
    ) -> None:
        self._plan = plan
        self._order = order
        self._new_rollout = new_rollout
        self._fields = fields
        self._render = render if plan.looks else None
        self._video: Video | None = None
        self._clear()

    def _clear(self) -> None:
        self._follows = False
        self.length = 0
        self._recorded = False
        self._return = 0.0
        self._observation = ""
        self._frame: Any = None
        self._rollout: Rollout | None = None
        self._own_fields: dict[str, Any] = {}

    @property
    def watches(self) -> bool:
        """Whether each step of this episode has to be told; else its end is enough."""
        return self._follows or self._video is not None

    def begin(self, observation: Any, *, see_start: bool = True, **fields: Any) -> None:
        """Begin an episode with what is seen first; `see_start` if it can be rendered, fields are the rollout's."""
        self._clear()
        position, rest = divmod(next(self._order), self._plan.record_every)
        if rest:
            return
        self._recorded = True
        self._own_fields = fields
        self._started_at = datetime.now(UTC)
        turn_interval, video_interval = self._plan.turn_interval_episodes, self._plan.video_interval_episodes
        self._follows = turn_interval > 0 and position % turn_interval == 0
        if self._render is not None and video_interval > 0 and position % video_interval == 0:
            self._video = Video(frames_per_second=self._plan.frames_per_second)
        if self._follows:
            self._observation = as_text(observation)
        if see_start:
            self._look()

    def take(
        self,
        *,
        action: Any,
        reward: Any,
        info: Mapping[str, Any] | None,
        observation: Any,
        last: bool,
        see_end: bool = True,
        duration_ms: float | None = None,
    ) -> None:
        """Record a step: the action, what it earned, and what was seen then; `see_end` if it can still be rendered."""
        total, earned = _components(reward)
        self.length += 1
        self._return += total
        if not self._recorded:
            return
        seen, frame, self._frame = self._observation, self._frame, None
        if self._follows:
            self._observation = as_text(observation)
        if not last or see_end:
            self._look(last=last)
        if self._follows:
            self._log_turn(seen, frame, action, earned, info, duration_ms, last=last)

    def _log_turn(
        self,
        seen: str,
        frame: Any,
        action: Any,
        reward: float | Mapping[str, float] | None,
        info: Mapping[str, Any] | None,
        duration_ms: float | None,
        *,
        last: bool,
    ) -> None:
        further: dict[str, Any] = {}
        images = [{"image": frame, "kind": "frame"}] if frame is not None else []
        if last:
            # No turn follows that would show where the episode ended.
            further["observations"] = [{"kind": "final", "text": self._observation}]
            if self._frame is not None:
                images.append({"image": self._frame, "kind": "frame"})
        if images:
            further["images"] = images
        self._begun().log_turn(
            observation=seen,
            action=as_text(action),
            reward=reward,
            info=as_info(info),
            environment_duration_ms=duration_ms,
            **further,
        )

    def fail(self, error: BaseException, *, action: Any = None) -> None:
        """End the episode with what broke it, and the action that was being taken."""
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if action is not None:
            self.length += 1
            if self._follows:
                self._log_turn(self._observation, self._frame, action, None, {"error": text}, None, last=False)
        if isinstance(error, Exception):
            self.end("error", message=text, error=text)
        else:
            self.end("interrupted", message=text)

    def end(
        self,
        status: str,
        *,
        message: str | None = None,
        total_reward: float | None = None,
        step_count: int | None = None,
        **fields: Any,
    ) -> None:
        """End the episode; nothing is recorded of one in which nothing happened."""
        happened = self.length > 0 or bool(step_count)
        if self._recorded and happened:
            rollout = self._begun()
            self._deliver_video(rollout)
            rollout.complete(
                status,
                message=message,
                total_reward=self._return if total_reward is None else total_reward,
                step_count=self.length if step_count is None else step_count,
                **fields,
            )
        self._drop_video()
        self._clear()

    def pause(self, message: str) -> None:
        """Close the rollout as interrupted; if the episode goes on after all, its end is recorded without turns."""
        if self._rollout is not None:
            self._rollout.complete("interrupted", message=message, step_count=self.length, total_reward=self._return)
            self._own_fields["metadata"] = {**self._metadata(), "interrupted_rollout_id": self._rollout.id}
            self._rollout = None
        self._follows = False
        self._drop_video()

    def _metadata(self) -> dict[str, Any]:
        return self._own_fields.get("metadata") or self._fields.get("metadata") or {}

    def _begun(self) -> Rollout:
        if self._rollout is None:
            fields = {**self._fields, **self._own_fields, "started_at": self._started_at.isoformat()}
            self._rollout = self._new_rollout(**fields)
        return self._rollout

    def _look(self, *, last: bool = False) -> None:
        """Render what is seen now, if this turn or the video wants it."""
        self._frame = None
        if self._render is None:
            return
        interval = self._plan.frame_interval
        wanted = self._follows and interval > 0 and (last or self.length % interval == 0)
        if not wanted and self._video is None:
            return
        frame = as_frame(self._render())
        if frame is not None and self._video is not None:
            self._video.add(frame)
        if wanted:
            self._frame = frame

    def _deliver_video(self, rollout: Rollout) -> None:
        path = self._video.finish() if self._video is not None else None
        if path is not None:
            rollout.log_media(path, kind="video")

    def _drop_video(self) -> None:
        if self._video is not None:
            self._video.discard()
            self._video = None
