"""What an archive consists of: its files, and a manifest that says how to read them without this package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["FORMAT", "Archived", "ArchivedFile", "manifest_of", "manifest_path"]

FORMAT = 1


@dataclass(frozen=True)
class ArchivedFile:
    """A Parquet file with rows of one table."""

    table: str
    path: str
    rows: int
    size_bytes: int
    sha256: str
    digest: str
    """The sum of the rows' digests, as the database computes them; text, since it may exceed 64 bits."""
    columns: tuple[str, ...]
    """The columns of the table; the file may have more."""
    first_rollout: str | None = None
    last_rollout: str | None = None
    """Rows are in the order of their rollouts: those of a rollout are in few files."""

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> ArchivedFile:
        """Return what `as_dict` wrote."""
        return cls(**{**given, "columns": tuple(given["columns"])})

    def as_dict(self) -> dict[str, Any]:
        """Return the file as JSON holds it."""
        return {**asdict(self), "columns": list(self.columns)}


@dataclass(frozen=True)
class Archived:
    """What was moved to an archive, or back."""

    run_id: str
    name: str
    row_counts: dict[str, int]
    archive_bytes: int
    database_bytes: int
    files: int
    left_out: int = 0
    """Rows that were not restored, because their rollout was deleted since."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return asdict(self)


def manifest_path(run_id: str) -> str:
    """Return where an archive's manifest is."""
    return f"{run_id}/manifest.json"


def manifest_of(
    run: Mapping[str, Any],
    files: list[ArchivedFile],
    types: Mapping[str, Mapping[str, str]],
    row_counts: dict[str, int],
) -> bytes:
    """Return the manifest: the run, the columns of each table with their Postgres types, and the files."""
    tables = {
        name: {"rows": sum(file.rows for file in files if file.table == name), "columns": dict(columns)}
        for name, columns in types.items()
    }
    content = {
        "format": FORMAT,
        "archived_at": datetime.now(UTC).isoformat(),
        "run": dict(run),
        "row_counts": row_counts,
        "tables": tables,
        "files": [file.as_dict() for file in files],
    }
    return json.dumps(content, indent=1).encode()
