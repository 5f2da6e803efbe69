"""Records the episodes of training in batches, with little overhead; without frames and videos."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from stable_baselines3.common.vec_env import VecEnv

from openmanus_rl.integrations._beginning import Axis
from openmanus_rl.integrations._episodes import Plan, outcome
from openmanus_rl.integrations._readable import as_info, as_text
from openmanus_rl.integrations._sb3_episodes import TRUNCATED, FollowedEpisodes, actions_of, info_of_turn
from openmanus_rl.integrations._sb3_model import environment_of, pick
from openmanus_rl.integrations._sb3_window import Window
from openmanus_rl.recorder import Rollout, WholeRollout

__all__ = ["QuickEpisodes"]

# Turns are written after this time or this number of steps; a killed process loses those since then.
_WRITE_SECONDS = 1.0
# Finished episodes are written after this time, or this many. Together, because between two steps of training this code
# is evicted from the CPU caches, so that writing them one at a time is several times as slow.
_ENDED_SECONDS = 0.25
_MOST_ENDED = 64
_SETTLE_SECONDS = 0.1
_WINDOW_ROWS = 1024


class _Episode:
    """An unfinished episode of one environment."""

    __slots__ = ("began", "earned", "follows", "infos", "interrupted_id", "recorded", "rollout", "row", "step", "turns")

    def __init__(self, *, recorded: bool, follows: bool, row: int, step: int) -> None:
        self.recorded = recorded
        self.follows = follows
        self.row = row
        """The first row of the window that is not written yet."""
        self.step = step
        self.began = time.time()
        self.turns = 0
        self.earned = 0.0
        self.rollout: WholeRollout | None = None
        self.infos: dict[str, Any] = {}
        self.interrupted_id: str | None = None


class _Ended(NamedTuple):
    """A finished episode that is not written yet."""

    environment: int
    episode: _Episode
    row: int
    """The row of the window after its last step."""
    finished: float
    status: str
    truncated: bool
    total_reward: float
    step_count: int
    step: int
    final: str | None
    """The last observation, if the episode has turns."""


class QuickEpisodes(FollowedEpisodes):
    """Records the steps of training; turns and finished episodes are written in batches."""

    def __init__(
        self,
        env: VecEnv,
        *,
        plan: Plan,
        new_rollout: Callable[..., Rollout],
        environment: str | None,
        axis: Axis,
    ) -> None:
        super().__init__(env, axis=axis)
        self._plan = plan
        self._new_rollout = new_rollout
        self._environment = environment or environment_of(env)
        self._order = itertools.count()
        self._episodes: list[_Episode] = []
        self._window = Window(_WINDOW_ROWS, env.num_envs)
        self._next_write = 0.0
        self._ended: deque[_Ended] = deque()
        self._next_ended = 0.0
        # The row of the window; rows are reused once they are written.
        self._writing = threading.RLock()

    def begin(self, observations: Any, *, timesteps: int) -> None:
        """Start an episode of each environment, after a reset."""
        self._window.clear()
        step = self._axis.step(timesteps)
        self._episodes = [self._new_episode(step) for _ in self._lengths]
        self._choose(observations)

    def settle(self) -> None:
        """Write what is pending: the algorithm may now learn for a while without making steps."""
        self.write_ended()
        if self._watched and self._window.rows and time.time() >= self._next_write - _WRITE_SECONDS + _SETTLE_SECONDS:
            self._write_all()

    def pause(self, message: str) -> None:
        """Close the open episodes; if one continues later, its end is recorded without turns."""
        self.write_ended()
        for index in self._watched:
            episode = self._episodes[index]
            self._write(index, episode)
            if episode.rollout is not None:
                episode.rollout.complete(
                    "interrupted", message=message, step_count=episode.turns, total_reward=episode.earned
                )
                episode.interrupted_id, episode.rollout = episode.rollout.id, None
            episode.follows = False
        self._watched = []

    def fail(self, error: BaseException) -> None:
        """Close the open episodes with the error that ended training."""
        self.write_ended()
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        for index in self._watched:
            episode = self._episodes[index]
            self._write(index, episode)
            if episode.rollout is not None:
                counted: dict[str, Any] = {"step_count": episode.turns, "total_reward": episode.earned}
                if isinstance(error, Exception):
                    episode.rollout.complete("error", message=text, error=text, **counted)
                else:
                    episode.rollout.complete("interrupted", message=text, **counted)
        self._watched = []

    def _new_episode(self, step: int) -> _Episode:
        position, rest = divmod(next(self._order), self._plan.record_every)
        interval = self._plan.turn_interval_episodes
        follows = not rest and interval > 0 and position % interval == 0
        return _Episode(recorded=not rest, follows=follows, row=self._window.rows, step=step)

    def _choose(self, observations: Any) -> None:
        """Determine which environments have turns recorded now, and keep their observations."""
        self._watched = [index for index, episode in enumerate(self._episodes) if episode.follows]
        if self._watched:
            self._window.begin(self._originals.observations(observations), self._watched)

    def _take_turns(self, values: Mapping[str, Any]) -> None:
        # Kept until it is written.
        now = time.time()
        if self._window.is_full or now >= self._next_write:
            self._write_all()
        infos = values["infos"]
        for index in self._watched:
            info = infos[index]
            if len(info) != 1 or TRUNCATED not in info:
                further = as_info(info_of_turn(info))
                if further:
                    episode = self._episodes[index]
                    episode.infos[str(self._window.rows - episode.row)] = further
        self._window.add(
            now,
            actions_of(values),
            self._originals.rewards(values["rewards"]),
            self._originals.observations(values["new_obs"]),
            self._watched,
        )

    def _write_all(self) -> None:
        """Write all turns and clear the window."""
        self._next_write = time.time() + _WRITE_SECONDS
        with self._writing:
            self.write_ended()
            for index in self._watched:
                self._write(index, self._episodes[index])
            self._window.clear()
            for episode in self._episodes:
                episode.row = 0

    def _write(self, index: int, episode: _Episode) -> None:
        turns = self._unwritten(index, episode, self._window.rows)
        if turns is not None:
            episode.rollout = episode.rollout or self._rollout_of(index, episode)
            episode.rollout.write(turns=turns)

    def _unwritten(self, index: int, episode: _Episode, end: int) -> dict[str, Any] | None:
        """Return the unwritten turns up to a row, and mark them as written."""
        count = end - episode.row
        if count <= 0:
            return None
        columns = self._window.columns(index, episode.row, end)
        turns = {"first": episode.turns, **columns, "infos": episode.infos}
        episode.earned += float(self._window.rewards(index, episode.row, end).sum())
        episode.turns += count
        episode.row, episode.infos = end, {}
        return turns

    def _rollout_of(self, index: int, episode: _Episode) -> WholeRollout:
        metadata: dict[str, Any] = {"environment_index": index}
        if episode.interrupted_id is not None:
            metadata["interrupted_rollout_id"] = episode.interrupted_id
        rollout = self._new_rollout(
            whole=True,
            environment=self._environment,
            metadata=metadata,
            # That of its first turn: a rewind to the step at which it began hides it.
            step=episode.step + 1,
            started_at=datetime.fromtimestamp(episode.began, UTC),
        )
        return cast(WholeRollout, rollout)

    def _end(self, values: Mapping[str, Any], *, step: int) -> None:
        seen = None
        now = time.time()
        for index in self._over(values):
            info, episode = values["infos"][index], self._episodes[index]
            # Copied now, because an environment may reuse the dict.
            total_reward, step_count, truncated = self._count(index, info)
            if episode.recorded:
                final = None
                if episode.follows:
                    # There is no next turn to show the final observation.
                    seen = self._originals.observations(values["new_obs"]) if seen is None else seen
                    final = as_text(self._originals.final(info, otherwise=pick(seen, index)))
                status = outcome(info, truncated=truncated)
                self._ended.append(
                    _Ended(
                        index, episode, self._window.rows, now, status, truncated, total_reward, step_count, step, final
                    )
                )
            self._episodes[index] = self._new_episode(step)
        self._choose(values["new_obs"])
        if len(self._ended) >= _MOST_ENDED or now >= self._next_ended:
            self.write_ended()

    def write_ended(self) -> None:
        """Write the finished episodes; may be called by any thread, such as one in `run.flush()`."""
        self._next_ended = time.time() + _ENDED_SECONDS
        with self._writing:
            while self._ended:
                self._complete(self._ended.popleft())

    def _complete(self, ended: _Ended) -> None:
        episode = ended.episode
        turns = self._unwritten(ended.environment, episode, ended.row) if episode.follows else None
        if turns is not None:
            turns["final"] = ended.final
        (episode.rollout or self._rollout_of(ended.environment, episode)).complete(
            ended.status,
            total_reward=ended.total_reward,
            step_count=ended.step_count,
            step=ended.step,
            finished_at=datetime.fromtimestamp(ended.finished, UTC),
            result={"terminated": not ended.truncated, "truncated": ended.truncated},
            turns=turns,
        )
