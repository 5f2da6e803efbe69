"""What tasks for SkyPilot have in common: their kind, the names of what is launched, and how they are written."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["PREFIX", "Kind", "as_yaml", "kind_of"]

Kind = Literal["job", "cluster"]

# Of all names at SkyPilot: nothing else is ever ended.
PREFIX = "omrl-"


def kind_of(infra: str) -> Kind:
    """Return what is launched: a managed job, or, on Slurm, which does not run SkyPilot's job controller, a cluster."""
    return "cluster" if infra.partition("/")[0].lower() == "slurm" else "job"


def as_yaml(task: Mapping[str, Any]) -> str:
    """Return a task as YAML, with its scripts as blocks."""
    # SkyPilot depends on it.
    yaml = importlib.import_module("yaml")
    dumper_class = type("Dumper", (yaml.SafeDumper,), {})

    def represent(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    yaml.add_representer(str, represent, Dumper=dumper_class)
    return str(yaml.dump(dict(task), Dumper=dumper_class, sort_keys=False, allow_unicode=True, width=1000))
