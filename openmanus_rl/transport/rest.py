"""Tables and functions of the database, over PostgREST."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import httpx
from postgrest import CountMethod, SyncPostgrestClient
from postgrest.base_request_builder import BaseFilterRequestBuilder, RequestConfig

from openmanus_rl.errors import BadResponse, ConflictError, InvalidInput
from openmanus_rl.transport.filters import Filter, Order, Page
from openmanus_rl.transport.held import HeldBody
from openmanus_rl.transport.http import NO_BODY, HttpClient, read_json, read_rows

__all__ = ["MAX_PAGE_ROWS", "Rest", "Row"]

Row = dict[str, Any]
T = TypeVar("T")

# Hosted Supabase silently truncates responses to this many rows.
MAX_PAGE_ROWS = 1000
# PostgREST's error for an offset past the last row when counting; returned as an empty page.
_RANGE_BEYOND_END = "PGRST103"


class Rest:
    """The database of one Supabase, with the rights of one key or user."""

    def __init__(self, *, url: str, headers: Mapping[str, str], http: HttpClient) -> None:
        self.url = url.rstrip("/")
        self.http = http
        self._headers = dict(headers)
        self.accepts_gzip: bool | None = None
        """Whether the server said that it takes compressed requests (RFC 7694); None before it was asked."""
        self.rest_seconds = 0.0
        """How long the server asked, last, to collect records before it is sent more."""

    def select(
        self,
        table: str,
        *,
        columns: str = "*",
        filters: Sequence[Filter] = (),
        order: Sequence[Order] = (),
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of rows; the total is counted only if asked for."""
        if not 1 <= limit <= MAX_PAGE_ROWS:
            raise InvalidInput(f"limit {limit} is not between 1 and {MAX_PAGE_ROWS}", field="limit")
        if offset < 0:
            raise InvalidInput(f"offset {offset} is negative", field="offset")
        builder = self._rest.from_(table).select(columns, count=CountMethod.exact if count else None)
        _apply(builder, filters)
        for key in order:
            builder.order(key.column, desc=key.descending, nullsfirst=key.nulls_first)
        # Request one row more, if the server allows it, to see whether another page follows.
        builder.limit(min(limit + 1, MAX_PAGE_ROWS)).offset(offset)
        attempt = f"select from {table}"
        try:
            rows, total = self._send(builder.request, attempt=attempt, read=partial(_rows_and_total, attempt=attempt))
        except InvalidInput as error:
            if error.code != _RANGE_BEYOND_END:
                raise
            return Page(rows=[], total=self.count(table, filters=filters), next_offset=None)
        more = len(rows) > limit or len(rows) == MAX_PAGE_ROWS
        return Page(rows=rows[:limit], total=total, next_offset=offset + limit if more else None)

    def select_all(
        self,
        table: str,
        *,
        columns: str = "*",
        filters: Sequence[Filter] = (),
        order: Sequence[Order] = (),
        page_rows: int = 500,
    ) -> Iterator[Row]:
        """Yield every row, page by page; the order must be unique, or rows may be repeated or skipped."""
        offset: int | None = 0
        while offset is not None:
            page = self.select(table, columns=columns, filters=filters, order=order, limit=page_rows, offset=offset)
            yield from page.rows
            offset = page.next_offset

    def select_one(self, table: str, *, filters: Sequence[Filter], columns: str = "*") -> Row | None:
        """Return the row that matches the filters, or None; more than one raises `ConflictError`."""
        rows = self.select(table, columns=columns, filters=filters, limit=2).rows
        if len(rows) > 1:
            raise ConflictError(f"select from {table}: more than one row matches where one was expected")
        return rows[0] if rows else None

    def count(self, table: str, *, filters: Sequence[Filter] = ()) -> int:
        """Return how many rows match the filters."""
        builder = self._rest.from_(table).select("*", count=CountMethod.exact, head=True)
        _apply(builder, filters)
        attempt = f"count {table}"
        total = self._send(builder.request, attempt=attempt, read=_total)
        if total is None:
            raise BadResponse(f"{attempt}: the answer holds no count", hint="check any proxy in between")
        return total

    def insert(self, table: str, rows: Row | Sequence[Row], *, retryable: bool = True) -> list[Row]:
        """Insert new rows and return them; missing columns get their defaults."""
        many = [rows] if isinstance(rows, Mapping) else list(rows)
        if not many:
            return []
        builder = self._rest.from_(table).insert(many, default_to_null=False)
        attempt = f"insert into {table}"
        try:
            return self._send(builder.request, attempt=attempt, read=_read(attempt), retryable=retryable)
        except ConflictError as error:
            # An earlier attempt may have succeeded and its response been lost: then rows with these ids exist.
            if error.attempts == 1 or not all("id" in row for row in many):
                raise
            landed = list(self.select_all(table, filters=[Filter.in_("id", [row["id"] for row in many])]))
            if len(landed) < len(many):
                raise
            return landed

    def upsert(
        self,
        table: str,
        rows: Row | Sequence[Row],
        *,
        on_conflict: str,
        ignore_duplicates: bool = False,
        retryable: bool = True,
    ) -> list[Row]:
        """Insert rows, or update those with the same `on_conflict` columns, and return them."""
        many = [rows] if isinstance(rows, Mapping) else list(rows)
        if not many:
            return []
        builder = self._rest.from_(table).upsert(
            many, on_conflict=on_conflict, ignore_duplicates=ignore_duplicates, default_to_null=False
        )
        attempt = f"upsert into {table}"
        return self._send(builder.request, attempt=attempt, read=_read(attempt), retryable=retryable)

    def update(self, table: str, values: Row, *, filters: Sequence[Filter], retryable: bool = True) -> list[Row]:
        """Update the rows that match the filters and return them."""
        _refuse_all_rows(table, filters)
        builder = self._rest.from_(table).update(values)
        _apply(builder, filters)
        attempt = f"update {table}"
        return self._send(builder.request, attempt=attempt, read=_read(attempt), retryable=retryable)

    def delete(self, table: str, *, filters: Sequence[Filter], retryable: bool = True) -> list[Row]:
        """Delete the rows that match the filters and return them."""
        _refuse_all_rows(table, filters)
        builder = self._rest.from_(table).delete()
        _apply(builder, filters)
        attempt = f"delete from {table}"
        return self._send(builder.request, attempt=attempt, read=_read(attempt), retryable=retryable)

    def rpc(self, name: str, params: Mapping[str, Any] | None = None, *, retryable: bool = True) -> Any:
        """Call a database function and return its JSON result, None if it has none."""
        attempt = f"call {name}"
        builder = self._rest.rpc(name, dict(params or {}))
        return self._send(
            builder.request, attempt=attempt, read=partial(read_json, attempt=attempt), retryable=retryable
        )

    def rpc_with_text(
        self, name: str, body: bytes | HeldBody, *, encoding: str | None = None, retryable: bool = True
    ) -> Any:
        """Call a database function whose one parameter, of type text and without a name, is the body."""
        attempt = f"call {name}"

        def read(response: httpx.Response) -> Any:
            self.accepts_gzip = "gzip" in response.headers.get("accept-encoding", "")
            self.rest_seconds = _seconds(response.headers.get("x-rest-seconds", ""))
            return read_json(response, attempt)

        headers = self._headers | {"Content-Type": "text/plain"}
        return self.http.request(
            "POST",
            f"{self.url}/rest/v1/rpc/{name}",
            attempt=attempt,
            read=read,
            headers=headers | {"Content-Encoding": encoding} if encoding else headers,
            content=body,
            retryable=retryable,
        )

    @cached_property
    def _rest(self) -> SyncPostgrestClient:
        # Only its query builders are used; requests are sent by the `HttpClient`.
        return SyncPostgrestClient(f"{self.url}/rest/v1", headers=self._headers, http_client=self.http.client)

    def _send(
        self,
        request: RequestConfig[httpx.Client],
        *,
        attempt: str,
        read: Callable[[httpx.Response], T],
        retryable: bool = True,
    ) -> T:
        return self.http.request(
            request.http_method,
            str(request.path),
            attempt=attempt,
            read=read,
            headers=request.headers,
            params=request.params,
            body=NO_BODY if request.json is None or request.http_method == "DELETE" else request.json,
            retryable=retryable,
        )


def _apply(builder: BaseFilterRequestBuilder[httpx.Client], filters: Sequence[Filter]) -> None:
    for condition in filters:
        builder.filter(condition.column, condition.operator, condition.criteria)


def _refuse_all_rows(table: str, filters: Sequence[Filter]) -> None:
    if not filters:
        raise InvalidInput(f"{table}: without a filter this would touch every row", field="filters")


def _read(attempt: str) -> Callable[[httpx.Response], list[Row]]:
    return partial(read_rows, attempt=attempt)


def _rows_and_total(response: httpx.Response, attempt: str) -> tuple[list[Row], int | None]:
    return read_rows(response, attempt), _total(response)


def _total(response: httpx.Response) -> int | None:
    """Read the count from `Content-Range: 0-24/3573`; it is * if rows were not counted."""
    total = response.headers.get("content-range", "").rpartition("/")[2]
    return int(total) if total.isdigit() else None


def _seconds(text: str) -> float:
    """Read a number of seconds; 0 if it is none."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < math.inf else 0.0
