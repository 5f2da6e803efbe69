"""The environment that a run trains in: one that is described in `environments`, else a Gymnasium id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from openmanus_rl.environments import TRAINING_KINDS, build, parse_spec
from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.environments import EnvironmentManager

__all__ = ["Factory", "can_render", "make_environment"]

Factory = Callable[[str | None], "gymnasium.Env[Any, Any]"]
"""Makes an environment with a render mode, or without."""


def make_environment(run: Mapping[str, Any]) -> tuple[Factory, int | None]:
    """Return what makes the run's environments, and the version of their description, if there is one.

    A run that has trained on a version goes on with it, also if the environment was changed since.
    """
    name = run["environment"]
    if not name:
        raise InvalidInput(
            "environment is missing: give the name of an environment or a Gymnasium id", field="environment"
        )
    described = EnvironmentManager.find_environment(name)
    if described is None:
        return _factory(name, {"kind": "gymnasium", "id": name}), None
    if described["is_draft"]:
        raise InvalidInput(
            f"environment {name!r} is a draft", field="environment", hint="look at it, and confirm it to train in it"
        )
    version = run.get("environment_version") or described["version"]
    found: Mapping[str, Any] = described
    if version != described["version"]:
        found = EnvironmentManager.get_version(name, version)
    if found["kind"] not in TRAINING_KINDS:
        raise InvalidInput(
            f"environment {name!r} is of kind {found['kind']!r}, in which agents work; "
            f"training needs {' or '.join(TRAINING_KINDS)}",
            field="environment",
        )
    return _factory(name, {**found["spec"], "kind": found["kind"]}), version


def can_render(env: gymnasium.Env[Any, Any]) -> bool:
    """Say whether an environment can be rendered as pictures."""
    return "rgb_array" in (env.metadata.get("render_modes") or ())


def _factory(name: str, spec: Mapping[str, Any]) -> Factory:
    checked = parse_spec(spec)

    def make(render_mode: str | None) -> gymnasium.Env[Any, Any]:
        try:
            return build(checked, render_mode=render_mode)
        # An environment is anybody's code.
        except Exception as error:
            reason = error.message if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
            raise InvalidInput(f"environment {name!r} cannot be made: {reason}", field="environment") from error

    return make
