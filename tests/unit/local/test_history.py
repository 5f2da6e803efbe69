"""A history is continued only by the migrations that it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmanus_rl.errors import SchemaMismatch
from openmanus_rl.local.history import Applied, Migration, require_known

NAMES = ("20240101000000_one", "20240101000100_two", "20240101000200_three")


@pytest.fixture
def migrations(tmp_path: Path) -> list[Migration]:
    made = []
    for file in NAMES:
        version, name = file.split("_")
        path = tmp_path / f"{file}.sql"
        path.write_text(f"-- A comment.\ncreate table public.{name} (id int);\nselect 1;\n")
        made.append(Migration(version=version, name=name, path=path))
    return made


def applied(migrations: list[Migration], count: int) -> list[Applied]:
    return [Applied(m.version, m.name, m.statements()) for m in migrations[:count]]


@pytest.mark.parametrize("count", range(len(NAMES) + 1))
def test_all_or_the_first_of_them_are_known(migrations: list[Migration], count: int) -> None:
    require_known(applied(migrations, count), migrations, place="the database")


@pytest.mark.parametrize(
    "row",
    [
        Applied("20240101000000"),
        Applied("20240101000000", "one", None),
        Applied("20240101000000", "one", []),
        Applied("20240101000000", "one", ["create table public.one\n  (id int);", "select 1;"]),
        Applied("20240101000000", "one", ["-- Another comment.\ncreate table public.one (id int); select 1"]),
    ],
)
def test_what_was_not_recorded_and_what_does_nothing_is_no_difference(
    migrations: list[Migration], row: Applied
) -> None:
    require_known([row], migrations, place="the database")


@pytest.mark.parametrize(
    "row",
    [
        Applied("20240101000000", "another", ["create table public.one (id int)", "select 1"]),
        Applied("20240101000000", "one", ["create table public.one (id bigint)", "select 1"]),
        Applied("20240101000000", "one", ["create table public.one (id int)"]),
        Applied("20240101000050", "between"),
    ],
)
def test_another_content_or_a_version_in_between_is_of_an_earlier_development_version(
    migrations: list[Migration], row: Applied
) -> None:
    history = [row, *applied(migrations, 3)[1:]]
    with pytest.raises(SchemaMismatch, match=r"^here was made by an earlier development version") as caught:
        require_known(history, migrations, place="here")
    for part in (str(row), "nothing was changed", "openmanus-rl backup", "OPENMANUS_RL_HOME", "DATABASE_URL"):
        assert part in str(caught.value)


def test_what_comes_after_the_last_is_of_a_newer_version(migrations: list[Migration]) -> None:
    history = [*applied(migrations, 3), Applied("20250101000000", "later")]
    with pytest.raises(SchemaMismatch, match=r"20250101000000_later.*pip install --upgrade"):
        require_known(history, migrations, place="the database")


def test_a_history_without_any_of_them_is_of_something_else(migrations: list[Migration]) -> None:
    history = [Applied(f"2025010100000{number}") for number in range(5)]
    with pytest.raises(SchemaMismatch, match=r"another project \(20250101000000, 20250101000001, .* and 2 more\)"):
        require_known(history, migrations, place="the database")
