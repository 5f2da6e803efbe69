"""What every manager is made of: one client, rows checked on arrival, and one way to write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ValidationError

from openmanus_rl.connections import get_client
from openmanus_rl.errors import BadResponse, ConflictError, InvalidInput, NotFoundError, SchemaMismatch
from openmanus_rl.records.columns import with_numbers
from openmanus_rl.records.ids import Id, as_id, creation_change_id, new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.filters import Filter, Order, Page
from openmanus_rl.transport.rest import Row

__all__ = ["EditableManager", "GatewayUser", "Manager", "OneOrMany", "counting", "known", "matching"]

UserT = TypeVar("UserT", bound="GatewayUser")

OneOrMany = str | Sequence[str]
"""A value to filter by, or several of which one must match."""

# Two writers that number things at the same moment: one of them is told to take the next number.
_NUMBERING_ATTEMPTS = 8


def known(**fields: Any) -> Row:
    """Return the fields that were given; a field that is left out stays as it is, and null would clear it."""
    return {name: storable(value) for name, value in fields.items() if value is not None}


def storable(value: Any) -> Any:
    """Return a number that JSON can't hold, such as the loss of a run that diverged, by the name the database takes."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@contextmanager
def _in_own_words(prefix: str) -> Iterator[None]:
    """Name a field that can't be sent as the caller knows it, not by its place in the request."""
    try:
        yield
    except InvalidInput as error:
        if error.field and error.field.startswith(prefix):
            error.field = error.field.removeprefix(prefix)
            error.message = error.message.replace(prefix, "", 1)
        raise


class GatewayUser:
    """Works through one client: the settings' own, or the one it was given with `using`."""

    _given_gateway: ClassVar[Client | None] = None

    @classmethod
    def using(cls, client: Client) -> type[Self]:
        """Return the same manager on another client, such as a member's."""
        return type(cls.__name__, (cls,), {"_given_gateway": client, "__doc__": cls.__doc__})

    @classmethod
    def _client(cls) -> Client:
        return cls._given_gateway or get_client()

    @classmethod
    def _sibling(cls, user: type[UserT]) -> type[UserT]:
        """Return another manager on the same client."""
        return user if cls._given_gateway is None else user.using(cls._given_gateway)


class Manager(GatewayUser):
    """Reads and writes one aggregate; use the class as it is, or `using(client)` for another Supabase or caller."""

    table: ClassVar[str]
    # What rows are read from, where a view tells some of the table's columns better than the table.
    view: ClassVar[str | None] = None
    noun: ClassVar[str]
    model: ClassVar[type[BaseModel]]

    # Reading

    @classmethod
    def _find(cls, *filters: Filter) -> Row | None:
        row = cls._client().select_one(cls.view or cls.table, filters=filters)
        if row is not None and cls.view is not None:  # One row has the same columns whether it was read or written.
            row = {name: value for name, value in row.items() if name in cls.model.model_fields}
        return None if row is None else cls._checked(row)

    @classmethod
    def _get(cls, row_id: Id, *, field: str) -> Row:
        row = cls._find(Filter.eq("id", as_id(row_id, field=field)))
        if row is None:
            raise cls._unknown(row_id, field=field)
        return row

    @classmethod
    def _unknown(cls, what: object, *, field: str) -> NotFoundError:
        return NotFoundError(
            f"{cls.noun} {what}: unknown",
            field=field,
            hint="check it, and that this key or member may see it",
        )

    @classmethod
    def _page(
        cls,
        filters: Sequence[Filter],
        *,
        order_by: str | Sequence[str],
        limit: int,
        offset: int,
        count: bool,
        table: str | None = None,
        tie_break: str | None = "id",
    ) -> Page[Row]:
        page = cls._client().select(
            table or cls.table,
            filters=filters,
            order=_order(order_by, tie_break),
            limit=limit,
            offset=offset,
            count=count,
        )
        for row in page.rows:
            cls._checked(row)
        return page

    @classmethod
    def _all(cls, *filters: Filter, order_by: str | Sequence[str], tie_break: str | None = "id") -> Iterator[Row]:
        for row in cls._client().select_all(cls.table, filters=filters, order=_order(order_by, tie_break)):
            yield cls._checked(row)

    @classmethod
    def _checked(cls, row: Row) -> Row:
        """Return the row, once it has the shape that this version knows."""
        try:
            cls.model.model_validate(row)
        except ValidationError as error:
            fields = ", ".join(".".join(str(part) for part in problem["loc"]) for problem in error.errors())
            raise SchemaMismatch(
                f"{cls.noun} {row.get('id')}: the database answered a row of another shape ({fields})",
                hint="apply the migrations with `openmanus-rl migrate`, or install the version that matches them",
            ) from error
        for name in _float_fields(cls.model):
            # NaN and the infinities come by their names, since JSON has no numbers for them.
            if isinstance(row.get(name), str):
                row[name] = float(row[name])
        return row

    # Writing

    @classmethod
    def _write(cls, record: Mapping[str, Any]) -> Row:
        """Write one record by the database's rules and return its row; a refusal is the error that names the field."""
        batch = {cls.table: [record]}
        with _in_own_words(f"batch.{cls.table}[0]."):
            answer = cls._client().rpc("ingest", {"batch": batch, "all_or_nothing": True, "return_rows": True})
        try:
            row = answer["rows"][cls.table][0]
        except (KeyError, IndexError, TypeError) as error:
            raise BadResponse(f"write {cls.noun} {record.get('id')}: the answer holds no row") from error
        return cls._checked(row)

    @classmethod
    def _create(cls, row_id: Id | None, *, status: str | None = None, **fields: Any) -> Row:
        """Write a new row; the same id again changes its fields but never sets its status back."""
        made_id = new_id() if row_id is None else as_id(row_id, field="id")
        record = known(id=made_id, status=status, **with_numbers(cls.model, fields))
        if status is not None:
            record["status_change_id"] = creation_change_id(made_id)
        return cls._write(record)

    @classmethod
    def _update(cls, row_id: Id, *, field: str, **fields: Any) -> Row:
        """Change fields of a row that must be there; objects are merged into what they hold already."""
        # Looked up first: the record of an id that is not there would be taken for a new row.
        return cls._change(cls._get(row_id, field=field), **fields)

    @classmethod
    def _change(cls, row: Row, **fields: Any) -> Row:
        changes = known(**with_numbers(cls.model, fields))
        return cls._write({"id": row["id"], **changes}) if changes else row

    @classmethod
    def _move(cls, row_id: Id, status: str, *, field: str, message: str | None = None, **fields: Any) -> Row:
        """Change the status of a row that must be there, and fields with it; once, however often it is repeated."""
        params = {
            "entity": cls.table,
            "entity_id": as_id(row_id, field=field),
            "status": status,
            "message": message,
            "fields": known(**with_numbers(cls.model, fields)),
            "change_id": new_id(),
        }
        try:
            with _in_own_words("fields."):
                row = cls._client().rpc("change_status", params)
        except NotFoundError as error:
            # The database knows it as entity_id; the caller knows it by the name of an argument.
            error.field = error.field or field
            raise
        if not isinstance(row, dict):
            raise BadResponse(f"change {cls.noun} {row_id}: the answer holds no row")
        return cls._checked(row)

    @classmethod
    def _delete(cls, row_id: Id, *, field: str) -> None:
        if not cls._client().delete(cls.table, filters=[Filter.eq("id", as_id(row_id, field=field))]):
            raise cls._unknown(row_id, field=field)

    @classmethod
    def _append(cls, row_id: Id | None, *, position: int | None, **fields: Any) -> Row:
        """Write a row at a position among its siblings; without one the database puts it behind them."""
        # Made once: a write that is repeated must still be the same row.
        made_id = new_id() if row_id is None else as_id(row_id, field="id")
        for _ in range(_NUMBERING_ATTEMPTS - 1):
            try:
                return cls._create(made_id, position=position, **fields)
            except ConflictError as error:
                # Many writers may have been given the same place at the same moment.
                if position is not None or "position" not in (error.field or ""):
                    raise
        return cls._create(made_id, position=position, **fields)

    @classmethod
    def _numbered(cls, column: str, parent: Filter, write: Callable[[int], Row]) -> Row:
        """Write a row under the next free number of its parent."""
        for attempt in range(1, _NUMBERING_ATTEMPTS + 1):
            newest = cls._client().select(
                cls.table, columns=column, filters=[parent], order=[Order(column, descending=True)], limit=1
            )
            try:
                return write(int(newest[0][column]) + 1 if newest.rows else 0)
            except ConflictError:
                if attempt == _NUMBERING_ATTEMPTS:
                    raise
        raise AssertionError("the loop above returns or raises")


class EditableManager(Manager):
    """A manager of rows that can be changed after they were written."""

    @classmethod
    def update(cls, row_id: Id, **fields: Any) -> Row:
        """Change fields of a row that must be there and return it.

        A field that is left out stays as it is and None clears it, unless it is required. Objects are merged into what
        they hold already.
        """
        row = cls._get(row_id, field="id")
        changes = {name: storable(value) for name, value in with_numbers(cls.model, fields).items()}
        return cls._write({**changes, "id": row["id"]}) if changes else row


@lru_cache
def _float_fields(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name, info in model.model_fields.items() if info.annotation in (float, float | None))


def matching(**values: Any) -> list[Filter]:
    """Return filters for the values that were given: equal to one, or one of several."""
    filters = []
    for column, value in values.items():
        if value is None:
            continue
        if isinstance(value, (list, tuple, set, frozenset)):
            filters.append(Filter.in_(column, value))
        else:
            filters.append(Filter.eq(column, value))
    return filters


def counting(*, include_rewound: bool = False) -> list[Filter]:
    """Return the filter that leaves out what a rewind of its run hid, unless that is asked for."""
    return [] if include_rewound else [Filter.is_null("rewound_at")]


def _order(order_by: str | Sequence[str], tie_break: str | None) -> list[Order]:
    """Read sort keys such as "-created_at"; ties are broken, so that pages neither repeat nor skip a row."""
    keys = [order_by] if isinstance(order_by, str) else list(order_by)
    order = [Order(key.removeprefix("-"), descending=key.startswith("-")) for key in keys]
    if tie_break is not None and all(key.column != tie_break for key in order):
        order.append(Order(tie_break))
    return order
