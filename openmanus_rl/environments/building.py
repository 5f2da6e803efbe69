"""From specs to environments and pictures of them."""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from openmanus_rl.environments.grid_spec import GridSpec
from openmanus_rl.environments.gymnasium_spec import GymnasiumSpec, Wrapper
from openmanus_rl.environments.specs import TrainingSpec, parse_spec
from openmanus_rl.errors import InvalidInput, UnsupportedError

if TYPE_CHECKING:
    import gymnasium

__all__ = ["build", "can_draw", "preview"]

_PICTURES = "rgb_array"
_PREVIEW_SEED = 0
# What the database keeps of a version's picture, before base64.
_PREVIEW_BYTES = 350_000
_GRID_ID = "openmanus_rl/GridWorld-v0"


def build(spec: TrainingSpec | Mapping[str, Any], *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Return the Gymnasium environment of a spec; an `InvalidInput` names what cannot be made.

    Code of the environment runs: for a spec with an `entry_point` or an id with a module, that of the module.
    """
    checked = _checked(spec)
    library = _require("gymnasium")
    make: Any = _make_grid if isinstance(checked, GridSpec) else _make
    made: gymnasium.Env[Any, Any] = make(library, checked, render_mode)
    for number, wrapper in enumerate(checked.wrappers):
        made = _wrapped(made, wrapper, field=f"wrappers.{number}")
    return made


def can_draw(spec: TrainingSpec | Mapping[str, Any]) -> bool:
    """Return whether the environment can be built with `render_mode="rgb_array"`."""
    checked = _checked(spec)
    return isinstance(checked, GridSpec) or _PICTURES in _render_modes(_require("gymnasium"), checked)


def preview(spec: TrainingSpec | Mapping[str, Any]) -> bytes:
    """Return a PNG of the first state of an episode, the same every time; at most 350 kB, else it is scaled down."""
    checked = _checked(spec)
    environment = build(checked, render_mode=_PICTURES if can_draw(checked) else None)
    if environment.render_mode != _PICTURES:
        environment.close()
        raise UnsupportedError('the environment draws no pictures: it has no render mode "rgb_array"', field="spec")
    options = checked.reset if isinstance(checked, GymnasiumSpec) else None
    try:
        environment.reset(seed=_PREVIEW_SEED if checked.seed is None else checked.seed, options=options or None)
        picture: Any = environment.render()
    # Whatever the code of an environment raises, it is the environment that failed.
    except Exception as error:
        raise InvalidInput(f"spec: the environment draws no picture: {_shown(error)}", field="spec") from error
    finally:
        environment.close()
    return _as_png(picture)


def _as_png(picture: Any) -> bytes:
    image = _require("PIL.Image").fromarray(picture)
    while True:
        buffer = io.BytesIO()
        image.save(buffer, "PNG", optimize=True)
        if buffer.tell() <= _PREVIEW_BYTES:
            return buffer.getvalue()
        image = image.resize((image.width // 2, image.height // 2))


def _checked(spec: TrainingSpec | Mapping[str, Any]) -> TrainingSpec:
    return parse_spec(spec) if isinstance(spec, Mapping) else spec


def _make_grid(library: Any, spec: GridSpec, render_mode: str | None) -> Any:
    registered = library.envs.registration.EnvSpec(
        _GRID_ID,
        entry_point="openmanus_rl.environments.grid_world:GridWorld",
        max_episode_steps=spec.max_steps,
        # As JSON: Gymnasium copies it, and prints it where an environment is shown.
        kwargs={"world": spec.model_dump(mode="json", exclude_defaults=True)},
        disable_env_checker=True,
    )
    return library.make(registered, render_mode=render_mode)


def _make(library: Any, spec: GymnasiumSpec, render_mode: str | None) -> Any:
    field = "id" if spec.id is not None else "entry_point"
    name = spec.id or spec.entry_point
    arguments = dict(spec.arguments) if render_mode is None else {**spec.arguments, "render_mode": render_mode}
    try:
        if spec.id is not None:
            return library.make(spec.id, **arguments)
        return _maker(str(spec.entry_point))(**arguments)
    # Whatever the code of an environment raises, it is the environment that failed.
    except Exception as error:
        raise InvalidInput(f"{field}: {name} could not be made: {_shown(error)}", field=field) from error


def _maker(entry_point: str) -> Any:
    module, _, attribute = entry_point.partition(":")
    found: Any = import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{entry_point} cannot be called")
    return found


def _render_modes(library: Any, spec: GymnasiumSpec) -> list[str]:
    """Return how an environment can be drawn, where that is known before it is made."""
    if "render_mode" in spec.arguments:
        return [spec.arguments["render_mode"]]
    try:
        if spec.entry_point is not None:
            maker = _maker(spec.entry_point)
            if "render_mode" not in inspect.signature(maker).parameters:
                return []
        else:
            # An id may name the module that registers it.
            module, colon, name = str(spec.id).rpartition(":")
            if colon:
                import_module(module)
            maker = library.spec(name).entry_point
            maker = library.envs.registration.load_env_creator(maker) if isinstance(maker, str) else maker
        return list(getattr(maker, "metadata", {}).get("render_modes", []))
    # Whatever the code of an environment raises; making it says what is wrong.
    except Exception:  # noqa: BLE001
        return []


def _wrapped(environment: Any, wrapper: Wrapper, *, field: str) -> Any:
    arguments = {
        name: tuple(value) if name == "shape" and isinstance(value, list) else value
        for name, value in wrapper.arguments.items()
    }
    try:
        return getattr(import_module("gymnasium.wrappers"), wrapper.name)(environment, **arguments)
    # An environment that does not suit the wrapper shows in whatever the wrapper happens to raise.
    except Exception as error:
        environment.close()
        raise InvalidInput(f"{field}: {wrapper.name} does not fit: {_shown(error)}", field=field) from error


def _require(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or module).partition(".")[0]
        raise UnsupportedError(f'{library} is not installed; run: pip install "openmanus-rl[gymnasium]"') from error


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
