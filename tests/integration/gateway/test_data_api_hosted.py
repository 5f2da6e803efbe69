"""What a hosted project answers beyond rows: hints, headers, rights, representations of domains and the document."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from .process import Gateway, eventually

Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(gateway: Gateway, http: httpx.Client) -> Ask:
    """A request with the secret key."""

    def ask(method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"apikey": gateway.settings.secret_key, **options.pop("headers", {})}
        return http.request(method, f"/rest/v1/{path}", headers=headers, **options)

    return ask


@pytest.fixture
def paints(sql: psycopg.Connection) -> None:
    """Two paints."""
    sql.execute("truncate public.paints; insert into public.paints values (1, 255, 'blue'), (2, 65280, 'green')")


@pytest.mark.parametrize(
    ("path", "status", "code", "hint"),
    [
        ("paint", 404, "PGRST205", "Perhaps you meant the table 'public.paints'"),
        ("nothing_like_it", 404, "PGRST205", None),
        ("rpc/add_number?a=1", 404, "PGRST202", "Perhaps you meant to call the function public.add_numbers"),
        ("rpc/overloaded?a=1&c=2", 404, "PGRST202", "Perhaps you meant to call the function public.overloaded(a, b)"),
        ("books?select=author(name)", 400, "PGRST200", "Perhaps you meant 'authors' instead of 'author'."),
        ("paints?order=id.asc.nullslastt", 400, "PGRST100", None),
        ("paints?or=()", 400, "PGRST100", None),
        ("paints?select=name->>--1", 400, "PGRST100", None),
        ("paints?select=id.sum()", 400, "PGRST123", None),
    ],
)
def test_a_mistake_is_named_with_what_was_probably_meant(
    ask: Ask, path: str, status: int, code: str, hint: str | None
) -> None:
    answer = ask("GET", path)
    assert (answer.status_code, answer.json()["code"], answer.json()["hint"]) == (status, code, hint)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("paints", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ("paint_counts", "OPTIONS,GET,HEAD"),
        ("rpc/add_numbers", "OPTIONS,GET,HEAD,POST"),
        ("rpc/two_cookies", "OPTIONS,POST"),
        ("", "OPTIONS,GET,HEAD"),
    ],
)
def test_options_tell_what_may_be_asked(ask: Ask, path: str, methods: str) -> None:
    assert ask("OPTIONS", path).headers["allow"] == methods


@pytest.mark.usefixtures("paints")
def test_a_domain_with_casts_is_written_and_read_by_them(ask: Ask) -> None:
    assert ask("GET", "paints?select=shade&order=id").json() == [{"shade": "#0000ff"}, {"shade": "#00ff00"}]
    assert ask("GET", "paints?id=eq.1").json() == [{"id": 1, "shade": "#0000ff", "name": "blue"}]
    assert ask("GET", "paints?select=id&shade=eq.0000ff").json() == [{"id": 1}]
    assert ask("GET", "paints?select=id&shade=in.(00ff00,ffffff)").json() == [{"id": 2}]
    wanted = {"Prefer": "return=representation"}
    made = ask("POST", "paints?select=id,dye:shade", json={"id": 3, "shade": "#010203"}, headers=wanted)
    assert made.json() == [{"id": 3, "dye": "#010203"}]
    changed = ask("PATCH", "paints?id=eq.3&select=shade", json={"shade": "#000001"}, headers=wanted)
    assert changed.json() == [{"shade": "#000001"}]


@pytest.mark.usefixtures("paints")
def test_a_write_without_a_filter_is_refused_and_changes_nothing(ask: Ask, sql: psycopg.Connection) -> None:
    for method, body in (("PATCH", {"name": "all"}), ("DELETE", None)):
        answer = ask(method, "paints", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "21000")
    assert ask("PATCH", "paints", json=[]).status_code == 204
    assert sql.execute("select count(*), count(*) filter (where name = 'all') from public.paints").fetchone() == (2, 0)


def test_headers_say_what_was_done(ask: Ask) -> None:
    preferences = {"Prefer": "count=exact, missing=default, return=representation, resolution=merge-duplicates"}
    upserted = ask("POST", "paints", json={"id": 1, "shade": "#0000ff", "name": "blue"}, headers=preferences)
    applied = "resolution=merge-duplicates, missing=default, return=representation, count=exact"
    assert (upserted.status_code, upserted.headers["preference-applied"]) == (200, applied)
    found = ask("GET", "paints?name=eq.blue&id=eq.1")
    assert found.headers["content-location"] == "/paints?id=eq.1&name=eq.blue"
    beyond = ask("GET", "paints?offset=99", headers={"Prefer": "count=exact"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "*/2")
    stripped = ask("GET", "paints", headers={"Accept": "application/vnd.pgrst.array+json;nulls=stripped"})
    assert stripped.headers["content-type"] == "application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8"
    assert ask("POST", "rpc/two_cookies").headers.get_list("set-cookie") == ["a=1", "b=2"]


def test_a_function_may_return_a_media_type_of_its_own(ask: Ask) -> None:
    page = ask("GET", "rpc/page", headers={"Accept": "text/html"})
    assert (page.text, page.headers["content-type"]) == ("<p>hi</p>", "text/html; charset=utf-8")
    picture = ask("POST", "rpc/picture", headers={"Accept": "application/octet-stream"})
    assert (picture.content, picture.headers["content-type"]) == (b"\x00\xff\x10", "application/octet-stream")
    assert ask("GET", "rpc/page", headers={"Accept": "application/json"}).json() == "<p>hi</p>"
    assert ask("GET", "rpc/page", headers={"Accept": "image/png"}).status_code == 406


def test_arguments_come_as_csv_too(ask: Ask) -> None:
    answer = ask("POST", "rpc/add_numbers", content="a,b\n40,2", headers={"Content-Type": "text/csv"})
    assert answer.json() == 42


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"exp": "soon"}, "The JWT 'exp' claim must be a number"),
        ({"iat": []}, "The JWT 'iat' claim must be a number"),
        ({"aud": {"a": 1}}, "The JWT 'aud' claim must be a string or an array of strings"),
        ({"exp": 1}, "JWT expired"),
        ({"nbf": 99999999999}, "JWT not yet valid"),
    ],
)
def test_a_token_with_wrong_claims_is_refused_by_name(
    gateway: Gateway, http: httpx.Client, claims: dict[str, object], message: str
) -> None:
    token = gateway.settings.jwt(role="authenticated", **claims)
    headers = {"apikey": gateway.settings.publishable_key, "Authorization": f"Bearer {token}"}
    for _ in range(2):  # the second time its signature is known already
        answer = http.get("/rest/v1/authors", headers=headers)
        assert (answer.status_code, answer.json()["code"], answer.json()["message"]) == (401, "PGRST303", message)


def test_the_document_describes_what_there_is_for_the_secret_key_alone(gateway: Gateway, ask: Ask) -> None:
    answer = ask("GET", "")
    assert answer.headers["content-type"] == "application/openapi+json; charset=utf-8"
    document = answer.json()
    paints = document["definitions"]["paints"]
    assert (paints["required"], paints["description"]) == (["id"], "Paints\n\nWith their shades")
    assert paints["properties"]["name"] == {"default": "plain", "format": "text", "type": "string"}
    assert paints["properties"]["id"]["description"] == "Note:\nThis is a Primary Key.<pk/>"
    assert "authors.id" in document["definitions"]["books"]["properties"]["author_id"]["description"]
    assert document["paths"]["/paints"]["get"]["summary"] == "Paints"
    assert set(document["paths"]["/paint_counts"]) == {"get"}
    assert set(document["paths"]["/rpc/two_cookies"]) == {"post"}
    assert ask("GET", "", headers={"Accept": "text/csv"}).status_code == 406
    refused = httpx.get(f"{gateway.url}/rest/v1/", headers={"apikey": gateway.settings.publishable_key})
    assert (refused.status_code, refused.json()["message"]) == (403, "Access to schema is forbidden")


def test_no_read_ever_runs_as_anybody_but_its_caller(gateway: Gateway) -> None:
    """Statements go out with the settings ahead of them: new and known ones, on new and used connections, at once."""
    keys = [gateway.settings.publishable_key, gateway.settings.secret_key]

    def read(n: int) -> tuple[int, int]:
        headers = {"apikey": keys[n % 2]}
        # Some statements come again and are prepared, others are new each time.
        select = "id" if n % 3 else f"id,alias_{n}:name"
        answer = httpx.get(f"{gateway.url}/rest/v1/paints?select={select}&id=eq.{n % 5}", headers=headers, timeout=60)
        return n % 2, answer.status_code

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(read, range(240)))
    assert {status for key, status in answers if key == 0} == {401}
    assert {status for key, status in answers if key == 1} == {200}


def test_a_role_that_does_not_exist_costs_no_connection(gateway: Gateway, http: httpx.Client, ask: Ask) -> None:
    token = gateway.settings.jwt(role="nobody_at_all")
    headers = {"apikey": gateway.settings.publishable_key, "Authorization": f"Bearer {token}"}
    for n in range(30):  # more than there are connections, each with a statement of its own
        assert http.get(f"/rest/v1/paints?select=id,a{n}:name&id=eq.1", headers=headers).status_code == 401
        assert (
            http.patch(f"/rest/v1/paints?id=eq.{n}&name=eq.a", json={"name": "b"}, headers=headers).status_code == 401
        )
    assert ask("GET", "paints?select=id&id=eq.1").status_code == 200


def test_every_page_is_right_whether_its_statement_is_known_or_new(ask: Ask, sql: psycopg.Connection) -> None:
    sql.execute(
        "truncate public.nodes cascade; insert into public.nodes (id, name) select n, 'n' from generate_series(1, 30) n"
    )
    for offset in range(0, 30, 3):
        rows = ask("GET", f"nodes?select=id&order=id&limit=3&offset={offset}").json()
        assert [row["id"] for row in rows] == [offset + 1, offset + 2, offset + 3]


def test_a_statement_that_was_prepared_follows_a_change_of_its_columns_type(ask: Ask, sql: psycopg.Connection) -> None:
    sql.execute("drop table if exists public.changing; create table public.changing (v integer)")
    sql.execute("insert into public.changing values (7); grant select on public.changing to service_role")
    _eventually_ok(ask, "changing?v=eq.7", [{"v": 7}])
    for _ in range(40):  # on every connection that may be taken
        assert ask("GET", "changing?v=eq.7").json() == [{"v": 7}]
    sql.execute("alter table public.changing alter v type text using 'seven'")
    _eventually_ok(ask, "changing?v=eq.seven", [{"v": "seven"}])
    for _ in range(40):
        assert ask("GET", "changing?v=eq.seven").json() == [{"v": "seven"}]
    sql.execute("drop table public.changing")


def _eventually_ok(ask: Ask, path: str, rows: list[dict[str, object]]) -> None:
    eventually(lambda: ask("GET", path).json() == rows)
