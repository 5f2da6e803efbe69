"""Statements end where Postgres says they end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmanus_rl.local.sql_split import split_statements


@pytest.mark.parametrize(
    "statement",
    [
        "select ';'",
        "select 'it''s; one'",
        r"select E'a\'; b'",
        'select 1 as "semi;colon"',
        "select $$ a; b $$",
        "select $tag$ a; $$ b; $tag$",
        "select 1 -- not; here\n + 1",
        "select /* not; /* nested; */ here; */ 1",
        "create function f() returns int begin atomic select 1; select case when true then 1 else 2 end; end",
        "create rule r as on insert to t do also (select 1; select 2)",
        "select $1 + a$b",
    ],
)
def test_a_semicolon_inside_something_ends_nothing(statement: str) -> None:
    assert split_statements(f"{statement};\nselect 2;") == [statement, "select 2"]


def test_comments_alone_are_no_statement() -> None:
    assert split_statements("-- nothing\n/* at all */;\n;\n") == []


def test_a_comment_stays_with_what_follows() -> None:
    assert split_statements("select 1;\n-- why\nselect 2;") == ["select 1", "-- why\nselect 2"]


@given(st.text(alphabet="ab ';\"$-/*\n\\E()", max_size=60))
def test_nothing_is_lost_whatever_the_text(sql: str) -> None:
    kept = "".join("".join(split_statements(sql)).split())
    position = 0
    for character in kept:
        position = sql.index(character, position) + 1
