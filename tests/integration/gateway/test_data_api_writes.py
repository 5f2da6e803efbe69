"""Writing through supabase-py: inserts, upserts, updates and deletes, as on hosted Supabase."""

from __future__ import annotations

import httpx
import psycopg
import pytest
from postgrest.exceptions import APIError
from supabase import Client

from .process import Gateway

pytestmark = pytest.mark.usefixtures("empty_tables")


def test_an_insert_returns_the_stored_row_with_its_defaults(admin: Client) -> None:
    assert admin.table("authors").insert({"name": "Ada"}).execute().data == [
        {"id": 1, "name": "Ada", "born": None, "tags": []}
    ]


def test_a_minimal_insert_returns_nothing_and_is_stored(admin: Client, sql: psycopg.Connection) -> None:
    assert admin.table("authors").insert({"name": "Ada"}, returning="minimal").execute().data == []
    assert sql.execute("select name from public.authors").fetchall() == [("Ada",)]


def test_rows_with_differing_columns_take_null_or_the_default(admin: Client) -> None:
    admin.table("authors").insert({"name": "Ada"}).execute()
    rows = [{"author_id": 1, "title": "a", "pages": 3}, {"author_id": 1, "title": "b"}]
    assert [row["pages"] for row in admin.table("books").insert(rows).execute().data] == [3, None]
    mixed = [{"name": "Ben", "tags": ["x"]}, {"name": "Cid"}]
    with pytest.raises(APIError) as caught:
        admin.table("authors").insert(mixed).execute()
    assert caught.value.code == "23502", "a missing column is null, and tags may not be null"
    defaulted = admin.table("authors").insert(mixed, default_to_null=False).execute().data
    assert [row["tags"] for row in defaulted] == [["x"], []]


def test_a_generated_default_differs_for_each_row(admin: Client) -> None:
    rows = [{"id": 10, "name": "Ada"}, {"name": "Ben"}, {"name": "Cid"}]
    stored = admin.table("authors").insert(rows, default_to_null=False).execute().data
    assert len({row["id"] for row in stored}) == 3


def test_more_values_than_postgres_has_parameters_are_one_insert(admin: Client, sql: psycopg.Connection) -> None:
    rows = [{"id": i, "name": f"author {i}", "born": "2000-01-01", "tags": []} for i in range(1, 20_001)]
    admin.table("authors").insert(rows, returning="minimal").execute()
    assert sql.execute("select count(*), max(id) from public.authors").fetchone() == (20_000, 20_000)


def test_an_upsert_changes_what_conflicts_and_inserts_the_rest(admin: Client) -> None:
    admin.table("authors").insert({"name": "Ada", "tags": ["old"]}).execute()
    rows = [{"name": "Ada", "tags": ["new"]}, {"name": "Ben", "tags": []}]
    stored = admin.table("authors").upsert(rows, on_conflict="name").execute().data
    assert [(row["name"], row["tags"]) for row in stored] == [("Ada", ["new"]), ("Ben", [])]
    assert stored[0]["id"] == 1, "the row that was there"
    by_key = admin.table("authors").upsert({"id": 1, "name": "Ada L."}).execute().data
    assert by_key == [{"id": 1, "name": "Ada L.", "born": None, "tags": ["new"]}]


def test_ignored_duplicates_are_neither_changed_nor_returned(admin: Client) -> None:
    admin.table("authors").insert({"name": "Ada", "tags": ["old"]}).execute()
    rows = [{"name": "Ada", "tags": ["new"]}, {"name": "Ben", "tags": []}]
    stored = admin.table("authors").upsert(rows, on_conflict="name", ignore_duplicates=True).execute().data
    assert [row["name"] for row in stored] == ["Ben"]
    assert admin.table("authors").select("tags").eq("name", "Ada").single().execute().data == {"tags": ["old"]}


def test_one_bad_row_of_many_leaves_none(admin: Client, sql: psycopg.Connection) -> None:
    with pytest.raises(APIError) as caught:
        admin.table("authors").insert([{"name": "Ada"}, {"name": "Ben"}, {"name": "Ada"}]).execute()
    assert caught.value.code == "23505"
    assert sql.execute("select count(*) from public.authors").fetchone() == (0,)


def test_an_update_returns_the_changed_rows_only(admin: Client) -> None:
    admin.table("authors").insert([{"name": "Ada"}, {"name": "Ben"}]).execute()
    changed = admin.table("authors").update({"tags": ["x", 'q"q', "a,b"]}).eq("name", "Ben").execute().data
    assert [(row["name"], row["tags"]) for row in changed] == [("Ben", ["x", 'q"q', "a,b"])]
    assert admin.table("authors").update({"tags": []}).eq("name", "nobody").execute().data == []


def test_an_update_answered_with_an_error_changes_nothing(
    gateway: Gateway, http: httpx.Client, admin: Client, sql: psycopg.Connection
) -> None:
    admin.table("authors").insert([{"name": "Ada"}, {"name": "Ben"}]).execute()
    headers = {
        "apikey": gateway.settings.secret_key,
        "Accept": "application/vnd.pgrst.object+json",
        "Prefer": "return=representation",
    }
    answer = http.patch("/rest/v1/authors?id=gt.0", json={"born": "2000-01-01"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (406, "PGRST116")
    assert sql.execute("select count(*) from public.authors where born is not null").fetchone() == (0,)


def test_a_delete_returns_what_it_deleted(admin: Client) -> None:
    admin.table("authors").insert([{"name": "Ada"}, {"name": "Ben"}]).execute()
    deleted = admin.table("authors").delete(count="exact").eq("name", "Ada").execute()
    assert ([row["name"] for row in deleted.data], deleted.count) == (["Ada"], 1)
    assert admin.table("authors").select("name").execute().data == [{"name": "Ben"}]


def test_a_written_row_can_embed_its_parent(admin: Client, gateway: Gateway, http: httpx.Client) -> None:
    admin.table("authors").insert({"name": "Ada"}).execute()
    headers = {"apikey": gateway.settings.secret_key, "Prefer": "return=representation"}
    body = {"author_id": 1, "title": "Alpha", "details": "plain"}
    answer = http.post("/rest/v1/books?select=title,details,authors(name)", json=body, headers=headers)
    assert answer.status_code == 201
    assert answer.json() == [{"title": "Alpha", "details": "plain", "authors": {"name": "Ada"}}]


def test_a_view_with_one_table_takes_writes(admin: Client) -> None:
    stored = admin.table("long_books").insert({"title": "Long", "pages": 999}).execute().data
    assert stored[0]["title"] == "Long"
