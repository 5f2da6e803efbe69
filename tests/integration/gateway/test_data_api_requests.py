"""What clients send every day: conditions, preferences, empty rows, odd names, HEAD, as on hosted Supabase."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import psycopg
import pytest
from supabase import Client

from .process import Gateway

EMPTY = "truncate public.authors, public.books, public.reviews, public.defaulted restart identity cascade"
TITLES = ["Alpha", "Beta, part 1", 'The "quoted"', "100%", "a*b", "back\\slash", "(round)", "dot.ted", "Ünï"]


@pytest.fixture(scope="module")
def sql(gateway: Gateway) -> Iterator[psycopg.Connection]:
    """Some books, and the database itself."""
    with psycopg.connect(gateway.settings.database_url, autocommit=True) as connection:
        connection.execute(
            "truncate public.authors, public.books, public.reviews, public.defaulted restart identity cascade"
        )
        for title in TITLES:
            connection.execute("insert into public.books (title) values (%s)", [title])
        yield connection
        connection.execute(
            "truncate public.authors, public.books, public.reviews, public.defaulted restart identity cascade"
        )


@pytest.fixture
def secret(gateway: Gateway, http: httpx.Client, sql: psycopg.Connection) -> httpx.Client:
    """HTTP to the gateway with the secret key."""
    assert sql
    http.headers["apikey"] = gateway.settings.secret_key
    return http


@pytest.mark.parametrize(
    ("key", "value", "titles"),
    [
        ("or", '(title.ilike."%ALPHA%",title.eq."dot.ted")', ["Alpha", "dot.ted"]),
        ("or", '(title.eq."Beta, part 1",title.eq."(round)")', ["Beta, part 1", "(round)"]),
        ("or", '(title.eq."The \\"quoted\\"",title.eq."back\\\\slash")', ['The "quoted"', "back\\slash"]),
        ("or", '(title.like.*quoted*,title.like."*part*")', ["Beta, part 1", 'The "quoted"']),
        ("or", '(title.in.(Alpha,"Beta, part 1"),title.is.null)', ["Alpha", "Beta, part 1"]),
        ("and", "(title.neq.Alpha,or(title.like.A*,title.eq.dot.ted))", ["dot.ted"]),
        ("not.and", "(title.neq.Alpha,title.neq.dot.ted)", ["Alpha", "dot.ted"]),
        ("and", "(not.or(title.neq.Alpha,title.eq.x),title.not.is.null)", ["Alpha"]),
        ("title", "like(any).{Al*,*ted}", ["Alpha", "dot.ted"]),
        ("title", "ilike(all).{*A*,*PH*}", ["Alpha"]),
        ("title", "not.ilike(any).{*a*,*o*,*u*,*1*}", ["Ünï"]),
        ("title", 'like(any).{"Beta, p*",(r*}', ["Beta, part 1", "(round)"]),
        ("title", "eq(any).{Alpha,dot.ted}", ["Alpha", "dot.ted"]),
        ("or", "(title.like(any).{Al*,*ted},title.eq.x)", ["Alpha", "dot.ted"]),
        ("title", "like.a\\*b", []),
        ("title", "match.^[A(]", ["Alpha", "(round)"]),
        ("title", "imatch.ÜNÏ", ["Ünï"]),
        ("title", "fts.alpha", ["Alpha"]),
        ("title", "wfts(english).part -quoted", ["Beta, part 1"]),
        ("title", 'in.("The \\"quoted\\"","back\\\\slash",100%)', ['The "quoted"', "100%", "back\\slash"]),
        ("title", "in.()", []),
        ("pages", "isdistinct.1", TITLES),
        ("pages", "is.NULL", TITLES),
        ("id", "gt(all).{1,8}", ["Ünï"]),
    ],
)
def test_conditions_are_read_as_written(secret: httpx.Client, key: str, value: str, titles: list[str]) -> None:
    answer = secret.get("/rest/v1/books", params={"select": "title", "order": "id", key: value})
    assert answer.is_success, answer.text
    assert [row["title"] for row in answer.json()] == titles


@pytest.mark.parametrize(
    "query",
    [
        *(
            "title=nope.x",
            "title=eq",
            "title=",
            "id=is.5",
            "id=in.1",
            "id=in.(1",
            "id=in.(1)x",
            "or=(id.eq.1",
            "or=id.eq.1",
        ),
        *(
            "or=()",
            "select=id,(x)",
            "select=id(",
            "select=a:",
            "order=id.up",
            "order=id.asc.desc",
            "select=id::",
            "a->=eq.1",
        ),
        *(
            "select=id::text;drop",
            'select="id',
            "columns=",
            "on_conflict=",
            "id=eq(some).1",
            "id=cs(any).1",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(secret: httpx.Client, query: str) -> None:
    answer = secret.get(f"/rest/v1/books?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "PGRST100"), answer.text
    assert set(answer.json()) == {"code", "message", "details", "hint"}


@pytest.mark.parametrize("name", ['id" or 1=1 --', "id'", "id;", 'a"b', "\u0000", "pg_sleep(1)"])
def test_no_name_is_taken_for_sql(secret: httpx.Client, name: str) -> None:
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    for parameters in ({"select": quoted}, {quoted: "eq.1"}, {"order": quoted}, {"select": f"x:details->>{quoted}"}):
        answer = secret.get("/rest/v1/books", params=parameters)
        assert answer.is_success or answer.json()["code"] in ("42703", "42P01", "PGRST100", "42601"), answer.text
    assert len(secret.get("/rest/v1/books").json()) == len(TITLES)


def test_an_empty_row_takes_every_default(secret: httpx.Client, sql: psycopg.Connection) -> None:
    returned = {"Prefer": "return=representation"}
    one = secret.post("/rest/v1/defaulted?select=note", json={}, headers=returned)
    assert (one.status_code, one.json()) == (201, [{"note": "none"}])
    for rows in ([{}], [{}, {}]):
        many = secret.post("/rest/v1/defaulted?select=note", json=rows, headers=returned)
        assert (many.status_code, many.json()) == (201, [{"note": "none"}] * len(rows))
    assert secret.post("/rest/v1/defaulted", json={}).status_code == 201
    nothing = secret.post("/rest/v1/defaulted", json=[], headers=returned)
    assert (nothing.status_code, nothing.json()) == (201, [])
    assert sql.execute("select count(*) from public.defaulted").fetchone() == (5,)
    unchanged = secret.patch("/rest/v1/defaulted?id=gt.0", json={}, headers=returned)
    assert (unchanged.status_code, unchanged.json()) == (200, [])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "PGRST102"),
        (b"{", "PGRST102"),
        (b'[{"title": "a"}, {"pages": 1}]', "PGRST102"),
        (b'[{"title": "a"}, 5]', "PGRST102"),
        (b'{"title": "\xff"}', "PGRST102"),
    ],
)
def test_a_body_that_is_no_rows_is_refused(secret: httpx.Client, body: bytes, code: str) -> None:
    answer = secret.post("/rest/v1/books", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_rollback_is_one_and_is_told(secret: httpx.Client, sql: psycopg.Connection) -> None:
    prefer = {"Prefer": "tx=rollback, return=representation"}
    answer = secret.post("/rest/v1/authors?select=name", json={"name": "gone"}, headers=prefer)
    assert (answer.status_code, answer.json()) == (201, [{"name": "gone"}])
    assert "tx=rollback" in answer.headers["preference-applied"]
    assert secret.post("/rest/v1/rpc/add_author", json={"author": "gone too"}, headers=prefer).is_success
    assert secret.delete("/rest/v1/books?id=gt.0", headers=prefer).is_success
    assert sql.execute("select count(*) from public.authors").fetchone() == (0,)
    assert sql.execute("select count(*) from public.books").fetchone() == (len(TITLES),)
    kept = secret.post("/rest/v1/authors", json={"name": "kept"}, headers={"Prefer": "tx=commit"})
    assert kept.headers["preference-applied"] == "tx=commit"
    assert sql.execute("delete from public.authors returning name").fetchall() == [("kept",)]


def test_preferences_that_were_followed_are_told(secret: httpx.Client, sql: psycopg.Connection) -> None:
    every = {"Prefer": "handling=strict, max-affected=1, return=representation, count=exact"}
    many = secret.patch("/rest/v1/books?id=gt.0", json={"pages": 5}, headers=every)
    assert (many.status_code, many.json()["code"]) == (400, "PGRST124")
    assert sql.execute("select count(*) from public.books where pages = 5").fetchone() == (0,)
    one = secret.patch("/rest/v1/books?id=eq.1&select=pages", json={"pages": 5}, headers=every)
    assert (one.json(), one.headers["content-range"]) == ([{"pages": 5}], "0-0/1")
    assert set(one.headers["preference-applied"].split(", ")) == set(every["Prefer"].split(", "))
    sql.execute("update public.books set pages = null")
    strict = secret.get("/rest/v1/books", headers={"Prefer": "handling=strict, colour=red"})
    assert (strict.status_code, strict.json()["code"]) == (400, "PGRST122")
    assert secret.get("/rest/v1/books", headers={"Prefer": "colour=red"}).status_code == 200
    local = secret.get("/rest/v1/rpc/now_at", headers={"Prefer": "timezone=Asia/Kolkata"})
    assert local.json() == "2026-11-16T06:21:00.123456+05:30"
    offset = secret.get("/rest/v1/rpc/now_at", headers={"Prefer": "timezone=+05:30"})
    assert (offset.json(), "preference-applied" in offset.headers) == ("2026-11-16T00:51:00.123456+00:00", False)


def test_a_new_row_is_located_and_a_known_one_is_replaced(secret: httpx.Client, sql: psycopg.Connection) -> None:
    headers_only = {"Prefer": "return=headers-only"}
    made = secret.post("/rest/v1/shelves", json={"id": 7, "place": "cellar"}, headers=headers_only)
    assert (made.status_code, made.headers["location"], made.content) == (201, "/shelves?id=eq.7", b"")
    full = {"Prefer": "return=representation"}
    replaced = secret.put("/rest/v1/shelves?id=eq.7", json={"id": 7, "place": "loft"}, headers=full)
    assert (replaced.status_code, replaced.json()) == (200, [{"id": 7, "place": "loft"}])
    new = secret.put("/rest/v1/shelves?id=eq.8", json={"id": 8, "place": "hall"}, headers=full)
    assert new.status_code == 201
    wrong = secret.put("/rest/v1/shelves?id=eq.9", json={"id": 10, "place": "hall"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "PGRST115")
    assert secret.put("/rest/v1/shelves?place=eq.x", json={"id": 1, "place": "x"}).json()["code"] == "PGRST105"
    merged = secret.post(
        "/rest/v1/shelves", json={"id": 8, "place": "shed"}, headers={"Prefer": "resolution=merge-duplicates"}
    )
    assert merged.status_code == 200
    left = sql.execute("delete from public.shelves where id in (7, 8) returning id, place").fetchall()
    assert sorted(left) == [(7, "loft"), (8, "shed")]


def test_estimates_are_numbers(secret: httpx.Client) -> None:
    for count in ("planned", "estimated"):
        answer = secret.get("/rest/v1/books?select=id", headers={"Prefer": f"count={count}"})
        assert answer.is_success
        assert int(answer.headers["content-range"].split("/")[1]) > 0


def test_names_of_any_case_and_reserved_ones_are_called(admin: Client, secret: httpx.Client) -> None:
    arguments = {"someArg": 1, "user": "me", "a b": "c"}
    assert admin.rpc("camelCase", arguments).execute().data == "1/me/c"
    assert admin.rpc("camelCase", {"someArg": 1, "user": "me"}, get=True).execute().data == "1/me/d"
    assert secret.post("/rest/v1/rpc/select", json={"order": 5}).json() == 5
    row = {"someId": 1, "order": "x", "a,b": "y"}
    assert secret.post("/rest/v1/Camel%20Case", json=row, headers={"Prefer": "return=representation"}).json() == [row]
    parameters = {"select": '"someId","a,b"', "order": '"order".desc', "someId": "eq.1", '"a,b"': "eq.y"}
    assert secret.get("/rest/v1/Camel%20Case", params=parameters).json() == [{"someId": 1, "a,b": "y"}]
    deleted = secret.delete("/rest/v1/Camel%20Case?someId=eq.1", headers={"Prefer": "return=representation"})
    assert deleted.json() == [row]


def test_head_is_get_without_a_body(secret: httpx.Client) -> None:
    for path in ("rpc/add_numbers?a=2", "rpc/pairs", "rpc/do_nothing", "books?select=id&limit=1"):
        head = secret.head(f"/rest/v1/{path}", headers={"Prefer": "count=exact"})
        get = secret.get(f"/rest/v1/{path}", headers={"Prefer": "count=exact"})
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-range"] == get.headers["content-range"]
        # Of rows that nobody wrote the length is not known, and 0 would be wrong.
        assert "content-length" not in head.headers
    assert "content-length" not in secret.head("/rest/v1/").headers
    for path, status in (("rpc/add_author?author=x", 405), ("rpc/nope", 404), ("books?id=eq.x", 400)):
        head, get = secret.head(f"/rest/v1/{path}"), secret.get(f"/rest/v1/{path}")
        assert (head.status_code, head.content) == (status, b"")
        if status != 405:
            assert head.headers["content-length"] == get.headers["content-length"]


def test_functions_are_chosen_by_their_arguments(secret: httpx.Client) -> None:
    assert secret.post("/rest/v1/rpc/overloaded", json={"a": 1}).json() == "one"
    assert secret.post("/rest/v1/rpc/overloaded", json={"a": 1, "b": 2}).json() == "two"
    assert secret.post("/rest/v1/rpc/overloaded", json={"b": 2}).status_code == 404
    assert secret.post("/rest/v1/rpc/whole_body", json={"any": ["thing"]}).json() == {"any": ["thing"]}
    text = secret.post("/rest/v1/rpc/whole_text", content="plain", headers={"Content-Type": "text/plain"})
    assert text.json() == "plain"
    assert secret.get("/rest/v1/rpc/numbers?upto=3").json() == [1, 2, 3]
    page = secret.get("/rest/v1/rpc/numbers?upto=9&limit=2&offset=4", headers={"Prefer": "count=exact"})
    assert (page.status_code, page.json(), page.headers["content-range"]) == (206, [5, 6], "4-5/9")
    assert secret.post("/rest/v1/rpc/echo_char", json={"value": "whole"}).json() == "whole"
    assert secret.put("/rest/v1/rpc/numbers", json={}).json()["code"] == "PGRST101"


def test_of_several_orders_the_first_counts(secret: httpx.Client) -> None:
    ordered = secret.get("/rest/v1/books?select=id&id=in.(1,2,3)&order=id.desc&order=id.asc")
    assert [row["id"] for row in ordered.json()] == [3, 2, 1]


def test_a_name_without_a_value_says_nothing(secret: httpx.Client) -> None:
    assert secret.get("/rest/v1/books?select=id&id=eq.1&order&nope&select").json() == [{"id": 1}]
    assert secret.get("/rest/v1/rpc/add_numbers?a=2&b&nope").json() == 3
    assert secret.get("/rest/v1/books?id=eq.1&nope=").status_code == 400


def test_an_argument_that_begins_as_a_condition_is_read_as_one(secret: httpx.Client) -> None:
    def said(value: str) -> object:
        answer = secret.get("/rest/v1/rpc/echo_char", params={"value": value})
        return answer.json() if answer.is_success else answer.json()["code"]

    assert [said(value) for value in ("in", "is it", "nothing.x", "like")] == ["in", "is it", "nothing.x", "like"]
    assert [said(value) for value in ("in.side", "is.it", "not.me")] == ["PGRST100"] * 3


def test_a_function_chooses_its_answer(secret: httpx.Client) -> None:
    answer = secret.post("/rest/v1/rpc/choose_answer", json={})
    assert (answer.status_code, answer.headers["x-chosen"], answer.json()) == (418, "yes", {"tea": True})


def test_nothing_is_kept_of_a_call_whose_answer_cannot_be_sent(secret: httpx.Client, sql: psycopg.Connection) -> None:
    def kept(headers: str, status: str) -> tuple[httpx.Response, bool]:
        answer = secret.post("/rest/v1/rpc/keep_and_choose", json={"headers": headers, "status": status})
        return answer, sql.execute('delete from public."мысли"').rowcount == 1

    for headers, status, code in (
        ("{}", "200", "PGRST111"),
        ('[{"no name": "x"}]', "200", "PGRST111"),
        ('[{"X-Chosen": "a\\nb"}]', "200", "PGRST111"),
        ("[]", "99", "PGRST112"),
    ):
        answer, is_kept = kept(headers, status)
        assert (answer.status_code, answer.json()["code"], is_kept) == (500, code, False)
    answer, is_kept = kept('[{"X-Chosen": "имя"}]', "201")
    sent = {name.lower(): value.decode() for name, value in answer.headers.raw}
    assert (answer.status_code, sent[b"x-chosen"], is_kept) == (201, "имя", True)


def test_a_new_row_is_located_in_a_table_of_any_name(secret: httpx.Client, sql: psycopg.Connection) -> None:
    made = secret.post("/rest/v1/мысли", json={"id": 7}, headers={"Prefer": "return=headers-only"})
    assert (made.status_code, made.headers["location"]) == (201, f"/{quote('мысли')}?id=eq.7")
    assert secret.get(f"/rest/v1{made.headers['location']}").json() == [{"id": 7}]
    sql.execute('delete from public."мысли"')


@pytest.mark.parametrize("first", [0, 2**64])
def test_a_range_of_any_length_is_read(secret: httpx.Client, first: int) -> None:
    found = secret.get("/rest/v1/мысли", headers={"Range": f"{first}-{2**65}"})
    assert (found.status_code, found.json()) == (200, [])


def test_rows_in_other_forms(secret: httpx.Client) -> None:
    accept = {"Accept": "application/vnd.pgrst.array+json;nulls=stripped"}
    assert secret.get("/rest/v1/books?select=id,pages&id=eq.1", headers=accept).json() == [{"id": 1}]
    assert secret.get("/rest/v1/books", headers={"Accept": "image/png"}).json()["code"] == "PGRST107"
    page = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    assert secret.get("/rest/v1/books?select=id&id=eq.1", headers=page).json() == [{"id": 1}]
    csv = {"Content-Type": "text/csv", "Prefer": "return=representation"}
    body = 'title,pages\n"a ""b"", c",3\nd,NULL\n'
    made = secret.post("/rest/v1/books?select=title,pages", content=body, headers=csv)
    assert made.json() == [{"title": 'a "b", c', "pages": 3}, {"title": "d", "pages": None}]
    # The names of columns in the address are for JSON alone.
    form = {"Content-Type": "application/x-www-form-urlencoded", "Prefer": "return=representation"}
    for content, headers in (("title,pages\nnamed,4\n", csv), ("title=named&pages=4", form)):
        made = secret.post("/rest/v1/books?columns=title&select=title,pages", content=content, headers=headers)
        assert made.json() == [{"title": "named", "pages": 4}]
        assert secret.delete("/rest/v1/books?title=eq.named").status_code == 204
    long = "x" * 2_000_000 + '""' * 1_000_000
    row = f'id,owner,body\n77,NULL,"{long}"\n'
    assert secret.post("/rest/v1/notes?select=body", content=row, headers=csv).json() == [
        {"body": long.replace('""', '"')}
    ]
    assert secret.delete("/rest/v1/notes?id=eq.77").status_code == 204
    assert secret.delete('/rest/v1/books?title=in.(d,"a \\"b\\", c")').status_code == 204
