"""Supabase's own advisors find nothing wrong, and would."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from .servers import Server
from .writing import Database


@pytest.fixture
def advise(supabase_cli: Callable[..., Any]) -> Callable[[str], list[dict[str, Any]]]:
    """Return a function that asks `supabase db advisors` for all it has to say of a database."""

    def run(url: str) -> list[dict[str, Any]]:
        done = supabase_cli(
            "db", "advisors", f"--remote={url}", "--type", "all", "--level", "info", "--output-format", "json"
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return list(json.loads(done.stdout)["results"])

    return run


def test_the_advisors_find_nothing_on_the_migrated_database(
    server: Server, advise: Callable[[str], list[dict[str, Any]]]
) -> None:
    assert advise(server.create_database("advised", template="migrated")) == []


def test_the_advisors_report_planted_faults(server: Server, advise: Callable[[str], list[dict[str, Any]]]) -> None:
    url = server.create_database("faulty", template="migrated")
    with Database(url).connect() as db:
        db.execute("create table public.open (id integer primary key)")
        db.execute("grant select on public.open to anon")
        db.execute("create table internal.child (id integer primary key, open_id integer references public.open (id))")
        db.execute("create function public.loose() returns integer language sql as 'select 1'")
    found = {(finding["name"], finding["level"]) for finding in advise(url)}
    assert {
        ("rls_disabled_in_public", "ERROR"),
        ("unindexed_foreign_keys", "INFO"),
        ("function_search_path_mutable", "WARN"),
    } <= found
