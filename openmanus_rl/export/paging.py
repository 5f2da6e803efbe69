"""Reading a table from end to end, page by page, each page found by the last row of the one before."""

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

    However far it has come, a page costs the same, and rows that are written or deleted meanwhile shift no other row.
    """
    first, second = by

    def read(limit: int, *conditions: Filter) -> list[Row]:
        return client.select(table, columns=columns, filters=[*filters, *conditions], order=by, limit=limit).rows

    rows = read(page_rows)
    while rows:
        # Noted first: the page is its reader's to change.
        last, is_full = rows[-1], len(rows) == page_rows
        yield rows
        if not is_full:
            return
        # First the rest of those that share the first key: plain conditions reach the index where an "or" would not.
        rows = read(page_rows, Filter.eq(first.column, last[first.column]), _beyond(second, last))
        if len(rows) < page_rows:
            rows += read(page_rows - len(rows), _beyond(first, last))


def _beyond(key: Order, row: Row) -> Filter:
    compare = Filter.lt if key.descending else Filter.gt
    return compare(key.column, row[key.column])
