"""What every manager is made of: one client, rows checked on arrival, and one way to write."""

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
    """What every list takes besides its own arguments."""

    filters: Sequence[Filter]
    """Further conditions, such as `Filter.gte("total_reward", 1)`."""
    order_by: str | Sequence[str]
    """Columns to sort by; `-` before a name sorts from the greatest."""
    limit: int
    """How many rows a page has at most: 100 unless given, and 1,000 at most."""
    offset: int
    """How many rows to pass over; the page's `next_offset` is where the next page begins."""
    count: bool
    """Whether to count all rows, as the page's `total`."""


# Two writers that number things at the same moment: one of them is told to take the next number.
_NUMBERING_ATTEMPTS = 8


def known(**fields: Any) -> Row:
    """Return the fields that were given; a field that is left out stays as it is, and null would clear it."""
    return {name: value for name, value in fields.items() if value is not None}


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


class Manager(GatewayUser, Generic[RowT]):
    """Reads and writes one table; use the class as it is, or `using(client)` for another Supabase or caller."""

    table: ClassVar[str]
    noun: ClassVar[str]
    key: ClassVar[str] = "id"
    order_by: ClassVar[str | Sequence[str]] = "-created_at"
    row_type: ClassVar[type]

    def __init_subclass__(cls) -> None:
        """Take the type of the rows from the base: `Manager[Task]`."""
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
        """Read sort keys such as "-created_at"; ties are broken, so that pages neither repeat nor skip a row."""
        keys = [order_by] if isinstance(order_by, str) else list(order_by)
        order = [Order(key.removeprefix("-"), descending=key.startswith("-")) for key in keys]
        return order if any(key.column == cls.key for key in order) else [*order, Order(cls.key)]

    @classmethod
    def _checked(cls, row: Row) -> RowT:
        """Return the row, once it has the shape that this version knows."""
        wrong = misfits(cls.row_type, row)
        if wrong:
            raise SchemaMismatch(
                f"{cls.noun} {row.get(cls.key)}: the database answered a row of another shape ({', '.join(wrong)})",
                hint="apply the migrations with `openmanus-rl migrate`, or install the version that matches them",
            )
        for name, column in columns_of(cls.row_type).items():
            # NaN and the infinities come by their names, since JSON has no numbers for them.
            if column.holds is float and isinstance(row[name], str):
                row[name] = float(row[name])
        return cast(RowT, row)

    # Writing

    @classmethod
    def _write(cls, record: Mapping[str, Any]) -> RowT:
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
    def _create(cls, row_id: Id | None, *, status: str | None = None, **fields: Any) -> RowT:
        """Write a new row; the same id again changes its fields but never sets its status back."""
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
    """A manager of rows that can be changed after they were written."""

    @classmethod
    def update(cls, row_id: Id, **fields: Any) -> RowT:
        """Change fields of a row that must be there and return it.

        A field that is left out stays as it is and None clears it, unless it is required. Objects are merged into what
        they hold already.
        """
        return cls._change(cls._get(row_id, field="id"), fields)

    @classmethod
    def _change(cls, row: RowT, fields: Mapping[str, Any]) -> RowT:
        # Of a row that was found: the record of an unknown id would be taken for a new row.
        return cls._write({**with_numbers(cls.row_type, fields), "id": row["id"]}) if fields else row

    @classmethod
    def _move(cls, row_id: Id, status: str, *, field: str, message: str | None = None, **fields: Any) -> RowT:
        """Change the status of a row that must be there, and fields with it; once, however often it is repeated."""
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
            # The database knows it as entity_id; the caller knows it by the name of an argument.
            error.field = error.field or field
            raise
        if not isinstance(row, dict):
            raise BadResponse(f"change {cls.noun} {row_id}: the answer holds no row")
        return cls._checked(row)


def matching(**values: Any) -> list[Filter]:
    """Return filters for the values that were given: equal to one, or one of several."""
    return [
        Filter.in_(column, value) if isinstance(value, (list, tuple, set, frozenset)) else Filter.eq(column, value)
        for column, value in values.items()
        if value is not None
    ]


def of_ids(**ids: Id | Sequence[Id] | None) -> list[Filter]:
    """Return filters for the ids that were given, one or several for a column; an `InvalidInput` names what is none."""
    filters = []
    for column, given in ids.items():
        if isinstance(given, (str, UUID)):
            filters.append(Filter.eq(column, as_id(given, field=column)))
        elif given is not None:
            filters.append(Filter.in_(column, [as_id(one, field=column) for one in given]))
    return filters


def containing(**texts: str | None) -> list[Filter]:
    """Return filters for columns that contain the texts that were given, upper and lower case alike."""
    return [Filter.contains_text(column, text) for column, text in texts.items() if text is not None]


def between(column: str, first: int | None, last: int | None) -> list[Filter]:
    """Return filters for a column from one number to another, as far as they were given."""
    lower = [] if first is None else [Filter.gte(column, first)]
    return lower if last is None else [*lower, Filter.lte(column, last)]


def counting(*, include_rewound: bool = False) -> list[Filter]:
    """Return the filter that leaves out what a rewind of its run hid, unless that is asked for."""
    return [] if include_rewound else [Filter.is_null("rewound_at")]
