"""Records the episodes of training at next to no cost, as long as nobody wants pictures of them."""

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

# What a process that is killed takes with it: the turns of at most this time, or of so many steps.
_WRITE_SECONDS = 1.0
# And the episodes that ended in at most this time, or so many. They are written together: between two steps of training
# little of this code is left in the processor's caches, and one at a time each would cost several times as much.
_ENDED_SECONDS = 0.25
_MOST_ENDED = 64
_SETTLE_SECONDS = 0.1
_WINDOW_ROWS = 1024


class _Episode:
    """An episode of one environment that is under way."""

    __slots__ = ("began", "earned", "follows", "infos", "interrupted_id", "recorded", "rollout", "row", "step", "turns")

    def __init__(self, *, recorded: bool, follows: bool, row: int, step: int) -> None:
        self.recorded = recorded
        self.follows = follows
        self.row = row
        """The row of the window at which begins what is not written."""
        self.step = step
        self.began = time.time()
        self.turns = 0
        self.earned = 0.0
        self.rollout: WholeRollout | None = None
        self.infos: dict[str, Any] = {}
        self.interrupted_id: str | None = None


class _Ended(NamedTuple):
    """An episode that is over, and not written yet."""

    environment: int
    episode: _Episode
    row: int
    """The row of the window behind its last step."""
    finished: float
    status: str
    truncated: bool
    total_reward: float
    step_count: int
    step: int
    final: str | None
    """What was seen last, of an episode with turns."""


class QuickEpisodes(FollowedEpisodes):
    """Follows the steps of training; turns and episodes that ended are written now and then, many at a time."""

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
        # Of the window, whose rows are used again once they are written.
        self._writing = threading.RLock()

    def begin(self, observations: Any, *, timesteps: int) -> None:
        """Begin an episode of each environment: they were reset."""
        self._window.clear()
        step = self._axis.step(timesteps)
        self._episodes = [self._new_episode(step) for _ in self._lengths]
        self._choose(observations)

    def settle(self) -> None:
        """Write what waits: the algorithm may now learn for a while, and there are no steps meanwhile."""
        self.write_ended()
        if self._watched and self._window.rows and time.time() >= self._next_write - _WRITE_SECONDS + _SETTLE_SECONDS:
            self._write_all()

    def pause(self, message: str) -> None:
        """Close what is open; an episode that goes on after all is recorded at its end without turns."""
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
        """Close what is open with what broke training."""
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
        """Find out who is watched from here on, and keep what these see now."""
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
        """Write all turns, and begin the window anew."""
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
        """Return the turns up to a row that are not written, which then count as such."""
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
            step=episode.step,
            started_at=datetime.fromtimestamp(episode.began, UTC),
        )
        return cast(WholeRollout, rollout)

    def _end(self, values: Mapping[str, Any], *, step: int) -> None:
        seen = None
        now = time.time()
        for index in self._over(values):
            info, episode = values["infos"][index], self._episodes[index]
            # Now, not when it is written: an environment may use the same dict again.
            total_reward, step_count, truncated = self._count(index, info)
            if episode.recorded:
                final = None
                if episode.follows:
                    # No turn follows that would show where the episode ended.
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
        """Write the episodes that are over; called by any thread, such as one that waits for everything to arrive."""
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
