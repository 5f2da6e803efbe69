"""Errors carry PostgREST's status, code, message, details and hint."""

from __future__ import annotations

import httpx
import pytest
from postgrest.exceptions import APIError
from supabase import Client

from .process import Gateway

pytestmark = pytest.mark.usefixtures("empty_tables")


@pytest.mark.parametrize(
    ("sqlstate", "status"),
    [
        ("OM400", 400),
        ("OM403", 400),
        ("OM404", 400),
        ("OM409", 400),
        ("PT409", 409),
        ("PT404", 404),
        ("P0001", 400),
        ("22023", 400),
        ("23514", 400),
        ("42501", 403),
        ("40001", 500),
        ("XX000", 500),
    ],
)
def test_a_raised_sqlstate_keeps_its_code_details_and_hint(
    gateway: Gateway, http: httpx.Client, sqlstate: str, status: int
) -> None:
    headers = {"apikey": gateway.settings.secret_key}
    answer = http.post("/rest/v1/rpc/fail_with", json={"state": sqlstate}, headers=headers)
    assert answer.status_code == status
    assert answer.json() == {
        "code": sqlstate,
        "message": "told to fail",
        "details": "the detail",
        "hint": "the hint",
    }


@pytest.mark.parametrize(
    ("table", "row", "status", "code"),
    [
        ("authors", {"name": "Ada"}, 409, "23505"),
        ("books", {"title": "x", "author_id": 99}, 409, "23503"),
        ("books", {"title": "x", "pages": -1}, 400, "23514"),
        ("books", {"pages": 1}, 400, "23502"),
        ("books", {"title": "x", "pages": "many"}, 400, "22P02"),
        ("books", {"title": "x", "pages": 99999999999}, 400, "22003"),
        ("books", {"title": "a\u0000b"}, 400, "22P05"),
        ("books", {"nope": 1}, 400, "PGRST204"),
        ("nope", {"a": 1}, 404, "PGRST205"),
    ],
)
def test_a_refused_row_says_why(
    gateway: Gateway, http: httpx.Client, admin: Client, table: str, row: object, status: int, code: str
) -> None:
    admin.table("authors").insert({"name": "Ada"}).execute()
    answer = http.post(f"/rest/v1/{table}", json=row, headers={"apikey": gateway.settings.secret_key})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert list(answer.json()) == ["code", "details", "hint", "message"]


def test_bad_json_and_bad_filters_are_400(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key, "content-type": "application/json"}
    assert http.post("/rest/v1/authors", content=b"{", headers=headers).json()["code"] == "PGRST102"
    assert http.get("/rest/v1/authors?id=eq.x", headers=headers).json()["code"] == "22P02"
    assert http.get("/rest/v1/authors?id=nope.1", headers=headers).json()["code"] == "PGRST100"
    assert http.get("/rest/v1/authors?select=nope", headers=headers).json()["code"] == "42703"


def test_what_a_role_may_not_do_is_401_without_and_403_with_a_user(
    gateway: Gateway, http: httpx.Client, anon: Client, member: Client
) -> None:
    with pytest.raises(APIError) as caught:
        anon.table("everything").select("*").execute()
    assert caught.value.code == "42501"
    apikey = {"apikey": gateway.settings.publishable_key}
    assert http.get("/rest/v1/everything", headers=apikey).status_code == 401
    token = member.auth.get_session().access_token
    answer = http.get("/rest/v1/everything", headers={**apikey, "Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["code"]) == (403, "42501")


def test_schemas_that_are_not_exposed_cannot_be_named(admin: Client) -> None:
    for schema in ("auth", "storage", "internal"):
        with pytest.raises(APIError) as caught:
            admin.schema(schema).table("users").select("*").execute()
        assert caught.value.code == "PGRST106"
