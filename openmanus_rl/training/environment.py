"""The environment that a run trains in: one that is described in `environments`, else a Gymnasium id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.environments import EnvironmentManager

__all__ = ["Factory", "can_render", "make_environment"]

Factory = Callable[[str | None], "gymnasium.Env[Any, Any]"]
"""Makes an environment with a render mode, or without."""


def make_environment(run: Mapping[str, Any]) -> tuple[Factory, int | None]:
    """Return what makes the run's environments, and the version of their description, if there is one."""
    name = run["environment"]
    if not name:
        raise InvalidInput(
            "environment is missing: give the name of an environment or a Gymnasium id", field="environment"
        )
    described = EnvironmentManager.find_environment(name)
    if described is None:
        return _registered(name), None
    return _described(described), described["version"]


def can_render(env: gymnasium.Env[Any, Any]) -> bool:
    """Say whether an environment can be rendered as pictures."""
    return "rgb_array" in (env.metadata.get("render_modes") or ())


def _registered(name: str) -> Factory:
    return lambda render_mode: _made(name, lambda: gymnasium.make(name, render_mode=render_mode))


def _described(row: Mapping[str, Any]) -> Factory:
    if row["kind"] != "gymnasium":
        raise InvalidInput(
            f"environment {row['name']!r} is of kind {row['kind']!r}, which is for rollouts; training needs gymnasium",
            field="environment",
        )
    spec = row["spec"]

    def build(render_mode: str | None) -> gymnasium.Env[Any, Any]:
        return gymnasium.make(spec["id"], render_mode=render_mode, **spec.get("arguments", {}))

    return lambda render_mode: _made(row["name"], lambda: build(render_mode))


def _made(name: str, build: Callable[[], gymnasium.Env[Any, Any]]) -> gymnasium.Env[Any, Any]:
    try:
        return build()
    # An environment is anybody's code.
    except Exception as error:
        raise InvalidInput(
            f"environment {name!r} cannot be made: {type(error).__name__}: {error}", field="environment"
        ) from error
