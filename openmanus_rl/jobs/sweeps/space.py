"""The space of a sweep: the values that each parameter can have.

A parameter is named by its path in the run's configuration, with dots, and has `{"values": […]}` or
`{"min": …, "max": …}` with `log`, `step` or `integer`. The database checks the same rules when a sweep is requested.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from openmanus_rl.errors import InvalidInput

__all__ = ["MAX_POINTS", "Parameter", "Range", "Space", "Values", "count_points", "point_of", "read_space"]

MAX_POINTS = 10_000
"""The largest grid."""
_COUNTABLE = 10**15
_MAX_PATH_LENGTH = 500
_LARGEST = 1e300
_SMALLEST = 1e-300
_LARGEST_INTEGER = 2**53 - 1


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return value == 0 or _SMALLEST <= abs(value) <= _LARGEST


def _check_number(value: Any) -> Any:
    if not _is_number(value):
        raise ValueError("a number is expected")
    return value


def _check_step(step: Any) -> Any:
    if not _is_number(step) or step <= 0:
        raise ValueError("a number above 0 is expected")
    return step


def _check_flag(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError("true or false is expected")
    return value


def _check_values(values: Any) -> Any:
    if not isinstance(values, list) or not values:
        raise ValueError("a list of at least one value is expected")
    try:
        texts = {_comparable(value) for value in values}
    except (TypeError, ValueError) as error:
        raise ValueError("values that JSON has are expected; NaN and infinities are not") from error
    if len(texts) < len(values):
        raise ValueError("a value is there twice")
    return values


def _comparable(value: Any) -> str:
    """Return a text that is equal for equal JSON, where 1 and 1.0 are equal, and 1 and true are not."""
    if isinstance(value, list):
        return f"[{','.join(map(_comparable, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(key)}:{_comparable(value[key])}' for key in sorted(value))}}}"
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(whole, allow_nan=False)


Number = Annotated[int | float, PlainValidator(_check_number)]
Step = Annotated[int | float | None, PlainValidator(_check_step)]
Flag = Annotated[bool, PlainValidator(_check_flag)]


class Values(BaseModel):
    """A parameter that has one of several values."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    values: Annotated[list[Any], PlainValidator(_check_values)]

    @property
    def points(self) -> int:
        """How many values there are."""
        return len(self.values)

    def at(self, index: int) -> Any:
        """Return a value by its place."""
        return self.values[index]

    def draw(self, chance: Random) -> Any:
        """Return one of the values, each as likely."""
        return chance.choice(self.values)


class Range(BaseModel):
    """A parameter between two numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    min: Number
    max: Number
    log: Flag = False
    step: Step = None
    integer: Flag = False

    @model_validator(mode="after")
    def _check(self) -> Range:
        if self.min > self.max:
            raise _problem("min", "it is above max")
        if self.log and self.step is not None:
            raise _problem("step", "it does not go with log")
        if self.log and self.min <= 0:
            raise _problem("min", "it must be above 0 for log")
        for field in ("min", "max", "step"):
            value = getattr(self, field)
            if self.integer and value is not None and (value != int(value) or abs(value) > _LARGEST_INTEGER):
                raise _problem(field, "a whole number is expected")
        return self

    @property
    def points(self) -> int | None:
        """How many values there are; None if there is no end to them."""
        if self.step is None and not self.integer:
            return None
        return int((_exact(self.max) - _exact(self.min)) // self._step) + 1

    def at(self, index: int) -> int | float:
        """Return a value by its place, if there is an end to them."""
        # Exact: 0.1 + 2 * 0.1 is 0.30000000000000004.
        value = _exact(self.min) + index * self._step
        return int(value) if self.integer else float(value)

    def index_of(self, value: float) -> int:
        """Return the place of a value."""
        return round((_exact(value) - _exact(self.min)) / self._step)

    def draw(self, chance: Random) -> int | float:
        """Return a number of the range; with `log`, each order of magnitude is as likely."""
        if self.integer and self.log:
            low, high = math.log(self.min - 0.5), math.log(self.max + 0.5)
            return int(min(max(round(math.exp(chance.uniform(low, high))), self.min), self.max))
        if self.points is not None:
            return self.at(chance.randrange(self.points))
        if self.log:
            drawn = math.exp(chance.uniform(math.log(self.min), math.log(self.max)))
        else:
            drawn = chance.uniform(self.min, self.max)
        return float(min(max(drawn, self.min), self.max))

    @property
    def _step(self) -> Fraction:
        return _exact(1 if self.step is None else self.step)


Parameter = Values | Range


def _exact(number: float) -> Fraction:
    return Fraction(str(number))


def _problem(field: str, text: str) -> PydanticCustomError:
    return PydanticCustomError("space", "{text}", {"text": text, "field": field})


class Space(dict[str, Parameter]):
    """Parameters by their paths, in alphabetical order."""


def read_space(given: Any, config: Mapping[str, Any] | None = None) -> Space:
    """Return the parameters of a space; an error names the field.

    With the configuration that is varied, paths are checked to lead through objects.
    """
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput("space: an object of parameters and their values is expected", field="space")
    space = Space()
    for path in sorted(given):
        _check_path(path, given, config or {})
        space[path] = _read_parameter(f"space.{path}", given[path])
    return space


def _read_parameter(place: str, given: Any) -> Parameter:
    if not isinstance(given, Mapping):
        _refuse(place, "an object is expected, with values, or with min and max")
    keys = [*Values.model_fields, *Range.model_fields]
    if stray := sorted(set(given) - set(keys)):
        _refuse(f"{place}.{stray[0]}", f"there is no such key; there are {', '.join(keys)}")
    if "values" in given and len(given) > 1:
        _refuse(place, "give values, or min and max, not both")
    try:
        return Values.model_validate(dict(given)) if "values" in given else Range.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = first.get("ctx", {}).get("field") or first["loc"][0]
        text = "a number is expected" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
        _refuse(f"{place}.{field}", text)


def _check_path(path: Any, space: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    if not isinstance(path, str) or not all(path.split(".")) or len(path) > _MAX_PATH_LENGTH:
        _refuse(f"space.{path}", "a path in the configuration is expected, such as hyperparameters.learning_rate")
    parts = path.split(".")
    found: Any = config
    for depth, part in enumerate(parts[:-1], start=1):
        outer = ".".join(parts[:depth])
        found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None and not isinstance(found, Mapping):
            _refuse(f"space.{path}", f"{outer} is not an object in the configuration")
        if outer in space:
            _refuse(f"space.{path}", f"it is inside of {outer}, which is varied too")


def count_points(space: Space) -> int:
    """Return the number of points of a grid; a parameter without end, and too many points, are refused."""
    points = 1
    for path, parameter in space.items():
        if parameter.points is None:
            _refuse(f"space.{path}", "a grid needs values, a step, or integer: true")
        points *= parameter.points
    if points > MAX_POINTS:
        count = points if points < _COUNTABLE else "too many"
        _refuse("space", f"the grid has {count} points; at most {MAX_POINTS} are possible")
    return points


def point_of(space: Space, index: int) -> dict[str, Any]:
    """Return a point of the grid by its place; the last parameter changes fastest."""
    point: dict[str, Any] = {}
    for path, parameter in reversed(space.items()):
        assert parameter.points is not None, "a grid is checked before its points are asked for"
        index, place = divmod(index, parameter.points)
        point[path] = parameter.at(place)
    return dict(sorted(point.items()))


def _refuse(field: str, text: str) -> NoReturn:
    raise InvalidInput(f"{field}: {text}", field=field)
