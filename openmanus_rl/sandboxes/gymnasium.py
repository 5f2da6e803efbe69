"""Environments of Gymnasium and grid worlds, played step by step in the worker's own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openmanus_rl.environments.building import build, can_draw
from openmanus_rl.environments.grid_spec import GridSpec
from openmanus_rl.environments.gymnasium_spec import GymnasiumSpec
from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes._extras import require
from openmanus_rl.sandboxes.base import SandboxError, StepResult
from openmanus_rl.sandboxes.none import BareProvider, BareSandbox

__all__ = ["GridEpisode", "GridProvider", "GymnasiumEpisode", "GymnasiumProvider"]

_PICTURES = "rgb_array"


class GymnasiumProvider(BareProvider):
    """Makes environments of Gymnasium."""

    kind = "gymnasium"

    def provision(
        self,
        spec: GymnasiumSpec | GridSpec,
        *,
        rollout_id: str,
        owner: str,  # noqa: ARG002
        folder: Path,  # noqa: ARG002
        task_files: Path | None = None,  # noqa: ARG002
        seed: int | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,  # noqa: ARG002
    ) -> BareSandbox:
        """Make the environment; it draws pictures if it can."""
        require("gymnasium", extra="gymnasium")
        try:
            draws = "render_mode" not in _arguments(spec) and can_draw(spec)
            environment = build(spec, render_mode=_PICTURES if draws else None)
        except InvalidInput as error:
            raise SandboxError(f"rollout {rollout_id}: {error.message}") from error
        return BareSandbox(self.kind, episode=self._episode(environment, spec, spec.seed if seed is None else seed))

    def _episode(self, environment: Any, spec: Any, seed: int | None) -> GymnasiumEpisode:
        return GymnasiumEpisode(environment, seed=seed, options=spec.reset)


class GridProvider(GymnasiumProvider):
    """Makes grid worlds."""

    kind = "grid"

    def _episode(self, environment: Any, spec: Any, seed: int | None) -> GymnasiumEpisode:
        return GridEpisode(environment, seed=seed, names=spec.action_names)


def _arguments(spec: GymnasiumSpec | GridSpec) -> Mapping[str, Any]:
    return spec.arguments if isinstance(spec, GymnasiumSpec) else {}


class GymnasiumEpisode:
    """An environment that is played step by step."""

    def __init__(self, environment: Any, *, seed: int | None, options: Mapping[str, Any]) -> None:
        self._environment = environment
        self._seed = seed
        self._options = dict(options)
        self.action_space = environment.action_space
        self._state: dict[str, Any] = {"steps": 0, "return": 0.0, "is_done": False}
        self._is_closed = False

    def reset(self, *, seed: int | None = None) -> StepResult:
        """Start an episode; the seed of the rollout is used once, by the first that names no other."""
        seed, self._seed = (self._seed if seed is None else seed), None
        with _failures("reset"):
            observation, info = self._environment.reset(seed=seed, options=self._options or None)
        self._state = {"steps": 0, "return": 0.0, "is_done": False}
        return StepResult(observation, info=info)

    def step(self, action: Any) -> StepResult:
        """Take an action, as the space has it or as JSON."""
        taken = self._read_action(action)
        with _failures("step"):
            observation, reward, terminated, truncated, info = self._environment.step(taken)
        result = StepResult(observation, float(reward), bool(terminated), bool(truncated), info)
        self._state["steps"] += 1
        self._state["return"] += float(reward)
        self._state["is_done"] = result.is_done
        return result

    def _read_action(self, action: Any) -> Any:
        space = self.action_space
        if space.contains(action):
            return action
        try:
            read = space.from_jsonable([action])[0]
            is_possible = space.contains(read)
        except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError):
            is_possible = False
        if not is_possible:
            raise InvalidInput(f"{action!r:.200} is not an action of {space}", field="action")
        return read

    def state(self) -> Mapping[str, Any]:
        """Return how far the episode is."""
        return dict(self._state)

    def render(self) -> Any | None:
        """Return a picture of the current state, or None."""
        if self._environment.render_mode != _PICTURES:
            return None
        with _failures("render"):
            return self._environment.render()

    def close(self) -> None:
        """End the environment; may be called again."""
        if not self._is_closed:
            self._is_closed = True
            with _failures("close"):
                self._environment.close()


class GridEpisode(GymnasiumEpisode):
    """A grid world for agents that read: observations are maps as text, and actions may be given by name."""

    def __init__(self, environment: Any, *, seed: int | None, names: Sequence[str]) -> None:
        super().__init__(environment, seed=seed, options={})
        self._names = list(names)
        self._space = environment.action_space
        self.action_space = {"type": "string", "enum": self._names}

    def reset(self, *, seed: int | None = None) -> StepResult:
        """Start an episode; its first observation says what can be done."""
        result = super().reset(seed=seed)
        text = f"{self._environment.unwrapped.text()}\nActions: {', '.join(self._names)}"
        return replace(result, observation=text)

    def step(self, action: Any) -> StepResult:
        """Take an action, by its name or number."""
        return replace(super().step(action), observation=self._environment.unwrapped.text())

    def _read_action(self, action: Any) -> Any:
        if isinstance(action, str) and action.strip().lower() in self._names:
            return self._names.index(action.strip().lower())
        if isinstance(action, bool) or not self._space.contains(action):
            raise InvalidInput(f"{action!r:.200} is not one of {', '.join(self._names)}", field="action")
        return action


class _failures:
    """Turns whatever an environment raises into `SandboxError`."""

    def __init__(self, call: str) -> None:
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, Exception):
            raise SandboxError(f"the environment failed in {self._call}: {_shown(error)}") from error


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
