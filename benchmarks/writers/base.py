"""What every writer offers, so that all of them are measured the same way."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from workloads import Messages, Rollout

__all__ = ["Stopwatch", "Writer", "folder_bytes"]

P = ParamSpec("P")
T = TypeVar("T")


class Stopwatch:
    """Measures how long the calling thread spends in each call."""

    def __init__(self) -> None:
        self.seconds = array("d")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and keep how long it took."""
        began = time.perf_counter()
        result = function(*args, **kwargs)
        self.seconds.append(time.perf_counter() - began)
        return result


class Writer(ABC):
    """A way to record, used as its own documentation says; what training would call goes through the stopwatch."""

    def __init__(self, folder: Path, watch: Stopwatch) -> None:
        self.folder = folder
        self.watch = watch

    @abstractmethod
    def open(self) -> None:
        """Get ready; what happens once a run is not part of what a call costs."""

    def settle(self) -> None:  # noqa: B027 - most are ready when they are open
        """Wait until the first item, which warms up what there is to warm, is through."""

    def prepare(self, rollouts: list[Rollout]) -> None:  # noqa: B027 - most need nothing
        """Do what may be done with rollouts before the clock starts."""

    def log_metrics(self, values: Mapping[str, float], step: int) -> None:
        """Record a row of metrics."""
        raise NotImplementedError

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        """Record a rollout, turn by turn where that can be done."""
        raise NotImplementedError

    def log_chat(self, number: int, states: list[Messages]) -> None:
        """Record a rollout each of whose turns carries the whole chat so far."""
        raise NotImplementedError

    @abstractmethod
    def finish(self) -> None:
        """Return once everything is durable, by the writer's own way of saying so."""

    def close(self) -> None:  # noqa: B027 - most are closed when finished
        """Let go of what is open; not measured."""

    @classmethod
    @abstractmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        """Return how many rows of metrics and how many rollouts a reader finds, also after the writer was killed."""

    def disk_bytes(self) -> int:
        """Return how much lies on the disk because of this writer."""
        return folder_bytes(self.folder)


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def turn_line(number: int, position: int, turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn with its place: what was handed over, and nothing else."""
    return {"rollout": number, "turn": position, **turn}
