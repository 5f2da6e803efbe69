"""Everything is defined once over all migration files, and no file changes what another made."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from openmanus_rl.local.sql_split import split_statements

from .servers import MIGRATIONS

MAKES = re.compile(
    r"""create\ (?:or\ replace\ )?(?:unique\ |materialized\ |constraint\ )?
        (?P<kind>schema|table|view|function|procedure|type|domain|sequence|index|trigger|policy|publication|extension)\s
        (?P<name>"[^"]+"|[\w.]+)""",
    re.VERBOSE,
)
# A trigger and a policy have their name within a table.
ON_A_TABLE = re.compile(r" on (?P<table>[\w.]+)")
MERGE = re.compile(r"select internal\.define_merge\('(?P<kind>\w+)'")
ALTERS = re.compile(r"alter table (?:only )?(?P<table>[\w.]+) (?P<action>.*)")
CHANGES = re.compile(
    r"\b(create or replace|drop (?!not\b)\w+|add column|rename (to|column)|if not exists)\b"
    r"|\balter (view|index|function|type)\b"
)


def statements_of(sql: str) -> Iterator[str]:
    """Return the statements in lower case, on one line each and without comments."""
    for statement in split_statements(sql):
        yield " ".join(re.sub(r"--[^\n]*", "", statement).lower().split())


def made_by(statement: str) -> str | None:
    """Return what a statement defines, such as `function internal.new_id`; None for any other statement."""
    if merge := MERGE.match(statement):
        return f"function internal.merge_{merge['kind']}"
    made = MAKES.match(statement)
    if made is None:
        return None
    place = ON_A_TABLE.search(statement) if made["kind"] in ("trigger", "policy") else None
    return f"{made['kind']} {made['name']}" + (f" on {place['table']}" if place else "")


def faults_of(files: dict[str, str]) -> list[str]:
    """Return what is defined twice, or changed after it was made."""
    faults, made_in = [], dict[str, str]()
    for file, sql in files.items():
        for statement in statements_of(sql):
            shown = f"{file}: {statement[:80]}"
            # What the body of a function does, it does when it is called.
            outside = statement.split("$", 1)[0] if statement.startswith("create function") else statement
            if CHANGES.search(outside):
                faults.append(f"{shown}: changes what another statement made; change that one")
            if what := made_by(statement):
                if what in made_in:
                    faults.append(f"{shown}: {what} is defined in {made_in[what]} already")
                made_in[what] = file
            for altered in ALTERS.finditer(outside):
                closes_a_cycle = re.match(r"add constraint \w+ foreign key", altered["action"])
                if made_in.get(f"table {altered['table']}") != file and not closes_a_cycle:
                    faults.append(f"{shown}: alters a table of another file")
    return faults


def test_everything_is_defined_once() -> None:
    files = {path.name: path.read_text() for path in MIGRATIONS}
    assert faults_of(files) == []
    made = [made_by(statement) for sql in files.values() for statement in statements_of(sql)]
    counts = {kind: sum(what is not None and what.startswith(kind) for what in made) for kind in ("table", "function")}
    assert counts["table"] >= 25, "the statements that make tables are found"
    assert counts["function"] >= 150, "the statements that make functions are found"


def test_one_foreign_key_alone_is_added_to_a_table_of_another_file() -> None:
    """Runs and their baselines reference each other; every other reference stands in its table."""
    added = [
        statement
        for path in MIGRATIONS
        for statement in statements_of(path.read_text())
        if re.search(r"alter table .* add constraint", statement)
    ]
    assert [statement.split()[2] for statement in added] == ["public.training_runs"]


@pytest.mark.parametrize(
    "fault",
    [
        "create function internal.one(a text) returns text language sql as $$ select a $$;",
        "create or replace function internal.two() returns integer language sql as $$ select 1 $$;",
        "create table public.one (id uuid);",
        "create table if not exists public.two (id uuid);",
        "create view public.shown as select 2;",
        "create unique index one_by_id on public.one (id);",
        'create policy "members read one" on public.one for select using (true);',
        "create trigger touch before insert on public.one for each row execute function internal.one();",
        "select internal.define_merge('one');",
        "alter table public.one add column name text;",
        "alter table public.one drop constraint one_pkey;",
        "alter table public.one enable row level security;",
        "drop view public.shown;",
        "drop trigger touch on public.one;",
        "do $$ begin execute 'create or replace view public.shown as select 2'; end $$;",
        "do $$ begin alter table public.one alter column id set storage external; end $$;",
    ],
)
def test_a_second_definition_and_a_change_are_found(fault: str) -> None:
    first = """
        create table public.one (id uuid primary key);
        alter table public.one enable row level security;
        create view public.shown as select 1;
        create unique index one_by_id on public.one (id);
        create policy "members read one" on public.one for select using (true);
        create function internal.one() returns void language plpgsql as $$ begin drop table pg_temp.two; end $$;
        create trigger touch before update on public.one for each row execute function internal.one();
        -- create or replace: a comment changes nothing
        select internal.define_merge('one');
    """
    assert faults_of({"one.sql": first}) == []
    assert len(faults_of({"one.sql": first, "two.sql": fault})) >= 1


def test_errors_that_name_a_field_are_raised_where_the_api_is_told_of_it() -> None:
    """A column alone is lost on the way through the API: internal.fail names the field in the detail too."""
    raised = re.compile(r"raise exception using errcode = [^;]*?\bcolumn = [^;]*")
    without_detail = [
        found[0]
        for path in MIGRATIONS
        for found in raised.finditer(" ".join(path.read_text().split()))
        if "detail = " not in found[0]
    ]
    assert without_detail == []
