"""What the last steps of a vector of environments were, in arrays, until it is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from openmanus_rl.integrations._readable import as_text
from openmanus_rl.integrations._sb3_model import pick
from openmanus_rl.recorder.values import as_number

__all__ = ["Window"]

# What orjson writes as it is; more numbers than this a row are described in words.
_NUMBERS = "biuf"
_MOST_NUMBERS = 64
_MOST_NUMBER_BYTES = 8


class Window:
    """The steps since the last writing: what was seen, done and earned in each environment."""

    def __init__(self, rows: int, environments: int) -> None:
        self.rows = 0
        self._most_rows = rows
        self._rewards = np.empty((rows, environments))
        self._times = np.empty(rows)
        self._seen: _Column | None = None
        self._done: _Column | None = None

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another step."""
        return self.rows >= self._most_rows

    def begin(self, observations: Any, watched: Iterable[int]) -> None:
        """Take note of what is seen before the next step."""
        if self._seen is None:
            self._seen = _column(observations, self._most_rows + 1)
        self._seen.put(self.rows, observations, watched)

    def add(self, when: float, actions: Any, rewards: Any, observations: Any, watched: Iterable[int]) -> None:
        """Take note of a step, and of what is seen behind it."""
        assert self._seen is not None
        if self._done is None:
            self._done = _column(actions, self._most_rows)
        row = self.rows
        self._times[row] = when
        # Copied: algorithms change them afterwards, and environments may use the same array again.
        self._rewards[row] = rewards
        self._done.put(row, actions, watched)
        self._seen.put(row + 1, observations, watched)
        self.rows = row + 1

    def clear(self) -> None:
        """Make room; what is seen now stays."""
        if self._seen is not None:
            self._seen.move(self.rows)
        self.rows = 0

    def rewards(self, index: int, start: int, end: int) -> np.ndarray[Any, Any]:
        """Return what an environment earned from a row up to another."""
        return self._rewards[start:end, index]

    def _earned(self, index: int, start: int, end: int) -> Any:
        rewards = self.rewards(index, start, end)
        if np.isfinite(rewards).all():
            return np.ascontiguousarray(rewards)
        return [as_number(reward) for reward in rewards.tolist()]

    def columns(self, index: int, start: int, end: int) -> dict[str, Any]:
        """Return the steps of an environment from a row up to another, as columns."""
        assert self._seen is not None
        assert self._done is not None
        return {
            "times": self._times[start:end],
            "observations": self._seen.get(index, start, end),
            "actions": self._done.get(index, start, end),
            "rewards": self._earned(index, start, end),
        }


class _Column(Protocol):
    def put(self, row: int, batch: Any, watched: Iterable[int]) -> None: ...
    def move(self, row: int) -> None: ...
    def get(self, index: int, start: int, end: int) -> Any: ...


class _Numbers:
    """Few numbers an environment: all of them, in one array."""

    def __init__(self, like: np.ndarray[Any, Any], rows: int) -> None:
        self._kept = np.empty((rows, *like.shape), like.dtype)

    def put(self, row: int, batch: Any, watched: Iterable[int]) -> None:  # noqa: ARG002 - all at once is quicker
        self._kept[row] = batch

    def move(self, row: int) -> None:
        self._kept[0] = self._kept[row]

    def get(self, index: int, start: int, end: int) -> Any:
        return _finite(self._kept[start:end, index])


class _Texts:
    """Anything else: of those that are watched, as text."""

    def __init__(self, rows: int) -> None:
        self._kept: list[dict[int, str]] = [{} for _ in range(rows)]

    def put(self, row: int, batch: Any, watched: Iterable[int]) -> None:
        self._kept[row] = {index: as_text(pick(batch, index)) for index in watched}

    def move(self, row: int) -> None:
        self._kept[0] = self._kept[row]

    def get(self, index: int, start: int, end: int) -> Any:
        return [texts.get(index, "") for texts in self._kept[start:end]]


def _column(like: Any, rows: int) -> _Column:
    is_numbers = isinstance(like, np.ndarray) and like.dtype.kind in _NUMBERS
    if is_numbers and like.dtype.itemsize <= _MOST_NUMBER_BYTES and like[0].size <= _MOST_NUMBERS:
        return _Numbers(like, rows)
    return _Texts(rows)


def _finite(block: np.ndarray[Any, Any]) -> Any:
    """Return numbers as they are written quickest; where some are not finite, each row as text."""
    if block.dtype.kind == "f" and not np.isfinite(block).all():
        return [as_text(row) for row in block]
    return np.ascontiguousarray(block)
