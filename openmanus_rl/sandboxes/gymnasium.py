"""Environments of Gymnasium, played step by step in the worker's own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes._extras import require
from openmanus_rl.sandboxes.base import SandboxError, StepResult
from openmanus_rl.sandboxes.none import BareProvider, BareSandbox
from openmanus_rl.sandboxes.spec import GymnasiumSpec

__all__ = ["GymnasiumEpisode", "GymnasiumProvider"]

_PICTURES = "rgb_array"


class GymnasiumProvider(BareProvider):
    """Makes environments of Gymnasium."""

    kind = "gymnasium"

    def provision(
        self,
        spec: GymnasiumSpec,
        *,
        rollout_id: str,
        owner: str,  # noqa: ARG002
        folder: Path,  # noqa: ARG002
        task_files: Path | None = None,  # noqa: ARG002
        seed: int | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,  # noqa: ARG002
    ) -> BareSandbox:
        """Make the environment; it draws pictures if it can."""
        gymnasium = require("gymnasium", extra="gymnasium")
        try:
            environment = _make(gymnasium, spec)
        # Whatever the code of an environment raises, it is the environment that failed.
        except Exception as error:
            name = spec.id or spec.entry_point
            raise SandboxError(f"rollout {rollout_id}: {name} could not be made: {_shown(error)}") from error
        episode = GymnasiumEpisode(environment, seed=spec.seed if seed is None else seed, options=spec.reset)
        return BareSandbox(self.kind, episode=episode)


def _make(gymnasium: Any, spec: GymnasiumSpec) -> Any:
    if spec.entry_point is not None:
        module, _, attribute = spec.entry_point.partition(":")
        make: Any = require(module, extra="gymnasium")
        for name in attribute.split("."):
            make = getattr(make, name)
        return make(**spec.arguments)
    arguments = dict(spec.arguments)
    if "render_mode" not in arguments and _PICTURES in _render_modes(gymnasium, str(spec.id)):
        arguments["render_mode"] = _PICTURES
    return gymnasium.make(spec.id, **arguments)


def _render_modes(gymnasium: Any, name: str) -> list[str]:
    # An id may name the module that registers it.
    module, colon, _ = name.partition(":")
    if colon:
        require(module, extra="gymnasium")
    made_by = gymnasium.spec(name.rpartition(":")[2]).entry_point
    made_by = gymnasium.envs.registration.load_env_creator(made_by) if isinstance(made_by, str) else made_by
    return list(getattr(made_by, "metadata", {}).get("render_modes", []))


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
