"""What every function does with a request, whatever it is for."""

from __future__ import annotations

import json

import httpx
import pytest

from .api import WRITERS, Database, Functions, ok, refused

METHODS = dict.fromkeys(WRITERS, "POST") | {"get-metrics": "GET", "health": "GET", "openapi": "GET"}
LIMIT_BYTES = 16 * 1024 * 1024


@pytest.mark.parametrize(("name", "method"), METHODS.items())
def test_a_browser_may_ask_first_without_a_key(http: httpx.Client, name: str, method: str) -> None:
    asked = {
        "origin": "https://example.com",
        "access-control-request-method": method,
        "access-control-request-headers": "apikey, authorization, content-type",
    }
    response = http.options(f"/functions/v1/{name}", headers=asked)
    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == "*"
    assert method in response.headers["access-control-allow-methods"]
    allowed = response.headers["access-control-allow-headers"]
    assert all(header in allowed for header in ("authorization", "apikey", "content-type", "x-client-info"))


@pytest.mark.parametrize(("name", "method"), METHODS.items())
def test_another_method_is_answered_with_the_right_one(secret: Functions, name: str, method: str) -> None:
    for other in {"GET", "POST", "PUT", "PATCH", "DELETE"} - {method}:
        response = secret.client.request(other, f"/functions/v1/{name}", headers=secret.headers)
        assert refused(response, 405, "method_not_allowed") == f"use {method}"
        assert response.headers["allow"] == f"{method}, OPTIONS"


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the body is empty"),
        (b"  \n", "the body is empty"),
        (b"{", "the body is not JSON"),
        (b"{'episode_number': 1}", "the body is not JSON"),
        (b'{"episode_number": NaN}', "the body is not JSON"),
        (b"episode_number=1", "the body is not JSON"),
        (b'{"a": 1} trailing', "the body is not JSON"),
        (b'{"a": "\xff\xfe"}', "the body is not UTF-8"),
        (b"[]", "the body is not an object"),
        (b"null", "the body is not an object"),
        (b'"text"', "the body is not an object"),
        (b"12345678901234567890", "the body is not an object"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(secret: Functions, name: str, content: bytes, message: str) -> None:
    assert refused(secret.post(name, content=content), 400, "invalid_input").startswith(message)


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"]
)
def test_json_is_taken_whatever_it_calls_itself(secret: Functions, content_type: str | None) -> None:
    # curl -d sends a form's content type unless told otherwise.
    headers = dict(secret.headers) | ({"content-type": content_type} if content_type else {})
    body = json.dumps({"episode_number": 0, "environment": "alfworld"}).encode()
    ok(secret.post("submit-rollout", content=body, headers=headers))


@pytest.mark.parametrize("name", WRITERS)
def test_a_body_over_the_limit_is_refused(secret: Functions, sql: Database, name: str) -> None:
    before = sql.fingerprint()
    message = refused(secret.post(name, content=b" " * (LIMIT_BYTES + 1)), 413, "too_large")
    assert message == f"the body exceeds {LIMIT_BYTES} bytes"
    assert sql.fingerprint() == before


def test_a_body_that_does_not_say_its_length_is_measured(secret: Functions) -> None:
    def chunks() -> object:
        for _ in range(17):
            yield b" " * 1024 * 1024

    refused(secret.post("metrics", content=chunks()), 413, "too_large")


def test_a_body_up_to_the_limit_is_taken(secret: Functions) -> None:
    body = json.dumps({"episode_number": 0, "environment": "alfworld", "task_description": ""})
    padding = "x" * (LIMIT_BYTES - len(body))
    ok(secret.post("submit-rollout", content=body.replace('""', f'"{padding}"').encode()))


def test_of_a_key_given_twice_the_last_counts(secret: Functions, sql: Database) -> None:
    content = b'{"episode_number": 1, "episode_number": 2, "environment": "alfworld"}'
    rollout_id = ok(secret.post("submit-rollout", content=content))["rollout_id"]
    assert sql.one("select episode_number from public.rollouts where id = %s", rollout_id) == 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"a\\u0000b"', "metadata.x: has a NUL character (\\u0000), which Postgres cannot keep; remove it"),
        ('{"k\\u0000": 1}', "metadata.x: a key has a NUL character"),
        ('"\\ud83d"', "metadata.x: has half of a surrogate pair"),
        ('["\\udd34\\ud83d"]', "metadata.x.0: has half of a surrogate pair"),
        ("1e400", "metadata.x: the number is too large"),
        ("-" + "9" * 400, "metadata.x: the number is too large"),
        ("[" * 250 + "]" * 250, "metadata: is nested deeper than 200 levels"),
        ("[" * 100_000 + "]" * 100_000, "metadata: is nested deeper than 200 levels"),
    ],
)
def test_what_postgres_cannot_keep_is_named(secret: Functions, sql: Database, value: str, message: str) -> None:
    before = sql.fingerprint()
    content = f'{{"episode_number": 0, "environment": "alfworld", "metadata": {{"x": {value}}}}}'
    assert refused(secret.post("submit-rollout", content=content), 400, "invalid_input").startswith(message)
    assert sql.fingerprint() == before


def test_what_postgres_can_keep_is_kept(secret: Functions, sql: Database) -> None:
    metadata = {
        "🔴": "\U0001f534\u2028\uffff\x01\x7f",
        "constructor": 1,
        "__proto__": {"a": None},
        "deep": json.loads("[" * 190 + "]" * 190),
        "numbers": [0, 1e-320, 5e-324, 2**63, -(10**40), 0.1],
        "": "",
    }
    rollout_id = secret.submit(metadata=metadata)
    assert sql.one("select metadata from public.rollouts where id = %s", rollout_id) == metadata


def test_an_unknown_function_is_not_found(secret: Functions) -> None:
    for name in ("nothing", "constructor", "_shared", "_openapi"):
        assert secret.post(name, {}).status_code == 404
