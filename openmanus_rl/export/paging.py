"""Keyset pagination: reads a table page by page, each starting after the last row of the previous one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openmanus_rl.transport.client import Client
from openmanus_rl.transport.filters import Filter, Order
from openmanus_rl.transport.rest import Row

__all__ = ["pages"]


def pages(
    client: Client,
    table: str,
    *,
    columns: str,
    filters: Sequence[Filter],
    by: tuple[Order, Order],
    page_rows: int,
) -> Iterator[list[Row]]:
    """Yield pages of rows in order; together the two keys must be unique and never null.

    Every page costs the same, and rows written or deleted meanwhile do not shift others.
    """
    first, second = by

    def read(limit: int, *conditions: Filter) -> list[Row]:
        return client.select(table, columns=columns, filters=[*filters, *conditions], order=by, limit=limit).rows

    rows = read(page_rows)
    while rows:
        # Before the yield: the caller may modify the page.
        last, is_full = rows[-1], len(rows) == page_rows
        yield rows
        if not is_full:
            return
        # First the remaining rows with the same first key: separate conditions use the index, an "or" would not.
        rows = read(page_rows, Filter.eq(first.column, last[first.column]), _beyond(second, last))
        if len(rows) < page_rows:
            rows += read(page_rows - len(rows), _beyond(first, last))


def _beyond(key: Order, row: Row) -> Filter:
    compare = Filter.lt if key.descending else Filter.gt
    return compare(key.column, row[key.column])
