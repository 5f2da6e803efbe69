"""What all specs share: models that refuse unknown fields, and errors that name the field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openmanus_rl.errors import InvalidInput

__all__ = ["Line", "Number", "SpecModel", "kind_of", "validated"]

Line = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x20\x7f]+$")]
Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]

ModelT = TypeVar("ModelT", bound=BaseModel)


class SpecModel(BaseModel):
    """A part of a spec."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def kind_of(value: Any, kinds: Mapping[str, type[ModelT]]) -> type[ModelT]:
    """Return the model of a spec's `kind`."""
    if not isinstance(value, Mapping):
        raise InvalidInput("an environment's spec must be a JSON object", field="spec")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise InvalidInput(f"kind: must be one of {', '.join(kinds)}, not {kind!r:.100}", field="kind")
    return kinds[kind]


def validated(model: type[ModelT], value: Mapping[str, Any]) -> ModelT:
    """Return the checked spec; raise an `InvalidInput` that names every wrong field."""
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        problems = [_problem(each["loc"], each["msg"]) for each in error.errors(include_url=False, include_input=False)]
        raise InvalidInput(
            "; ".join(f"{field}: {message}" for field, message in problems), field=problems[0][0]
        ) from error


def _problem(location: tuple[int | str, ...], message: str) -> tuple[str, str]:
    """Return the dotted field and what is wrong with it."""
    parts = [str(part) for part in location if part != "[key]"]
    message = message.removeprefix("Value error, ")
    # A check of the whole names the field in front of what it says.
    named = re.match(r"([a-z0-9_]+(?:\.[a-z0-9_]+)*): ", message)
    if named is not None:
        parts, message = [*parts, named[1]], message[named.end() :]
    return ".".join(parts) or "spec", message
