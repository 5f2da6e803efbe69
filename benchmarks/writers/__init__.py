"""The recorder and its peers, each behind the same few methods; imported only where it is used."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.util import find_spec

from writers.base import Stopwatch, Writer

__all__ = ["REGISTRY", "Entry", "Stopwatch", "Writer", "installed", "load"]

_ROLLOUTS = frozenset({"rollouts", "chats"})
_ALL = frozenset({"metrics", *_ROLLOUTS})


@dataclass(frozen=True)
class Entry:
    """What is known of a writer without loading it."""

    label: str
    place: str
    """Its module and class."""
    library: str
    """Without which it can't run."""
    workloads: frozenset[str] = _ALL
    share: float = 1.0
    """How much of a workload it gets: a slow one's rate shows as well in a part of it."""


REGISTRY = {
    "ours": Entry("ours", "ours:OursWriter", "openmanus_rl"),
    "jsonl": Entry("JSONL", "jsonl:JsonlWriter", "json"),
    "trackio": Entry("Trackio", "trackio:TrackioWriter", "trackio"),
    "wandb": Entry("W&B offline", "wandb:WandbWriter", "wandb"),
    "mlflow": Entry("MLflow", "mlflow:MlflowWriter", "mlflow", share=0.04),
    "mlflow-async": Entry("MLflow async", "mlflow:MlflowAsyncWriter", "mlflow", share=0.04),
    "inspect": Entry("Inspect", "inspect:InspectWriter", "inspect_ai", _ROLLOUTS),
    "copy": Entry("COPY", "copy:CopyWriter", "psycopg", frozenset({"rollouts"})),
}


def installed(name: str) -> bool:
    """Say whether what a writer needs is installed."""
    return find_spec(REGISTRY[name].library) is not None


def load(name: str) -> type[Writer]:
    """Return a writer's class."""
    module, class_name = REGISTRY[name].place.split(":")
    found: type[Writer] = getattr(importlib.import_module(f"writers.{module}"), class_name)
    return found
