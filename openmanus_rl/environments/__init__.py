"""Environments to train and act in, from specs: Gymnasium environments and declarative grid worlds.

>>> environment = build({"kind": "grid", "map": ["A..G"]})
>>> observation, info = environment.reset(seed=0)
"""

from openmanus_rl.environments.building import build, can_draw, preview
from openmanus_rl.environments.grid_spec import GridSpec
from openmanus_rl.environments.gymnasium_spec import GymnasiumSpec
from openmanus_rl.environments.specs import TRAINING_KINDS, parse_spec

__all__ = ["TRAINING_KINDS", "GridSpec", "GymnasiumSpec", "build", "can_draw", "parse_spec", "preview"]
