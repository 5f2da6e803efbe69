"""COPY of rows straight into the tables: the fastest way into this database, which checks and explains nothing."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from workloads import Batch

__all__ = ["by_copy", "copy_rows"]


def copy_rows(
    connection: psycopg.Connection, rows: Batch, *, into: Callable[[str], sql.Composable], numbered: bool = False
) -> None:
    """COPY each kind's rows to the table that `into` names."""
    for kind, records in rows.items():
        columns = [*records[0], *(["ordinal"] if numbered else [])]
        statement = sql.SQL("copy {} ({}) from stdin").format(
            into(kind), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for number, record in enumerate(records):
                values = [Jsonb(value) if isinstance(value, dict) else value for value in record.values()]
                copy.write_row([*values, number] if numbered else values)


def by_copy(connection: psycopg.Connection, rows: Batch) -> None:
    """COPY rows into the tables themselves, in one transaction."""
    with connection.transaction():
        copy_rows(connection, rows, into=lambda kind: sql.Identifier("public", kind))
