"""Every value stays the text it came as until Postgres reads it: Postgres itself is asked what is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import httpx
import psycopg
import pytest
from psycopg import sql as pieces
from supabase import Client

from .process import Gateway

ODD_TEXT = [
    *("1.10", "1.1", "12.50", "0x10", "16", "+1", "1", "1e3", "1000", "-0", "0", "9007199254740993", "1n", "1_000"),
    *("null", "NULL", "undefined", "NaN", "Infinity", "true", "false", "TRUE"),
    *("{a}", "{}", "[]", "[1]", '{"a":1}', '"Hello"', "Hello", "'Hello'", '"', "\\", '\\"', 'a\\"b', "\\N", "E'x'"),
    *(" padded ", "padded", "", " ", "\t", "line\nbreak", "a,b", "(x)", "a.b", "eq.1", "not.eq.1", "a)b", "(a,b)"),
    *(
        "a+b",
        "a&b=c",
        "a%20b",
        "100%",
        "_",
        "*",
        "--",
        "';select 1--",
        "$1",
        "$$",
        ":x",
        "?",
        "é",
        "日本",
        "😀",
        "\u2028",
    ),
]
STORED = {
    "bigint": ["9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775807", "0", "1", "16"],
    "numeric": ["1.1", "12345678901234567890.123456789", "12345678901234567890.123456788", "0.1", "1e-30", "NaN", "0"],
    "scaled": ["12.50", "9999999999.99", "9999999999.98", "0.10"],
    "double": ["0.1", "1e300", "5e-324", "9007199254740993", "NaN", "Infinity", "-0"],
    "text": ODD_TEXT,
    "varchar": ["1.10", "null", "{a}", '"Hello"', " padded ", "true"],
    "char": ["1.10", "null", "a", "a b"],
    "bool": ["true", "false"],
    "uuid": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "00000000-0000-0000-0000-000000000000"],
    "date": ["2026-02-03", "0044-03-15 BC", "infinity"],
    "timestamptz": ["2026-11-16T00:51:00.123456+02:00", "2026-11-16 00:51:00.123457+02", "infinity"],
    "interval": ["1 day", "24:00:00", "1 mon"],
    "jsonb": ['{"a": 1}', '{"a": 9007199254740993}', '"text"', "12.50", "null", "[]"],
    "texts": ['{a,"b,c"}', "{}", '{"null",NULL}', '{"{a}"}', '{"\\"q\\""}'],
    "bigints": ["{9007199254740993}", "{9007199254740992}", "{1,NULL}"],
    "mood": ["calm", "two words", "null"],
    "bytea": ["\\x00ff10", "\\x"],
    "range": ["[1,5)", "empty", "(,9007199254740993)"],
}
# The same value written in another way, and values that are not there.
ASKED = {
    "bigint": ["009007199254740993", "+9007199254740993", " 1 ", "0x10"],
    "numeric": ["1.10", "12345678901234567890.1234567890", "0.10", "10e-31"],
    "scaled": ["12.5", "12.500"],
    "char": ["1.1", "a  "],
    "bool": ["t", "off", "yes"],
    "timestamptz": ["2026-11-15T22:51:00.123456Z"],
    "jsonb": ['{"a": 9007199254740992}', "12.5"],
    "range": ["[1,4]"],
}


def quoted(value: str) -> str:
    """Quote a value as supabase clients do inside in.() and or=()."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.fixture(scope="module")
def rows(gateway: Gateway) -> Iterator[psycopg.Connection]:
    """A row for each value of each kind, put there by Postgres itself."""
    with psycopg.connect(gateway.settings.database_url, autocommit=True) as sql:
        sql.execute("truncate public.odd restart identity")
        for kind, values in STORED.items():
            insert = pieces.SQL("insert into public.odd ({}) values (%s)").format(pieces.Identifier(f"a_{kind}"))
            for value in values:
                sql.execute(insert, [value])
        yield sql
        sql.execute("truncate public.odd restart identity")


def truth(sql: psycopg.Connection, kind: str, value: str) -> list[int] | str:
    """The ids that the value has in Postgres, or the SQLSTATE of its refusal."""
    column = pieces.Identifier(f"a_{kind}")
    try:
        # An untyped literal, as in a query that was written by hand.
        query = pieces.SQL("select id from public.odd where {} = {} order by id").format(column, pieces.Literal(value))
        return [row[0] for row in sql.execute(query).fetchall()]
    except psycopg.Error as error:
        return str(error.sqlstate)


def found(answer: httpx.Response) -> list[int] | str:
    """The ids of an answer, or its code."""
    body = answer.json()
    return sorted(row["id"] for row in body) if answer.is_success else str(body["code"])


@pytest.fixture
def secret(gateway: Gateway, http: httpx.Client) -> httpx.Client:
    """HTTP to the gateway with the secret key."""
    http.headers["apikey"] = gateway.settings.secret_key
    return http


@pytest.mark.parametrize("kind", STORED)
def test_reads_find_what_postgres_finds(secret: httpx.Client, rows: psycopg.Connection, kind: str) -> None:
    column = f"a_{kind}"
    for value in [*STORED[kind], *ASKED.get(kind, [])]:
        right = truth(rows, kind, value)
        assert right or value not in STORED[kind]
        filters = [
            {column: f"eq.{value}"},
            {"or": f"({column}.eq.{quoted(value)},id.eq.-1)"},
            {"not.or": f"({column}.neq.{quoted(value)},{column}.is.null)"},
        ]
        if kind not in ("texts", "bigints"):  # Postgres has no arrays of arrays to look into
            filters.append({column: f"in.({quoted(value)})"})
            filters.append({"and": f"({column}.in.({quoted(value)},{quoted(value)}),{column}.not.is.null)"})
        for chosen in filters:
            answer = secret.get("/rest/v1/odd", params={"select": "id", **chosen})
            assert found(answer) == right, (chosen, answer.text)


@pytest.mark.parametrize("kind", STORED)
def test_changes_and_deletions_hit_what_postgres_would_hit(
    secret: httpx.Client, rows: psycopg.Connection, kind: str
) -> None:
    column = f"a_{kind}"
    for value in [*STORED[kind], *ASKED.get(kind, [])]:
        right = truth(rows, kind, value)
        params = {"select": "id", column: f"eq.{value}"}
        rows.execute("update public.odd set mark = null")
        prefer = {"Prefer": "return=representation"}
        assert found(secret.patch("/rest/v1/odd", params=params, json={"mark": "x"}, headers=prefer)) == right, value
        marked = rows.execute("select id from public.odd where mark = 'x' order by id").fetchall()
        assert [row[0] for row in marked] == (right if isinstance(right, list) else []), value
        undone = {"Prefer": "return=representation, tx=rollback"}
        assert found(secret.delete("/rest/v1/odd", params=params, headers=undone)) == right, value


@pytest.mark.parametrize("kind", STORED)
def test_values_come_back_as_postgres_writes_them(secret: httpx.Client, rows: psycopg.Connection, kind: str) -> None:
    column = f"a_{kind}"
    written = rows.execute(
        pieces.SQL(
            "select coalesce(json_agg({0} order by id), '[]')::text from public.odd where {0} is not null"
        ).format(pieces.Identifier(column))
    ).fetchone()
    assert written is not None
    answer = secret.get("/rest/v1/odd", params={"select": column, "order": "id", column: "not.is.null"})
    read = [row[column] for row in json.loads(answer.text, parse_float=Decimal)]
    assert read == json.loads(written[0], parse_float=Decimal)
    assert len(read) == len(STORED[kind])


@pytest.mark.parametrize("kind", STORED)
def test_bodies_store_what_postgres_would_store(secret: httpx.Client, rows: psycopg.Connection, kind: str) -> None:
    column = pieces.Identifier(f"a_{kind}")
    source = pieces.SQL("select id, to_json({0})::text from public.odd where {0} is not null").format(column)
    # A JSON null is no value, in a jsonb column too.
    stored = [(number, text) for number, text in rows.execute(source).fetchall() if text != "null"]
    same = pieces.SQL(
        "select count(*) from public.odd sent join public.odd stored on sent.mark = stored.id::text"
        " where sent.{0}::text = stored.{0}::text"
    ).format(column)
    body = ",".join(f'{{"mark": "{number}", "a_{kind}": {text}}}' for number, text in stored)
    headers = {"Content-Type": "application/json"}
    for prefer in ({}, {"Prefer": "missing=default"}, {"Prefer": "resolution=merge-duplicates"}):
        answer = secret.post("/rest/v1/odd", content=f"[{body}]", headers={**headers, **prefer})
        assert answer.status_code == 201, answer.text
        assert rows.execute(same).fetchone() == (len(stored),), prefer
        rows.execute("delete from public.odd where mark is not null")
    rows.execute("insert into public.odd (id) values (-1)")
    for number, text in stored:
        content = f'{{"mark": "{number}", "a_{kind}": {text}}}'
        assert secret.patch("/rest/v1/odd?id=eq.-1", content=content, headers=headers).is_success
        assert rows.execute(same).fetchone() == (1,), text
    rows.execute("delete from public.odd where id = -1")


@pytest.mark.parametrize("kind", ["bigint", "numeric", "text", "bool", "mood", "timestamptz"])
def test_arguments_reach_functions_as_they_came(secret: httpx.Client, rows: psycopg.Connection, kind: str) -> None:
    for value in [*STORED[kind], *ASKED.get(kind, [])]:
        call = pieces.SQL("select to_json(public.{}({}))::text").format(
            pieces.Identifier(f"echo_{kind}"), pieces.Literal(value)
        )
        try:
            (right,) = rows.execute(call).fetchone() or ("",)
        except psycopg.Error as error:
            right = json.dumps(error.sqlstate)
        # An argument of GET that reads like a filter is one, as on hosted projects.
        by_get = (
            [] if value in ("eq.1", "not.eq.1") else [secret.get(f"/rest/v1/rpc/echo_{kind}", params={"value": value})]
        )
        for answer in [*by_get, secret.post(f"/rest/v1/rpc/echo_{kind}", json={"value": value})]:
            got = answer.text if answer.is_success else json.dumps(answer.json()["code"])
            assert json.loads(got, parse_float=Decimal) == json.loads(right, parse_float=Decimal), (value, answer.text)


def test_numbers_in_bodies_keep_every_digit(secret: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    for name, number in (("bigint", "9007199254740993"), ("numeric", "1234567890123456789.012345678901234567890")):
        answer = secret.post(f"/rest/v1/rpc/echo_{name}", content=f'{{"value": {number}}}', headers=headers)
        assert answer.text == number


@pytest.mark.parametrize(
    ("name", "values", "right"),
    [
        ("ints", [1, None, -3], "{1,NULL,-3}"),
        ("bigints", [9007199254740993, 1], "{9007199254740993,1}"),
        ("numerics", [12345678901234567890, 0.1], "{12345678901234567890,0.1}"),
        ("uuids", ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"], "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"),
        ("jsonbs", [{"a": [1]}, "x", 5], '{"{\\"a\\": [1]}","\\"x\\"",5}'),
        ("times", ["2026-11-16T00:51:00Z"], '{"2026-11-16 00:51:00+00"}'),
        ("moods", ["calm", "two words", "null"], '{calm,"two words","null"}'),
        ("texts", ["a,b", None, "NULL", '"', "{}"], '{"a,b",NULL,"NULL","\\"","{}"}'),
        ("bools", [True, False, None], "{t,f,NULL}"),
        ("ints", [], "{}"),
        ("ints", [[1, 2], [3, 4]], "{{1,2},{3,4}}"),
    ],
)
def test_arrays_reach_functions_whole(admin: Client, name: str, values: list[object], right: str) -> None:
    assert admin.rpc(f"show_{name}", {"list": values}).execute().data == right
    if name != "jsonbs":
        literal = right if not values or name != "times" else "{2026-11-16T00:51:00Z}"
        assert admin.rpc(f"show_{name}", {"list": literal}, get=True).execute().data == right


def test_variadic_arguments_are_repeated_or_a_list(admin: Client, secret: httpx.Client) -> None:
    assert secret.get("/rest/v1/rpc/show_many?list=1&list=2&list=3").json() == "{1,2,3}"
    assert admin.rpc("show_many", {"list": [1, 2]}).execute().data == "{1,2}"


def test_a_place_in_json_is_compared_as_text(secret: httpx.Client, rows: psycopg.Connection) -> None:
    document = json.dumps(
        {"ok": True, "n": 1.10, "s": "1.10", "deep": {"a-b": ["x"]}, "sp ace": "null", "big": 2**53 + 1}
    )
    rows.execute("insert into public.odd (mark, a_jsonb) values ('json', %s)", [document])
    for path, value in (
        *(("ok", "true"), ("n", "1.1"), ("s", "1.10"), ("sp ace", "null"), ("big", "9007199254740993")),
    ):
        answer = secret.get("/rest/v1/odd", params={"select": "mark", f"a_jsonb->>{path}": f"eq.{value}"})
        assert answer.json() == [{"mark": "json"}], (path, answer.text)
    assert secret.get("/rest/v1/odd?select=mark&a_jsonb->deep->a-b->>0=eq.x").json() == [{"mark": "json"}]
    assert secret.get("/rest/v1/odd?select=mark&a_jsonb->deep->a-b->>-1=eq.x").json() == [{"mark": "json"}]
    assert secret.get("/rest/v1/odd?select=mark&a_jsonb->>big=eq.9007199254740992").json() == []
    assert secret.get("/rest/v1/odd?select=mark&a_jsonb->n=eq.1.1").json() == [{"mark": "json"}]
    rows.execute("delete from public.odd where mark = 'json'")
