"""POST log-agent-state."""

from __future__ import annotations

import json
import uuid

import pytest

from .api import UNKNOWN_ID, Database, Functions, ok, refused


@pytest.fixture
def rollout_id(secret: Functions, run_id: str) -> str:
    """A running rollout of a run."""
    return secret.submit(training_run_id=run_id)


def test_a_turn_its_tool_calls_and_its_reward_are_recorded(
    secret: Functions, sql: Database, rollout_id: str, run_id: str
) -> None:
    body = {
        "rollout_id": rollout_id,
        "step_number": 1,
        "observation": "You are in a room",
        "action": "go north",
        "thought": "explore",
        "memory_summary": "nothing yet",
        "tool_calls": [
            {
                "tool_name": "google_search",
                "tool_input": {"query": "red ball", "page": None},
                "tool_output": "...",
                "success": True,
                "execution_time_ms": 150,
            },
            {
                "tool_name": "open",
                "tool_output": {"status": 404, "body": None},
                "success": False,
                "error_message": "gone",
            },
        ],
        "reward": {"value": 1.0, "type": "progress", "details": {"reason": "moved"}},
    }
    answer = ok(secret.post("log-agent-state", body))
    state_id = answer["agent_state_id"]
    message = f"turn 1 of rollout {rollout_id} was recorded"
    assert answer == {"success": True, "agent_state_id": state_id, "message": message}
    assert sql.rows(
        "select rollout_id::text, training_run_id::text, step_number, observation, action, thought, memory_summary"
        " from public.agent_states where id = %s",
        state_id,
    ) == [(rollout_id, run_id, 1, "You are in a room", "go north", "explore", "nothing yet")]
    assert sql.rows(
        "select position, tool_name, tool_input, tool_output, success, error_message, execution_time_ms"
        " from public.tool_calls where agent_state_id = %s order by position",
        state_id,
    ) == [
        (0, "google_search", {"query": "red ball", "page": None}, "...", True, None, 150.0),
        (1, "open", None, '{"status":404,"body":null}', False, "gone", None),
    ]
    assert sql.rows(
        "select step_number, reward, reward_type, details from public.rewards where rollout_id = %s", rollout_id
    ) == [(1, 1.0, "progress", {"reason": "moved"})]


def test_step_zero_an_empty_observation_and_no_reward_are_valid(
    secret: Functions, sql: Database, rollout_id: str
) -> None:
    body = {"rollout_id": rollout_id, "step_number": 0, "observation": "", "tool_calls": None, "reward": None}
    state_id = ok(secret.post("log-agent-state", body))["agent_state_id"]
    assert sql.rows("select step_number, observation, action from public.agent_states where id = %s", state_id) == [
        (0, "", None)
    ]
    assert sql.one("select count(*) from public.rewards where rollout_id = %s", rollout_id) == 0


def test_an_observation_and_an_action_may_be_json_and_are_kept_as_its_text(
    secret: Functions, sql: Database, rollout_id: str
) -> None:
    body = {
        "rollout_id": rollout_id,
        "step_number": 0,
        "observation": {"room": [1, None], "é": True},
        "action": ["go", 0.5],
    }
    state_id = ok(secret.post("log-agent-state", body))["agent_state_id"]
    assert sql.rows("select observation, action from public.agent_states where id = %s", state_id) == [
        ('{"room":[1,null],"é":true}', '["go",0.5]')
    ]


def test_a_reward_need_not_be_finite_and_is_of_the_step_unless_told(
    secret: Functions, sql: Database, rollout_id: str
) -> None:
    for step, value in enumerate(("NaN", "Infinity", "-Infinity", 1e308, 12345678901234567890)):
        ok(secret.post("log-agent-state", {"rollout_id": rollout_id, "step_number": step, "reward": {"value": value}}))
    rewards = sql.rows(
        "select reward::text, reward_type from public.rewards where rollout_id = %s order by step_number", rollout_id
    )
    assert rewards == [(text, "step") for text in ("NaN", "Infinity", "-Infinity", "1e+308", "1.2345678901234567e+19")]


def test_a_repetition_changes_nothing_and_answers_the_same(secret: Functions, sql: Database, rollout_id: str) -> None:
    body = {
        "id": str(uuid.uuid4()),
        "rollout_id": rollout_id,
        "step_number": 3,
        "tool_calls": [{"tool_name": "a"}, {"tool_name": "b"}],
        "reward": {"value": 0.5},
    }
    first = ok(secret.post("log-agent-state", body))
    assert first["agent_state_id"] == body["id"]
    before = sql.fingerprint()
    assert ok(secret.post("log-agent-state", body)) == first
    assert sql.fingerprint() == before


@pytest.mark.parametrize("turn_id", [None, "11111111-2222-4333-8444-555555555555"])
def test_another_turn_with_the_same_step_number_is_a_conflict(
    secret: Functions, sql: Database, rollout_id: str, turn_id: str | None
) -> None:
    ok(secret.post("log-agent-state", {"rollout_id": rollout_id, "step_number": 2}))
    before = sql.fingerprint()
    body = {
        "id": turn_id,
        "rollout_id": rollout_id,
        "step_number": 2,
        "tool_calls": [{"tool_name": "a"}],
        "reward": {"value": 1},
    }
    message = refused(secret.post("log-agent-state", body), 409, "conflict")
    assert message.startswith(f"rollout {rollout_id} already has a turn with step_number 2;")
    assert sql.fingerprint() == before


def test_the_id_of_another_rollouts_turn_is_a_conflict(secret: Functions, sql: Database, rollout_id: str) -> None:
    turn_id = str(uuid.uuid4())
    ok(secret.post("log-agent-state", {"id": turn_id, "rollout_id": secret.submit(), "step_number": 0}))
    before = sql.fingerprint()
    body = {"id": turn_id, "rollout_id": rollout_id, "step_number": 1, "reward": {"value": 1}}
    message = refused(secret.post("log-agent-state", body), 409, "conflict")
    assert turn_id in message
    assert "cannot move" in message
    assert sql.fingerprint() == before


def test_a_reward_that_is_there_already_is_a_conflict_and_leaves_no_turn(
    secret: Functions, sql: Database, rollout_id: str
) -> None:
    sql.one(
        "insert into public.rewards (rollout_id, step_number, reward) values (%s, 4, 1) returning reward", rollout_id
    )
    before = sql.fingerprint()
    body = {"rollout_id": rollout_id, "step_number": 4, "reward": {"value": 1}}
    message = refused(secret.post("log-agent-state", body), 409, "conflict")
    assert message.startswith(f"rollout {rollout_id} already has a reward of type step for step_number 4;")
    assert sql.fingerprint() == before


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ({}, "tool_calls.1.tool_name"),
        ({"tool_name": ""}, "tool_calls.1.tool_name"),
        ({"tool_name": "b", "success": "yes"}, "tool_calls.1.success"),
        ({"tool_name": "b", "execution_time_ms": -1}, "tool_calls.1.execution_time_ms"),
        ({"tool_name": "b", "tool_input": {"a": ["\0"]}}, "tool_calls.1.tool_input.a.0"),
        ({"tool_name": "b", "tool_output": {"\ud800": 1}}, "tool_calls.1.tool_output"),
        ({"tool_name": "b", "arguments": {}}, "tool_calls.1.arguments"),
        ("search", "tool_calls.1"),
    ],
)
def test_a_bad_tool_call_is_named_and_leaves_no_turn(
    secret: Functions, sql: Database, rollout_id: str, call: object, path: str
) -> None:
    before = sql.fingerprint()
    body = {
        "rollout_id": rollout_id,
        "step_number": 5,
        "tool_calls": [{"tool_name": "a"}, call],
        "reward": {"value": 1},
    }
    response = secret.post("log-agent-state", body)
    refused(response, 400, "invalid_input")
    assert [problem["path"] for problem in response.json()["error"]["details"]] == [path]
    assert sql.fingerprint() == before


def test_a_turn_holds_as_many_tool_calls_as_positions_and_no_more(
    secret: Functions, sql: Database, rollout_id: str
) -> None:
    most = [{"tool_name": "a"}] * 32768
    message = refused(
        secret.post("log-agent-state", {"rollout_id": rollout_id, "step_number": 6, "tool_calls": [*most, most[0]]}),
        400,
        "invalid_input",
    )
    assert message == "tool_calls: at most 32768 tool calls are possible in a turn"
    state_id = ok(secret.post("log-agent-state", {"rollout_id": rollout_id, "step_number": 6, "tool_calls": most}))[
        "agent_state_id"
    ]
    assert sql.one("select max(position) from public.tool_calls where agent_state_id = %s", state_id) == 32767
    sql.one("delete from public.rollouts where id = %s returning id", rollout_id)


def test_many_bad_tool_calls_make_a_short_answer(secret: Functions, rollout_id: str) -> None:
    body = {"rollout_id": rollout_id, "step_number": 7, "tool_calls": [{}] * 1000}
    response = secret.post("log-agent-state", body)
    assert "and 980 more" in refused(response, 400, "invalid_input")
    assert len(response.content) < 10_000


def test_an_unknown_rollout_is_named(secret: Functions) -> None:
    message = refused(secret.post("log-agent-state", {"rollout_id": UNKNOWN_ID, "step_number": 0}), 404, "not_found")
    assert message == f"rollout_id {UNKNOWN_ID}: there is no such rollout"


def test_long_texts_are_kept_whole(secret: Functions, sql: Database, rollout_id: str) -> None:
    observation = "🤖 page\n" * 500_000
    content = json.dumps({"rollout_id": rollout_id, "step_number": 8, "observation": observation}, ensure_ascii=False)
    state_id = ok(secret.post("log-agent-state", content=content.encode()))["agent_state_id"]
    assert sql.one("select observation from public.agent_states where id = %s", state_id) == observation
