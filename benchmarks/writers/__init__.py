"""The recorder and its peers, each behind the same few methods; a peer's library is imported only where it is used."""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from benchmarks.workloads import Rollout

P = ParamSpec("P")
T = TypeVar("T")


class Writer(ABC):
    """A way to record, used as its own documentation says; the calls that training would make go through `call`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.call_seconds = array("d")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and keep how long the calling thread spent in it."""
        began = time.perf_counter()
        result = function(*args, **kwargs)
        self.call_seconds.append(time.perf_counter() - began)
        return result

    @abstractmethod
    def open(self) -> None:
        """Get ready; what happens once a run is not part of what a call costs."""

    def prepare(self, items: list[Any]) -> None:  # noqa: B027 - most need nothing
        """Do what may be done with all items before the clock starts."""

    def settle(self) -> None:  # noqa: B027 - most are ready when they are open
        """Wait until the first item, which warms up whatever there is to warm up, is stored."""

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record a row of metrics."""
        raise NotImplementedError

    @abstractmethod
    def log_rollout(self, number: int, rollout: Rollout) -> None:
        """Record a rollout, turn by turn where that can be done; a turn may carry the whole chat so far."""

    @abstractmethod
    def finish(self) -> None:
        """Return once everything is durable, by the writer's own way of saying so."""

    @classmethod
    @abstractmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        """Return how many rows of metrics and how many rollouts a reader finds, also after the writer was killed."""

    def disk_bytes(self) -> int:
        """Return the bytes on disk that this writer takes."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Entry:
    """What is known of a writer without loading it."""

    label: str
    place: str
    """Its module and class."""
    library: str
    """The library that it needs."""
    has_metrics: bool = True
    share: float = 1.0
    """The share of a workload that it gets: a part is enough to measure the rate of a slow one."""

    @property
    def is_installed(self) -> bool:
        """Whether its library is."""
        return find_spec(self.library) is not None

    def load(self) -> type[Writer]:
        """Return the writer's class."""
        module, name = self.place.split(":")
        found: type[Writer] = getattr(importlib.import_module(f"benchmarks.writers.{module}"), name)
        return found


WRITERS = {
    "ours": Entry("ours", "database:OursWriter", "openmanus_rl"),
    "http": Entry("ours, over HTTP", "database:HttpWriter", "openmanus_rl"),
    "jsonl": Entry("JSONL", "lines:JsonlWriter", "json"),
    "trackio": Entry("Trackio", "trackio:TrackioWriter", "trackio"),
    "wandb": Entry("W&B offline", "lines:WandbWriter", "wandb"),
    "mlflow": Entry("MLflow", "mlflow:MlflowWriter", "mlflow", share=0.04),
    "mlflow-async": Entry("MLflow async", "mlflow:MlflowAsyncWriter", "mlflow", share=0.04),
    "inspect": Entry("Inspect", "inspect:InspectWriter", "inspect_ai", has_metrics=False),
    "copy": Entry("COPY", "database:CopyWriter", "psycopg", has_metrics=False),
}


def total_reward(rollout: Rollout) -> Any:
    """Return the sum of the rewards of a rollout's turns."""
    return sum(turn["reward"] for turn in rollout["turns"])
