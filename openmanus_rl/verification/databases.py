"""The validator `sql`: compares the rows of a query on the environment's database."""

from __future__ import annotations

from openmanus_rl.transport.sandbox_sql import read_rows
from openmanus_rl.verification.answers import compared
from openmanus_rl.verification.base import Case, Finding
from openmanus_rl.verification.specs import SqlSpec

__all__ = ["verify_sql"]


def verify_sql(spec: SqlSpec, case: Case) -> Finding:
    """Compare the rows of a query with the expected ones."""
    if case.sandbox is None:
        return Finding("error", message="the environment is gone, whose database would be queried")
    found = read_rows(case.sandbox.database_url(spec.service), spec.query, timeout_seconds=spec.timeout_seconds)
    by_column = any(isinstance(row, dict) for row in spec.expected)
    if by_column and len(set(found.columns)) < len(found.columns):
        return Finding("error", message="spec.query: two columns have the same name; name them with `as`")
    rows = [dict(zip(found.columns, row, strict=True)) if by_column else list(row) for row in found.rows]
    return compared(spec.expected, rows, spec, root="rows")
