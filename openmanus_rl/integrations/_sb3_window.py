"""A buffer of the last steps of the environments, in arrays, until they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from openmanus_rl.integrations._readable import as_text
from openmanus_rl.integrations._sb3_model import pick
from openmanus_rl.recorder.values import as_number

__all__ = ["Window"]

# Types that orjson serializes directly; rows with more numbers than this are summarized.
_NUMBERS = "biuf"
_MOST_NUMBERS = 64
_MOST_NUMBER_BYTES = 8


class Window:
    """The steps since the last write: observations, actions and rewards of each environment."""

    def __init__(self, rows: int, environments: int) -> None:
        self.rows = 0
        self._most_rows = rows
        self._rewards = np.empty((rows, environments))
        self._times = np.empty(rows)
        self._seen: _Column | None = None
        self._done: _Column | None = None

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full."""
        return self.rows >= self._most_rows

    def begin(self, observations: Any, watched: Iterable[int]) -> None:
        """Store the observations before the next step."""
        if self._seen is None:
            self._seen = _column(observations, self._most_rows + 1)
        self._seen.put(self.rows, observations, watched)

    def add(self, when: float, actions: Any, rewards: Any, observations: Any, watched: Iterable[int]) -> None:
        """Store a step and the observations after it."""
        assert self._seen is not None
        if self._done is None:
            self._done = _column(actions, self._most_rows)
        row = self.rows
        self._times[row] = when
        # Copied, because algorithms change them and environments may reuse the array.
        self._rewards[row] = rewards
        self._done.put(row, actions, watched)
        self._seen.put(row + 1, observations, watched)
        self.rows = row + 1

    def clear(self) -> None:
        """Clear the buffer, except for the current observations."""
        if self._seen is not None:
            self._seen.move(self.rows)
        self.rows = 0

    def rewards(self, index: int, start: int, end: int) -> np.ndarray[Any, Any]:
        """Return the rewards of an environment for a range of rows."""
        return self._rewards[start:end, index]

    def _earned(self, index: int, start: int, end: int) -> Any:
        rewards = self.rewards(index, start, end)
        if np.isfinite(rewards).all():
            return np.ascontiguousarray(rewards)
        return [as_number(reward) for reward in rewards.tolist()]

    def columns(self, index: int, start: int, end: int) -> dict[str, Any]:
        """Return the steps of an environment for a range of rows, as columns."""
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
    """Stores small numeric values of all environments in one array."""

    def __init__(self, like: np.ndarray[Any, Any], rows: int) -> None:
        self._kept = np.empty((rows, *like.shape), like.dtype)

    def put(self, row: int, batch: Any, watched: Iterable[int]) -> None:  # noqa: ARG002 - all at once is quicker
        self._kept[row] = batch

    def move(self, row: int) -> None:
        self._kept[0] = self._kept[row]

    def get(self, index: int, start: int, end: int) -> Any:
        return _finite(self._kept[start:end, index])


class _Texts:
    """Stores other values as text, only for the environments whose turns are recorded."""

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
    """Return numbers in the form that is serialized fastest; if some are not finite, each row as text."""
    if block.dtype.kind == "f" and not np.isfinite(block).all():
        return [as_text(row) for row in block]
    return np.ascontiguousarray(block)
