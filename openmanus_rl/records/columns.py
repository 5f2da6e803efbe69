"""The form in which columns take what they are given: text, whole numbers and numbers, whatever type they came as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, get_args, get_origin

from openmanus_rl.records.numbers import NotANumber, as_json_number, to_number
from openmanus_rl.records.plain import as_text

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["as_number", "as_whole", "converters", "with_numbers"]

Convert = Callable[[Any], Any]


def as_number(value: Any) -> Any:
    """Return a number as JSON can carry it; what is none goes on as text, and is refused where it arrives."""
    if value is None or value.__class__ is str:
        return value
    try:
        return as_json_number(value)
    except NotANumber:
        return as_text(value)


def as_whole(value: Any) -> Any:
    """Return a whole number as an int, also from 5.0 or an array; what is none goes on as it is, and is refused."""
    if value is None or value.__class__ is int:
        return value
    try:
        number = to_number(value)
    except NotANumber:
        return value
    return int(number) if isfinite(number) and number == int(number) else as_number(number)


@cache
def converters(model: type[BaseModel]) -> dict[str, Convert | None]:
    """Return the columns of a table, and how each takes what is not text."""
    return {name: _converter(info.annotation) for name, info in model.model_fields.items()}


def with_numbers(model: type[BaseModel], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields in which whatever counts as a number is one where a table's column holds numbers."""
    by_column = converters(model)
    found = {}
    for name, value in fields.items():
        convert = None if value is None or value.__class__ is str else by_column.get(name)
        found[name] = value if convert is None or convert is as_text else convert(value)
    return found


def _converter(annotation: Any) -> Convert | None:
    if get_origin(annotation) is list:
        return None
    types = set(get_args(annotation) or (annotation,)) - {type(None)}
    for kind, convert in ((str, as_text), (int, as_whole), (float, as_number)):
        if types == {kind}:
            return convert
    return None
