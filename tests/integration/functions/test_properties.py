"""Whatever is sent: no 5xx, one shape of errors, nothing half written, and the OpenAPI document is right about it."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from .api import WRITERS, Database, Functions
from .strategies import NASTY, TEXTS, encode, good_bodies, spoiled
from .test_openapi import DOCUMENT

# No shrinking: it would take minutes over HTTP, and what is generated is small.
EXAMPLES = settings(
    max_examples=150,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
MAX_DEPTH = 200
ERROR = Draft202012Validator(DOCUMENT["components"]["schemas"]["Error"])


def validator(*path: str) -> Draft202012Validator:
    """Return the check that a part of the document describes."""
    schema: Any = DOCUMENT["paths"]
    for key in path:
        schema = schema[key]
    return Draft202012Validator(schema["content"]["application/json"]["schema"], format_checker=FormatChecker())


@pytest.fixture(scope="module")
def pool(secret: Functions, sql: Database) -> dict[str, list[str]]:
    """Ids that requests can name."""
    run_id = sql.one(
        "insert into public.training_runs (name, environment, status) values ('p', 'e', 'running') returning id::text"
    )
    task_id = sql.one("insert into public.tasks (description) values ('t') returning id::text")
    step_id = sql.one("insert into public.training_steps (training_run_id, step) values (%s, 1) returning id", run_id)
    group_id = sql.one(
        "insert into public.rollout_groups (training_run_id, training_step_id, number) values (%s, %s, 1)"
        " returning id::text",
        run_id,
        step_id,
    )
    rollouts = [
        secret.submit(training_run_id=run_id),
        secret.submit(group_id=group_id, training_run_id=run_id),
        secret.submit(),
    ]
    return {"runs": [run_id], "tasks": [task_id], "groups": [group_id], "rollouts": rollouts}


def parse(content: bytes) -> Any:
    """Read JSON as strictly as the functions do."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(content, parse_constant=refuse)


def storable(value: Any, depth: int = 0) -> bool:
    """Whether Postgres can keep a value, as the functions promise."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, int):
        return abs(value) <= int(sys.float_info.max)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict | list):
        children = [*value, *value.values()] if isinstance(value, dict) else value
        return depth < MAX_DEPTH and all(storable(child, depth + 1) for child in children)
    return True


def is_documented_as_valid(name: str, content: bytes) -> bool | None:
    """Return what the document says of a body; None where this test cannot read it itself."""
    try:
        body = parse(content)
    except ValueError:
        return False
    except RecursionError:
        return None
    if not storable(body) or not validator(f"/{name}", "post", "requestBody").is_valid(body):
        return False
    if name == "metrics":
        known = {"runId", "step", "id", "timestamp"}
        return any(value is not None for key, value in body.items() if key not in known)
    return True


def check_answer(name: str, method: str, response: httpx.Response) -> None:
    """No 5xx, and the shape that the document gives for the status."""
    note(f"{response.status_code} {response.text[:500]}")
    assert response.status_code < 500
    operation = DOCUMENT["paths"][f"/{name}"][method]
    assert str(response.status_code) in operation["responses"], "a status that the document does not name"
    if response.status_code == 200:
        validator(f"/{name}", method, "responses", "200").validate(response.json())
    else:
        ERROR.validate(response.json())


def expected_rows(name: str, body: dict[str, Any]) -> dict[str, int]:
    """How many rows a successful new request adds."""
    if name == "submit-rollout":
        return {"rollouts": 1, "status_history": 1}
    if name == "log-agent-state":
        calls, reward = body.get("tool_calls") or [], body.get("reward")
        return {"agent_states": 1, "tool_calls": len(calls), "rewards": int(reward is not None)}
    if name == "metrics":
        known = {"runId", "step", "id", "timestamp"}
        return {"metric_chunks": sum(value is not None for key, value in body.items() if key not in known)}
    return {}


def drive(functions: Functions, sql: Database, name: str, content: bytes) -> httpx.Response:
    """Send a body; what is answered and what was written must agree, with each other and with the document."""
    note(f"{name} {content[:2000]!r}")
    before = sql.fingerprint()
    counts = {table: count for table, count, _ in before}
    response = functions.post(name, content=content)
    check_answer(name, "post", response)
    after = sql.fingerprint()
    valid = is_documented_as_valid(name, content)
    if response.status_code == 200:
        assert valid is not False, "the document calls it invalid"
        added = {table: count - counts[table] for table, count, _ in after}
        for table, count in expected_rows(name, parse(content)).items():
            assert added[table] == count, f"{table}: {added}"
    else:
        assert after == before, "a refused request left something behind"
    if response.status_code == 400 and valid:
        # What only the database knows: neither the request nor its run has an environment.
        assert response.json()["error"]["details"] == {"field": "environment"}, "the document calls it valid"
    return response


@pytest.mark.parametrize("name", WRITERS)
def test_valid_requests_are_taken_whole(
    secret: Functions, sql: Database, pool: dict[str, list[str]], name: str
) -> None:
    @EXAMPLES
    @given(good_bodies(name, **pool))
    def check(body: Any) -> None:
        response = drive(secret, sql, name, encode(body))
        assert response.status_code in (200, 400, 404, 409)

    check()


@pytest.mark.parametrize("name", WRITERS)
def test_spoiled_requests_break_nothing(
    secret: Functions, sql: Database, pool: dict[str, list[str]], name: str
) -> None:
    @EXAMPLES
    @given(spoiled(good_bodies(name, **pool)))
    def check(body: Any) -> None:
        drive(secret, sql, name, encode(body))

    check()


@pytest.mark.parametrize("name", WRITERS)
@settings(EXAMPLES, max_examples=30)
@given(content=st.binary(max_size=200) | NASTY.map(encode))
def test_any_bytes_break_nothing(secret: Functions, sql: Database, name: str, content: bytes) -> None:
    drive(secret, sql, name, content)


@EXAMPLES
@given(
    query=st.dictionaries(
        st.sampled_from(["training_run_id", "environment", "limit"]) | TEXTS.filter(storable),
        st.sampled_from(["", "0", "1000", "1001", "-1", "\0", "00000000-0000-4000-8000-000000000000"])
        | TEXTS.filter(storable),
        max_size=3,
    )
)
def test_any_query_breaks_nothing(secret: Functions, publishable: Functions, query: dict[str, str]) -> None:
    for caller in (secret, publishable):
        response = caller.client.get("/functions/v1/get-metrics", params=query, headers=caller.headers)
        note(f"{query!r}")
        if response.status_code in (414, 431):
            return
        check_answer("get-metrics", "get", response)


@settings(EXAMPLES, max_examples=60)
@given(data=st.data())
def test_a_turn_is_read_back_as_it_was_sent(
    secret: Functions, sql: Database, pool: dict[str, list[str]], data: st.DataObject
) -> None:
    body = data.draw(good_bodies("log-agent-state", **pool)) | {"rollout_id": secret.submit()}
    content = encode(body)
    state_id = drive(secret, sql, "log-agent-state", content).json()["agent_state_id"]
    assert sql.rows(
        "select step_number, observation, action, thought, memory_summary from public.agent_states where id = %s",
        state_id,
    ) == [tuple(body.get(field) for field in ("step_number", "observation", "action", "thought", "memory_summary"))]
    calls = sql.rows(
        "select tool_name, tool_input, success, error_message from public.tool_calls where agent_state_id = %s"
        " order by position",
        state_id,
    )
    sent = parse(content).get("tool_calls") or []
    assert rounded(calls) == [
        [call["tool_name"], rounded(call.get("tool_input")), call.get("success"), call.get("error_message")]
        for call in sent
    ]


def rounded(value: Any) -> Any:
    """A value with its numbers as doubles: 1e17 comes back as a whole number."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
