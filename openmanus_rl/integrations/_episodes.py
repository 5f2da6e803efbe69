"""Record the steps of an environment: one rollout per episode, one turn per step."""

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
    """Raise if a value is not a valid interval."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{name} is {value!r}; it must be an integer of at least {least}", field=name)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many episodes, turns, frames and videos are recorded."""

    record_every: int = 1
    """Record every n-th episode as a rollout, and skip the others."""
    turn_interval_episodes: int = 1
    """Record the turns of every n-th rollout; of the others only return and length. 0: no turns."""
    frame_interval: int = 0
    """Add a frame to every n-th recorded turn. 0: no frames."""
    video_interval_episodes: int = 0
    """Add a video to every n-th rollout. 0: no videos."""
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
        """Whether the environment must be rendered."""
        return self.frame_interval > 0 or self.video_interval_episodes > 0


def outcome(info: Mapping[str, Any], *, truncated: bool) -> str:
    """Return the status of an episode; a success flag of the environment takes precedence."""
    for key in _SUCCESS_KEYS:
        if key not in info:
            continue
        said = np.asarray(info[key])
        # Only a bool, or 0.0 and 1.0: other values under that name have another meaning.
        if said.size == 1 and said.dtype.kind in "biuf" and not np.isnan(said):
            return "success" if said else "failed"
    return "truncated" if truncated else "completed"


def _components(reward: Any) -> tuple[float, float | dict[str, float]]:
    """Return a reward as one number and as recorded in the turn: with several objectives, one component each."""
    several = np.asarray(reward, dtype=float)
    if several.size == 1:
        return float(several.item()), float(several.item())
    return float(several.sum()), {str(place): float(part) for place, part in enumerate(several.ravel())}


class Episodes:
    """Records the episodes of one environment; a rollout starts with its first step, not at the reset."""

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
        """Whether each step of this episode is recorded, or only its end."""
        return self._follows or self._video is not None

    def begin(self, observation: Any, *, see_start: bool = True, **fields: Any) -> None:
        """Start an episode with its first observation; `see_start` renders it, `fields` are fields of the rollout."""
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
        """Record a step: the action, the reward and the next observation; `see_end` renders it, if possible."""
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
            # There is no next turn to show the final observation.
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
        """End the episode with an error, and the action that raised it."""
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
        """End the episode; an episode without steps is not recorded."""
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
        """Close the rollout as interrupted; if the episode continues later, only its end is recorded."""
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
        """Render the environment if this turn or the video needs a frame."""
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
