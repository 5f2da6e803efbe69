"""Reading the specs of environments to train in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openmanus_rl.environments._models import kind_of, validated
from openmanus_rl.environments.grid_spec import GridSpec
from openmanus_rl.environments.gymnasium_spec import GymnasiumSpec

__all__ = ["TRAINING_KINDS", "TrainingSpec", "parse_spec"]

TrainingSpec = GymnasiumSpec | GridSpec

TRAINING_KINDS: dict[str, type[TrainingSpec]] = {"gymnasium": GymnasiumSpec, "grid": GridSpec}


def parse_spec(value: Mapping[str, Any]) -> TrainingSpec:
    """Return the checked spec of an environment to train in; an `InvalidInput` names every wrong field."""
    return validated(kind_of(value, TRAINING_KINDS), value)
