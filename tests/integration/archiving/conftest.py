"""A finished run whose rows hold every value that could be lost on the way to a file and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openmanus_rl.archiving import Archiver
from openmanus_rl.managers.batches import write_batch
from openmanus_rl.records.ids import new_id

from ..conftest import Query, Row

TABLES = ("agent_states", "observations", "generations", "tool_calls", "rewards", "metric_axes", "metric_chunks")
STAYING = ("training_steps", "rollout_groups", "rollouts", "validations", "media", "evaluations", "model_checkpoints")
TEXTS = ["", "Grüße 世界 🌍 \u2028\x85", "tab\t back\\slash \\N \"quoted\" 'single'\r\n", "NULL", "x" * 300_000, None]
NUMBERS = ["'NaN'", "'Infinity'", "'-Infinity'", "'-0.0'", "5e-324", "1.7976931348623157e308", "0.1", "null"]
BIG = '{"n": 123456789012345678901234567890.1234567890, "z": 1.00, "e": 1e300, "nested": [null, [], {}, ""]}'
MOMENTS = [
    "0001-01-01 00:00:00+00",
    "9999-12-31 23:59:59.999999+00",
    "2026-03-29 01:30:00.000001+01",
    "1969-12-31 23:59:59.999999+00",
]
DIGEST = (
    "select md5(coalesce(string_agg(t::text, e'\\n' order by t.id), '')) as digest, count(*) as rows from {} t where {}"
)

Record = Callable[..., str]


@pytest.fixture
def archiver(_stack_settings: None, stack: Any) -> Iterator[Archiver]:
    with Archiver(stack.database_url) as made:
        yield made


@pytest.fixture
def record(_stack_settings: None, query: Query) -> Record:
    """Return a function that records a finished run and returns its id."""

    def run(rollouts: int = 6, turns: int = 4, **fields: Any) -> str:
        return _record(query, rollouts, turns, fields)

    return run


def digests(query: Query, run_id: str, tables: tuple[str, ...] = TABLES) -> dict[str, Row]:
    """Return a digest of the run's rows of each table, as the database prints them."""
    query("select set_config('timezone', 'UTC', false)")
    found = {}
    for table in tables:
        schema = "internal" if table == "rewards" else "public"
        # Rewards of whole rollouts stay.
        condition = "t.training_run_id = %s" + (" and t.step_number is not null" if table == "rewards" else "")
        found[table] = query(DIGEST.format(f"{schema}.{table}", condition), run_id)[0]
    return found


def _record(query: Query, rollouts: int, turns: int, fields: dict[str, Any]) -> str:
    run_id, step_id, group_id = new_id(), new_id(), new_id()
    ids = sorted(new_id() for _ in range(rollouts))
    run = {"id": run_id, "name": "old", "algorithm": "grpo", "environment": "house", "status": "running", **fields}
    batch: dict[str, list[Row]] = {
        "training_runs": [run],
        "training_steps": [{"id": step_id, "training_run_id": run_id, "step": 3, "status": "completed"}],
        "rollout_groups": [{"id": group_id, "training_step_id": step_id, "number": 0}],
        "model_checkpoints": [
            {"id": new_id(), "training_run_id": run_id, "checkpoint_number": 1, "step": 3, "storage_path": "a/c.pt"}
        ],
        "rollouts": [
            {"id": one, "group_id": group_id, "episode_number": at, "status": "success" if at % 2 else "failed",
             "total_reward": at / 3, "step_count": turns}
            for at, one in enumerate(ids)
        ],
        "validations": [{"id": new_id(), "rollout_id": one, "verdict": "pass"} for one in ids[:1]],
        "metric_chunks": _metrics(run_id),
    }  # fmt: skip
    assert not write_batch(batch).refused
    for place, one in enumerate(ids):
        _add_turns(query, run_id, one, turns, place * turns)
    query(
        "update public.training_runs set status = 'completed', finished_at = now() - interval '200 days' where"
        " id = %s returning 1",
        run_id,
    )
    return run_id


def _metrics(run_id: str) -> list[Row]:
    axis = new_id()
    times = [f"2026-01-01T00:00:{at:02d}.123456+00:00" for at in range(40)]
    steps = list(range(40))
    loss = [*("NaN", "Infinity", "-Infinity"), *[1 / (at + 1) for at in range(37)]]
    return [
        {"id": new_id(), "training_run_id": run_id, "name": name, **points}
        for name, points in {
            "loss": {"axis_id": axis, "steps": steps, "times": times, "values": loss},
            "reward/mean": {"axis_id": axis, "values": steps},
            "own axis": {"steps": [5, 2, 9], "times": times[:3], "values": [0.1, 2, 3]},
        }.items()
    ]  # fmt: skip


def _add_turns(query: Query, run_id: str, rollout_id: str, turns: int, first: int) -> None:
    for step in range(turns):
        at = first + step
        turn, text, number = new_id(), TEXTS[at % len(TEXTS)], NUMBERS[at % len(NUMBERS)]
        moment = MOMENTS[at % len(MOMENTS)]
        query(
            "insert into public.agent_states (id, rollout_id, training_run_id, step_number, reward,"
            " observation, action, thought,"
            f" messages, messages_from, chat, model_response, info, duration_ms, created_at) values (%s, %s,"
            f" %s, %s, {number}, %s, %s, %s,"
            " %s::jsonb, 0, %s, %s::jsonb, %s::jsonb, %s, %s) returning 1",
            turn, rollout_id, run_id, step, text, TEXTS[(at + 1) % len(TEXTS)], TEXTS[(at + 2) % len(TEXTS)],
            json.dumps([{"role": "user", "content": "é"}]), [] if at % 2 else [0, 1], BIG,
            None if at % 3 else "null", 0.1, moment,
        )  # fmt: skip
        query(
            "insert into public.tool_calls (id, agent_state_id, training_run_id, position, tool_name,"
            " tool_input, tool_output, success,"
            " execution_time_ms, created_at) values (%s, %s, %s, 0, %s, %s::jsonb, %s, %s, %s, %s) returning 1",
            new_id(), turn, run_id, "search" if at % 3 else "open", BIG, text, [True, False, None][at % 3],
            1e-7, moment,
        )  # fmt: skip
        query(
            "insert into public.generations (id, agent_state_id, training_run_id, position, policy_version,"
            " prompt_ids, tokens_from, completion_ids,"
            " logprobs, mask, advantages) values (%s, %s, %s, 0, 9007199254740993, '{}', 0, '{1,2,2147483647}',"
            " '{-0.1,NaN,NULL}', '{t,NULL,f}',"
            " '{-0}') returning 1",
            new_id(), turn, run_id,
        )  # fmt: skip
        query(
            "insert into public.observations (id, agent_state_id, training_run_id, kind, text) values (%s, %s,"
            " %s, 'page', %s) returning 1",
            new_id(), turn, run_id, text,
        )  # fmt: skip
        query(
            "insert into internal.rewards (id, rollout_id, training_run_id, step_number, reward_type, reward,"
            " details)"
            " values (%s, %s, %s, %s, 'format', '-0', %s::jsonb) returning 1",
            new_id(), rollout_id, run_id, None if step == 0 else step, BIG,
        )  # fmt: skip
        query(
            "insert into public.media (id, training_run_id, rollout_id, agent_state_id, kind, path) values (%s,"
            " %s, %s, %s, 'frame', 'a/b.png') returning 1",
            new_id(), run_id, rollout_id, turn,
        )  # fmt: skip
