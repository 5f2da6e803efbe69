"""Check that this version can continue the migration history of a database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openmanus_rl.errors import SchemaMismatch
from openmanus_rl.local.sql_split import split_statements

# Comments, white space and semicolons: another tool may have split a migration at different places.
_INSIGNIFICANT = re.compile(r"--[^\n]*|[\s;]+")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration file."""

    version: str
    name: str
    path: Path

    def statements(self) -> list[str]:
        return split_statements(self.path.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Applied:
    """One row of a migration history; fields that were not recorded are None."""

    version: str
    name: str | None = None
    statements: Sequence[str] | None = None

    def __str__(self) -> str:
        return f"{self.version}_{self.name}" if self.name else self.version

    def is_(self, migration: Migration) -> bool:
        """Return whether this row matches a migration file, as far as was recorded."""
        if self.name is not None and self.name != migration.name:
            return False
        return not self.statements or _significant(self.statements) == _significant(migration.statements())


def require_known(applied: Sequence[Applied], migrations: Sequence[Migration], *, place: str) -> None:
    """Refuse a history that contains other migrations; `place` names the database in the message."""
    files = {migration.version: migration for migration in migrations}
    unknown = [row for row in applied if row.version not in files]
    different = [row for row in applied if row.version in files and not row.is_(files[row.version])]
    if not unknown and not different:
        return
    if len(unknown) == len(applied):
        raise SchemaMismatch(
            f"{place} has migrations of another project ({_listed(unknown)}) and none of openmanus-rl; "
            "nothing was changed; use a separate database"
        )
    if not different and min(row.version for row in unknown) > max(files):
        raise SchemaMismatch(
            f"{place} has migrations that this version of openmanus-rl does not know ({_listed(unknown)}): "
            "a newer version wrote it; run `pip install --upgrade openmanus-rl`"
        )
    raise SchemaMismatch(
        f"{place} was made by an earlier development version of openmanus-rl, whose schema this version cannot upgrade "
        f"({_listed(different + unknown)}); nothing was changed. To keep its data, install the version that made it "
        "and run `openmanus-rl backup FILE` or `openmanus-rl export` there. To start with an empty database, set "
        "OPENMANUS_RL_HOME to another folder, or DATABASE_URL to another database"
    )


def _significant(statements: Iterable[str]) -> str:
    return _INSIGNIFICANT.sub("", "\n".join(statements))


def _listed(rows: Sequence[Applied]) -> str:
    more = len(rows) - _SHOWN
    return ", ".join(map(str, rows[:_SHOWN])) + (f" and {more} more" if more > 0 else "")
