"""The text of a batch holds every value as it is, or there is none."""

from __future__ import annotations

from typing import Any

import pytest

from openmanus_rl.transport.batch_text import encode_batch


def groups(text: bytes) -> list[list[list[str]]]:
    assert text.endswith(b"\x1d\x04")
    return [
        [record.split("\x1f") for record in group.split("\x1e")] for group in text.decode().split("\x1d")[:-1]
    ]  # fmt: skip


def test_values_are_written_as_postgres_reads_them() -> None:
    record = {"id": "a", "progress": 0.1, "current_step": 7, "config": {"lr": [1, None]}, "tags": ['x"\\', "{,}"]}
    (leases,), (header, row) = groups(encode_batch({"training_runs": [record | {"description": None}]}, ["l1", "l2"]))
    assert leases == ["l1,l2"]
    assert header == ["training_runs", "1", "{}", "id", "progress", "current_step", "config", "tags", "description"]
    assert row == ['{"description"}', "a", "0.1", "7", '{"lr":[1,null]}', '{"x\\"\\\\","{,}"}', "\x1c"]


def test_text_in_a_column_of_json_is_json_and_json_in_a_column_of_text_is_text() -> None:
    call = {"id": "c", "agent_state_id": "t", "tool_name": "n", "tool_input": "text", "tool_output": {"a": 1}}
    _, (header, row) = groups(encode_batch({"tool_calls": [call | {"success": True}]}))
    assert dict(zip(header[3:], row[1:], strict=True)) == call | {
        "tool_input": '"text"',
        "tool_output": '{"a":1}',
        "success": "true",
    }


def test_a_field_that_only_some_records_have_is_null_in_the_others() -> None:
    turns: list[dict[str, Any]] = [
        {"id": "1", "rollout_id": "r", "reward": 1},
        {"id": "2", "rollout_id": "r", "reward": "NaN", "thought": ""},
    ]
    _, (header, *rows) = groups(encode_batch({"agent_states": turns}))
    found = [dict(zip(header[3:], row[1:], strict=True)) for row in rows]
    assert found[0] == {"id": "1", "rollout_id": "r", "reward": "1", "thought": "\x1c"}
    assert found[1] == {"id": "2", "rollout_id": "r", "reward": "NaN", "thought": ""}


def test_parents_are_named_unless_the_batch_has_them() -> None:
    turn = {"id": "t1", "rollout_id": "r1", "step_number": 0}
    calls = [{"id": str(number), "agent_state_id": f"t{number}", "tool_name": "n"} for number in (1, 2)]
    _, of_turns, of_calls = groups(encode_batch({"agent_states": [turn], "tool_calls": calls}))
    assert (of_turns[0][2], of_calls[0][2]) == ('{"r1"}', '{"t2"}')


@pytest.mark.parametrize(
    "record",
    [
        {"thought": "a\x1fb"},
        {"thought": "a\x1eb"},
        {"thought": "a\x1db"},
        {"thought": "\x1c"},
        {"thought": "half a pair \ud800"},
        {"info": {"half": "\ud800"}},
        {"step_number": [1]},
        {"reward": {"a": 1}},
        {"chat": 5},
        {"rollout_id": [1]},
        {"id": {}},
        {"cleared": ["thought"]},
        {"unknown": 1},
        {"tool_calls": []},
    ],
    ids=str,
)
def test_what_cannot_be_text_is_not_written_as_something_else(record: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_batch({"agent_states": [{"id": "t", "rollout_id": "r"} | record]})


@pytest.mark.parametrize("batch", [{"unknown": [{"id": "a"}]}, {"rollouts": [{}]}, {"training_runs": [{"tags": [1]}]}])
def test_an_unknown_kind_or_an_empty_record_is_left_to_json(batch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_batch(batch)
