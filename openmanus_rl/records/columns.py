"""The columns of tables: the form in which they take what they are given, and whether a row has them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from openmanus_rl.records.numbers import NotANumber, as_json_number, to_number
from openmanus_rl.records.plain import as_text

__all__ = ["Column", "as_number", "as_whole", "columns_of", "misfits", "with_numbers"]

Convert = Callable[[Any], Any]

# What JSON carries numbers as that are not finite.
_NAMES_OF_NUMBERS = ("NaN", "Infinity", "-Infinity")


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


_CONVERTS: dict[type, Convert] = {str: as_text, int: as_whole, float: as_number}


class Column(NamedTuple):
    """What a column holds: `str`, `int`, `float`, `bool`, `list`, or for JSON any `object`."""

    holds: type
    is_nullable: bool

    @property
    def convert(self) -> Convert | None:
        """How the column takes what is not text."""
        return _CONVERTS.get(self.holds)

    def fits(self, value: Any) -> bool:
        """Say whether a value that was read is one of this column's."""
        if value is None:
            return self.is_nullable or self.holds is object
        if self.holds is float:
            return isinstance(value, (float, int)) or value in _NAMES_OF_NUMBERS
        return isinstance(value, self.holds)


@cache
def columns_of(row_type: type) -> dict[str, Column]:
    """Return the columns of a type of rows."""
    return {name: _column(annotation) for name, annotation in get_type_hints(row_type).items()}


def with_numbers(row_type: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields in which whatever counts as a number is one where a table's column holds numbers."""
    columns = columns_of(row_type)
    found = {}
    for name, value in fields.items():
        column = columns.get(name)
        if column is not None and column.holds in (int, float) and value.__class__ is not str:
            value = as_whole(value) if column.holds is int else as_number(value)
        elif isinstance(value, float):
            # JSON has no NaN, wherever it stands.
            value = as_number(value)
        found[name] = value
    return found


def misfits(row_type: type, row: Mapping[str, Any]) -> list[str]:
    """Return the columns that a row lacks, or that hold what they can't."""
    return [name for name, column in columns_of(row_type).items() if name not in row or not column.fits(row[name])]


def _column(annotation: Any) -> Column:
    # Only unions with None come here.
    held = [part for part in get_args(annotation) if part is not type(None)]
    is_nullable = type(None) in get_args(annotation)
    plain = held[0] if is_nullable else annotation
    if get_origin(plain) is Literal:
        return Column(str, is_nullable)
    return Column(object if plain is Any else get_origin(plain) or plain, is_nullable)
