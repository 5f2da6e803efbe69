"""The options of agents: checked when an agent is made, with errors that name the option and list what exists."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from openmanus_rl.errors import InvalidInput

__all__ = ["Options", "parse_options"]


class Options(BaseModel):
    """Options of an agent. They are stored with the rollout, so there is none for keys or programs of the worker."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)


T = TypeVar("T", bound=Options)


def parse_options(kind: type[T], given: Mapping[str, Any] | None, *, agent: str) -> T:
    """Return the options; `InvalidInput` names the first bad one, and never repeats its value."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput(f"agent {agent}: options must be an object, not {type(given).__name__}", field="options")
    try:
        return kind.model_validate(dict(given or {}))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "options"
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        raise _unknown_option(kind, place, agent)
    raise InvalidInput(f"agent {agent}: option {place}: {first['msg']}", field=f"options.{place}")


def _unknown_option(kind: type[Options], name: str, agent: str) -> InvalidInput:
    known = list(kind.model_fields)
    close = get_close_matches(name, known, n=1)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    listed = f"its options are {', '.join(known)}" if known else "it has no options"
    hint = "keys are read from the worker's environment, such as OPENAI_API_KEY" if "key" in name.lower() else None
    return InvalidInput(
        f"agent {agent}: there is no option {name!r}{guess}; {listed}", field=f"options.{name}", hint=hint
    )
