"""Specs of Gymnasium environments, and the wrappers that a spec may name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from openmanus_rl.environments._models import Line, SpecModel

__all__ = ["WRAPPERS", "GymnasiumSpec", "Wrapper", "Wrappers"]

# The wrappers of Gymnasium that JSON can describe, with their arguments: a spec comes from the database, so it may
# not name a function, a file to write or a window to open.
WRAPPERS: dict[str, frozenset[str]] = {
    "AddRenderObservation": frozenset({"render_only", "render_key", "obs_key"}),
    "AtariPreprocessing": frozenset(
        {
            "noop_max",
            "frame_skip",
            "screen_size",
            "terminal_on_life_loss",
            "grayscale_obs",
            "grayscale_newaxis",
            "scale_obs",
        }
    ),
    "ClipAction": frozenset(),
    "ClipReward": frozenset({"min_reward", "max_reward"}),
    "DelayObservation": frozenset({"delay"}),
    "FilterObservation": frozenset({"filter_keys"}),
    "FlattenObservation": frozenset(),
    "FrameStackObservation": frozenset({"stack_size", "padding_type"}),
    "GrayscaleObservation": frozenset({"keep_dim"}),
    "MaxAndSkipObservation": frozenset({"skip"}),
    "NormalizeObservation": frozenset({"epsilon"}),
    "NormalizeReward": frozenset({"gamma", "epsilon"}),
    "RescaleAction": frozenset({"min_action", "max_action"}),
    "RescaleObservation": frozenset({"min_obs", "max_obs"}),
    "ReshapeObservation": frozenset({"shape"}),
    "ResizeObservation": frozenset({"shape"}),
    "StickyAction": frozenset({"repeat_action_probability"}),
    "TimeAwareObservation": frozenset({"flatten", "normalize_time"}),
    "TimeLimit": frozenset({"max_episode_steps"}),
}


class Wrapper(SpecModel):
    """A wrapper of Gymnasium around the environment."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> Wrapper:
        allowed = WRAPPERS.get(self.name)
        if allowed is None:
            raise ValueError(f"name: must be one of {', '.join(WRAPPERS)}")
        for argument in self.arguments:
            if argument not in allowed:
                there_are = f"there are {', '.join(sorted(allowed))}" if allowed else "it takes none"
                raise ValueError(f"arguments: {self.name} has no argument {argument!r:.100}; {there_are}")
        return self


Wrappers = Annotated[tuple[Wrapper, ...], Field(max_length=16)]


class GymnasiumSpec(SpecModel):
    """A Gymnasium environment: a registered id, or what makes one, as `module:attribute`."""

    kind: Literal["gymnasium"] = "gymnasium"
    id: Line | None = None
    entry_point: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    wrappers: Wrappers = ()
    """From the inside out."""
    reset: dict[str, Any] = Field(default_factory=dict)
    """The `options` of `reset`."""
    seed: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_name(self) -> GymnasiumSpec:
        if (self.id is None) == (self.entry_point is None):
            raise ValueError("give one of id, entry_point")
        return self
