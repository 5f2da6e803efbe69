"""Calling SQL functions through supabase-py."""

from __future__ import annotations

import httpx
import psycopg
import pytest
from postgrest.exceptions import APIError
from supabase import Client

from .process import Gateway


@pytest.mark.parametrize(
    "payload", [{"a": [1, {"b": None}]}, [1, "2", None], "text", "5", 5, 1.5, True, None, {"big": 12345678901234567890}]
)
def test_a_jsonb_argument_comes_back_as_it_was(admin: Client, payload: object) -> None:
    assert admin.rpc("echo_json", {"payload": payload}).execute().data == payload


def test_scalars_defaults_and_timestamps_are_returned_bare(admin: Client) -> None:
    assert admin.rpc("add_numbers", {"a": 2}).execute().data == 3
    assert admin.rpc("add_numbers", {"a": 2, "b": 40}).execute().data == 42
    assert admin.rpc("now_at", {}).execute().data == "2026-11-16T00:51:00.123456+00:00"


def test_void_is_204(gateway: Gateway, http: httpx.Client, admin: Client) -> None:
    admin.rpc("do_nothing", {}).execute()
    answer = http.post("/rest/v1/rpc/do_nothing", json={}, headers={"apikey": gateway.settings.secret_key})
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.usefixtures("empty_tables")
def test_sets_are_filtered_ordered_and_limited_like_tables(admin: Client) -> None:
    admin.table("books").insert([{"title": f"t{n}", "pages": n} for n in (100, 200, 300)]).execute()
    assert [row["pages"] for row in admin.rpc("long_titles", {"min_pages": 200}).execute().data] == [200, 300]
    query = admin.rpc("long_titles", {"min_pages": 1}).select("title").gt("pages", 100).order("pages", desc=True)
    assert query.limit(1).execute().data == [{"title": "t300"}]
    assert admin.rpc("pairs", {}).execute().data == [{"n": 1, "word": "one"}, {"n": 2, "word": "two"}]


@pytest.mark.usefixtures("empty_tables")
def test_a_row_is_returned_as_an_object(admin: Client) -> None:
    admin.table("authors").insert({"name": "Ada"}).execute()
    assert admin.rpc("one_author", {"wanted": "Ada"}).execute().data["id"] == 1


def test_get_reads_only(admin: Client, sql: psycopg.Connection) -> None:
    assert admin.rpc("add_numbers", {"a": 2}, get=True).execute().data == 3
    with pytest.raises(APIError) as caught:
        admin.rpc("add_author", {"author": "by GET"}, get=True).execute()
    assert caught.value.code == "25006"
    assert sql.execute("select from public.authors where name = 'by GET'").fetchall() == []


def test_an_unknown_function_or_argument_is_404(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key}
    for path, body in (("nope", {}), ("add_numbers", {"x": 1})):
        answer = http.post(f"/rest/v1/rpc/{path}", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "PGRST202")


def test_sixty_megabytes_of_json_are_one_call(admin: Client) -> None:
    payload = [{"text": "x" * 1000, "n": n} for n in range(60_000)]
    assert admin.rpc("count_items", {"payload": payload}).execute().data == 60_000


def test_functions_see_who_calls_and_how(admin: Client, anon: Client) -> None:
    secret = admin.rpc("who_am_i", {}).execute().data
    assert (secret["user"], secret["role"], secret["uid"], secret["method"]) == (
        "service_role",
        "service_role",
        None,
        "POST",
    )
    assert anon.rpc("who_am_i", {}).execute().data["user"] == "anon"
