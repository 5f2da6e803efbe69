"""The base classes of managers: reading and checking rows, and writing through the database's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar, cast, get_args
from uuid import UUID

from openmanus_rl.connections import get_client
from openmanus_rl.errors import BadResponse, ConflictError, InvalidInput, NotFoundError, SchemaMismatch
from openmanus_rl.records.columns import columns_of, misfits, with_numbers
from openmanus_rl.records.ids import Id, as_id, creation_change_id, new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.filters import Filter, Order, Page
from openmanus_rl.transport.rest import Row

__all__ = [
    "EditableManager",
    "GatewayUser",
    "Manager",
    "OneOrMany",
    "Paging",
    "between",
    "containing",
    "counting",
    "known",
    "matching",
    "of_ids",
]

UserT = TypeVar("UserT", bound="GatewayUser")
RowT = TypeVar("RowT", bound=Mapping[str, Any])

OneOrMany = str | Sequence[str]
"""A value to filter by, or several of which one must match."""


class Paging(TypedDict, total=False):
    """Common arguments of all list methods."""

    filters: Sequence[Filter]
    """Further conditions, such as `Filter.gte("total_reward", 1)`."""
    order_by: str | Sequence[str]
    """Columns to sort by; `-` before a name sorts in descending order."""
    limit: int
    """The maximum number of rows in a page: 100 by default, and at most 1,000."""
    offset: int
    """How many rows to skip; the next page begins at the page's `next_offset`."""
    count: bool
    """Whether to count all rows, as the page's `total`."""


# If two writers take the same number at the same time, one of them gets a conflict and retries with the next.
_NUMBERING_ATTEMPTS = 8


def known(**fields: Any) -> Row:
    """Return the fields that were given: missing fields are left unchanged, while null would clear them."""
    return {name: value for name, value in fields.items() if value is not None}


@contextmanager
def _in_own_words(prefix: str) -> Iterator[None]:
    """Name a field that can't be sent by the caller's name for it, not by its place in the request."""
    try:
        yield
    except InvalidInput as error:
        if error.field and error.field.startswith(prefix):
            error.field = error.field.removeprefix(prefix)
            error.message = error.message.replace(prefix, "", 1)
        raise


class GatewayUser:
    """Uses one client: that of the settings, or the one given to `using`."""

    _given_gateway: ClassVar[Client | None] = None

    @classmethod
    def using(cls, client: Client) -> type[Self]:
        """Return this manager with another client, such as a member's."""
        return type(cls.__name__, (cls,), {"_given_gateway": client, "__doc__": cls.__doc__})

    @classmethod
    def _client(cls) -> Client:
        return cls._given_gateway or get_client()

    @classmethod
    def _sibling(cls, user: type[UserT]) -> type[UserT]:
        """Return another manager with the same client."""
        return user if cls._given_gateway is None else user.using(cls._given_gateway)


class Manager(GatewayUser, Generic[RowT]):
    """Reads and writes one table; use the class itself, or `using(client)` for another Supabase or user."""

    table: ClassVar[str]
    noun: ClassVar[str]
    key: ClassVar[str] = "id"
    order_by: ClassVar[str | Sequence[str]] = "-created_at"
    row_type: ClassVar[type]

    def __init_subclass__(cls) -> None:
        """Read the row type from the base class: `Manager[Task]`."""
        for base in cls.__dict__.get("__orig_bases__", ()):
            cls.row_type = get_args(base)[0]

    # Reading

    @classmethod
    def _find(cls, *filters: Filter) -> RowT | None:
        row = cls._client().select_one(cls.table, filters=filters)
        return None if row is None else cls._checked(row)

    @classmethod
    def _require(cls, *filters: Filter, what: object, field: str) -> RowT:
        row = cls._find(*filters)
        if row is None:
            raise cls._unknown(what, field=field)
        return row

    @classmethod
    def _get(cls, row_id: Id, *, field: str) -> RowT:
        return cls._require(Filter.eq(cls.key, as_id(row_id, field=field)), what=row_id, field=field)

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
        *conditions: Filter,
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] | None = None,
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[RowT]:
        page = cls._client().select(
            cls.table,
            filters=[*conditions, *filters],
            order=cls._order(cls.order_by if order_by is None else order_by),
            limit=limit,
            offset=offset,
            count=count,
        )
        return Page([cls._checked(row) for row in page.rows], page.total, page.next_offset)

    @classmethod
    def _all(cls, *filters: Filter, order_by: str | Sequence[str]) -> Iterator[RowT]:
        for row in cls._client().select_all(cls.table, filters=filters, order=cls._order(order_by)):
            yield cls._checked(row)

    @classmethod
    def _order(cls, order_by: str | Sequence[str]) -> list[Order]:
        """Parse sort keys such as "-created_at"; ties are broken, so that pages neither repeat nor skip rows."""
        keys = [order_by] if isinstance(order_by, str) else list(order_by)
        order = [Order(key.removeprefix("-"), descending=key.startswith("-")) for key in keys]
        return order if any(key.column == cls.key for key in order) else [*order, Order(cls.key)]

    @classmethod
    def _checked(cls, row: Row) -> RowT:
        """Return the row if it has the columns that this version expects."""
        wrong = misfits(cls.row_type, row)
        if wrong:
            raise SchemaMismatch(
                f"{cls.noun} {row.get(cls.key)}: the database answered a row of another shape ({', '.join(wrong)})",
                hint="apply the migrations with `openmanus-rl migrate`, or install the version that matches them",
            )
        for name, column in columns_of(cls.row_type).items():
            # NaN and infinities are given as their names, since JSON has no numbers for them.
            if column.holds is float and isinstance(row[name], str):
                row[name] = float(row[name])
        return cast(RowT, row)

    # Writing

    @classmethod
    def _write(cls, record: Mapping[str, Any]) -> RowT:
        """Write one record through `ingest` and return its row; a refusal raises an error that names the field."""
        batch = {cls.table: [record]}
        with _in_own_words(f"batch.{cls.table}[0]."):
            answer = cls._client().rpc("ingest", {"batch": batch, "all_or_nothing": True, "return_rows": True})
        try:
            row = answer["rows"][cls.table][0]
        except (KeyError, IndexError, TypeError) as error:
            raise BadResponse(f"write {cls.noun} {record.get('id')}: the answer holds no row") from error
        return cls._checked(row)

    @classmethod
    def _create(cls, row_id: Id | None, *, status: str | None = None, **fields: Any) -> RowT:
        """Write a new row; for an existing id, update its fields but not its status."""
        made_id = new_id() if row_id is None else as_id(row_id, field="id")
        record = known(id=made_id, status=status, **with_numbers(cls.row_type, fields))
        if status is not None:
            record["status_change_id"] = creation_change_id(made_id)
        return cls._write(record)

    @classmethod
    def _delete(cls, row_id: Id, *, field: str) -> None:
        if not cls._client().delete(cls.table, filters=[Filter.eq(cls.key, as_id(row_id, field=field))]):
            raise cls._unknown(row_id, field=field)

    @classmethod
    def _append(cls, row_id: Id | None, *, position: int | None, **fields: Any) -> RowT:
        """Write a row at a position among its siblings, by default the last."""
        # Created once, so that a retry writes the same row.
        made_id = new_id() if row_id is None else as_id(row_id, field="id")
        for _ in range(_NUMBERING_ATTEMPTS - 1):
            try:
                return cls._create(made_id, position=position, **fields)
            except ConflictError as error:
                # Several writers may have been given the same position at the same time.
                if position is not None or "position" not in (error.field or ""):
                    raise
        return cls._create(made_id, position=position, **fields)

    @classmethod
    def _numbered(cls, column: str, parent: Filter, write: Callable[[int], RowT]) -> RowT:
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


class EditableManager(Manager[RowT]):
    """A manager of rows that can be updated."""

    @classmethod
    def update(cls, row_id: Id, **fields: Any) -> RowT:
        """Update fields of an existing row and return it.

        Missing fields are left unchanged; None clears a field, unless it is required. Objects are merged into the
        stored ones.
        """
        return cls._change(cls._get(row_id, field="id"), fields)

    @classmethod
    def _change(cls, row: RowT, fields: Mapping[str, Any]) -> RowT:
        # Only for an existing row: a record with an unknown id would create one.
        return cls._write({**with_numbers(cls.row_type, fields), "id": row["id"]}) if fields else row

    @classmethod
    def _move(cls, row_id: Id, status: str, *, field: str, message: str | None = None, **fields: Any) -> RowT:
        """Change the status of an existing row, together with other fields; retries apply it once."""
        params = {
            "entity": cls.table,
            "entity_id": as_id(row_id, field=field),
            "status": status,
            "message": message,
            "fields": known(**with_numbers(cls.row_type, fields)),
            "change_id": new_id(),
        }
        try:
            with _in_own_words("fields."):
                row = cls._client().rpc("change_status", params)
        except NotFoundError as error:
            # Use the name of the caller's argument.
            error.field = field if error.field == "entity_id" else error.field
            raise
        if not isinstance(row, dict):
            raise BadResponse(f"change {cls.noun} {row_id}: the answer holds no row")
        return cls._checked(row)


def matching(**values: Any) -> list[Filter]:
    """Return filters for the values that were given: equal to one value, or to any of several."""
    return [
        Filter.in_(column, value) if isinstance(value, (list, tuple, set, frozenset)) else Filter.eq(column, value)
        for column, value in values.items()
        if value is not None
    ]


def of_ids(**ids: Id | Sequence[Id] | None) -> list[Filter]:
    """Return filters for the ids that were given, one or several per column; invalid ids raise `InvalidInput`."""
    filters = []
    for column, given in ids.items():
        if isinstance(given, (str, UUID)):
            filters.append(Filter.eq(column, as_id(given, field=column)))
        elif given is not None:
            filters.append(Filter.in_(column, [as_id(one, field=column) for one in given]))
    return filters


def containing(**texts: str | None) -> list[Filter]:
    """Return filters for columns that contain the texts that were given, ignoring case."""
    return [Filter.contains_text(column, text) for column, text in texts.items() if text is not None]


def between(column: str, first: int | None, last: int | None) -> list[Filter]:
    """Return filters for a column within the bounds that were given, inclusive."""
    lower = [] if first is None else [Filter.gte(column, first)]
    return lower if last is None else [*lower, Filter.lte(column, last)]


def counting(*, include_rewound: bool = False) -> list[Filter]:
    """Return the filter that excludes rows hidden by a rewind, unless `include_rewound` is set."""
    return [] if include_rewound else [Filter.is_null("rewound_at")]
