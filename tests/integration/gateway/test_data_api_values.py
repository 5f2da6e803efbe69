"""Every kind of value comes back as PostgREST writes it."""

from __future__ import annotations

import json
from decimal import Decimal

import httpx
import pytest
from supabase import Client

from .process import Gateway

pytestmark = pytest.mark.usefixtures("empty_tables")

ROW = {
    "id": 1,
    "big": 9223372036854775807,
    "exact": "123456789012345678901234567890.1234567890",
    "real8": 1e300,
    "real4": 1.5,
    "flag": True,
    "words": ["a,b", 'q"q', None, "{}", "", "NULL", "back\\slash"],
    "numbers": [1, None, 3],
    "doc": {"big": 9223372036854775807, "deep": [{"f": 0.1}, None, "é\n😀"]},
    "raw": "\\x00ff10",
    "uid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "day": "2026-02-03",
    "at": "2026-11-16T02:51:00.123456+02:00",
    "local_at": "2026-11-16T00:51:00",
    "many_at": ["2026-11-16T00:51:00Z", None],
    "span": "1 day",
}
STORED = {
    **ROW,
    "exact": Decimal("123456789012345678901234567890.1234567890"),
    "real8": Decimal("1e300"),
    "real4": Decimal("1.5"),
    "doc": {"big": 9223372036854775807, "deep": [{"f": Decimal("0.1")}, None, "é\n😀"]},
    "at": "2026-11-16T00:51:00.123456+00:00",
    "many_at": ["2026-11-16T00:51:00+00:00", None],
}


def exact(response: httpx.Response) -> object:
    """Read JSON without rounding."""
    return json.loads(response.text, parse_float=Decimal)


def test_every_type_survives_insert_update_and_read(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key, "Prefer": "return=representation"}
    assert exact(http.post("/rest/v1/everything", json=ROW, headers=headers)) == [STORED]
    assert exact(http.patch("/rest/v1/everything?id=eq.1", json={**ROW, "id": 2}, headers=headers)) == [
        {**STORED, "id": 2}
    ]
    assert exact(http.get("/rest/v1/everything?select=*", headers=headers)) == [{**STORED, "id": 2}]


def test_not_a_number_and_the_infinities_are_strings(admin: Client) -> None:
    rows = [{"id": 1, "real8": "NaN", "exact": "NaN"}, {"id": 2, "real8": "Infinity", "exact": None}]
    stored = admin.table("everything").insert(rows).execute().data
    assert [(row["real8"], row["exact"]) for row in stored] == [("NaN", "NaN"), ("Infinity", None)]
    assert [row["real8"] for row in admin.table("everything").select("real8").order("id").execute().data] == [
        "NaN",
        "Infinity",
    ]


@pytest.mark.parametrize(
    "value", ["text", "12", "null", '{"a":1}', 5, 1.25, True, False, [], {}, [1, "a", None], {"a": {"b": []}}, None]
)
def test_any_json_value_fits_a_jsonb_column(admin: Client, value: object) -> None:
    stored = admin.table("everything").insert({"id": 1, "doc": value}).execute().data
    assert stored[0]["doc"] == value
    assert admin.table("everything").update({"doc": value}).eq("id", 1).execute().data[0]["doc"] == value
    assert admin.table("everything").select("doc").single().execute().data == {"doc": value}


def test_embedded_timestamps_look_like_the_others(admin: Client) -> None:
    admin.table("authors").insert({"name": "Ada"}).execute()
    book = {"author_id": 1, "title": "Alpha", "published_at": "2026-11-16T00:51:00Z", "price": "12.50"}
    direct = admin.table("books").insert(book).execute().data[0]
    embedded = admin.table("authors").select("books(published_at, price)").single().execute().data["books"][0]
    assert direct["published_at"] == embedded["published_at"] == "2026-11-16T00:51:00+00:00"
    assert direct["price"] == embedded["price"] == 12.5


def test_text_of_any_script_survives(admin: Client) -> None:
    name = "日本 é 😀 'q' \"d\" \\ \n\t end"
    assert admin.table("authors").insert({"name": name}).execute().data[0]["name"] == name
    assert admin.table("authors").select("name").eq("name", name).single().execute().data == {"name": name}
