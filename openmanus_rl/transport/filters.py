"""Filters, sort keys and pages of rows, as PostgREST defines them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from openmanus_rl.errors import InvalidInput

__all__ = ["Filter", "Order", "Page", "asc", "desc"]

RowT = TypeVar("RowT")

# Reserved words of PostgREST's query string.
_RESERVED = frozenset({"and", "columns", "limit", "not", "offset", "on_conflict", "or", "order", "select"})
# A column, or a path into a jsonb column: config->>lr, config->optimizer->>name, details->0.
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:->>?[A-Za-z0-9_. -]+)*")


def check_column(column: str) -> str:
    """Return the column if it is a column name or a path into a jsonb column, else raise `InvalidInput`."""
    if not _COLUMN.fullmatch(column) or column in _RESERVED:
        raise InvalidInput(f"{column!r} is not a column or a path such as config->>lr", field=column)
    return column


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (str, int, float, date, UUID)):
        return str(value)
    raise InvalidInput(f"can't filter by a {type(value).__name__}; give text, a number, a boolean, a date or a UUID")


def _quoted(value: Any) -> str:
    escaped = _text(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True)
class Filter:
    """One condition on a column; build it with the class methods, e.g. `Filter.eq("status", "running")`."""

    column: str
    operator: str
    criteria: str

    @classmethod
    def eq(cls, column: str, value: Any) -> Filter:
        """Equal to the value; None means null."""
        return cls.is_null(column) if value is None else cls(check_column(column), "eq", _text(value))

    @classmethod
    def neq(cls, column: str, value: Any) -> Filter:
        """Different from the value, nulls excluded; None means not null."""
        return cls.not_null(column) if value is None else cls(check_column(column), "neq", _text(value))

    @classmethod
    def gt(cls, column: str, value: Any) -> Filter:
        """Greater than the value."""
        return cls(check_column(column), "gt", _text(value))

    @classmethod
    def gte(cls, column: str, value: Any) -> Filter:
        """Greater than or equal to the value."""
        return cls(check_column(column), "gte", _text(value))

    @classmethod
    def lt(cls, column: str, value: Any) -> Filter:
        """Less than the value."""
        return cls(check_column(column), "lt", _text(value))

    @classmethod
    def lte(cls, column: str, value: Any) -> Filter:
        """Less than or equal to the value."""
        return cls(check_column(column), "lte", _text(value))

    @classmethod
    def in_(cls, column: str, values: Iterable[Any]) -> Filter:
        """One of the values."""
        # Always quoted: a comma, a bracket or an empty text in a value must not split the list.
        return cls(check_column(column), "in", f"({','.join(_quoted(value) for value in values)})")

    @classmethod
    def is_null(cls, column: str) -> Filter:
        """Unknown."""
        return cls(check_column(column), "is", "null")

    @classmethod
    def not_null(cls, column: str) -> Filter:
        """Known."""
        return cls(check_column(column), "not.is", "null")

    @classmethod
    def ilike(cls, column: str, pattern: str) -> Filter:
        """Matching a pattern, ignoring case; % matches any text."""
        return cls(check_column(column), "ilike", _text(pattern))

    @classmethod
    def contains_text(cls, column: str, text: str) -> Filter:
        """Containing the text literally, ignoring case."""
        escaped = re.sub(r"([\\%_])", r"\\\1", text)
        if "*" in text:
            # In `ilike`, PostgREST treats * as % and cannot escape it; a regular expression can.
            return cls(check_column(column), "imatch", re.escape(text))
        return cls(check_column(column), "ilike", f"%{escaped}%")

    @classmethod
    def contains(cls, column: str, value: dict[str, Any] | Sequence[Any]) -> Filter:
        """A jsonb column that contains this object or these elements."""
        return cls(check_column(column), "cs", json.dumps(value, separators=(",", ":"), allow_nan=False))

    @classmethod
    def contains_element(cls, column: str, element: str) -> Filter:
        """An array column that contains this element."""
        return cls(check_column(column), "cs", f"{{{_quoted(element)}}}")


@dataclass(frozen=True)
class Order:
    """One sort key; nulls come last unless asked for first."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    def __post_init__(self) -> None:
        check_column(self.column)


def asc(column: str) -> Order:
    """Sort by the column, smallest first."""
    return Order(column)


def desc(column: str) -> Order:
    """Sort by the column, greatest first."""
    return Order(column, descending=True)


@dataclass(frozen=True)
class Page(Generic[RowT]):
    """Some rows of a list, how many there are in all (if counted), and where the next page starts (if there is one)."""

    rows: list[RowT]
    total: int | None
    next_offset: int | None

    def __iter__(self) -> Iterator[RowT]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> RowT:
        return self.rows[index]
