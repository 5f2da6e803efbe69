"""A few hundred recorded rollouts, and the command that exports them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.managers.batches import write_batch
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row

from ..conftest import Command

# More than two pages of rollouts and of turns, all with one creation time: a batch is one transaction.
ROLLOUTS = 250
TURNS_EACH = 3
UNICODE = 'Grüße, 世界 🌍 "quoted"\n\u2028 second\x85 line'


@dataclass(frozen=True)
class Recorded:
    """What was written: a run with rollouts, and one without."""

    run: Row
    empty_run: Row
    rollouts: list[Row]
    turns: list[Row]


def records_of(
    run_id: str, *, rollouts: int, turns_each: int = TURNS_EACH, text: str = UNICODE
) -> dict[str, list[Row]]:
    """Return a batch; rewards go 0.00, 0.01 and so on, but for an unknown one, a NaN and an infinite one."""
    batch: dict[str, list[Row]] = {"rollouts": [], "agent_states": [], "rewards": []}
    for number in range(rollouts):
        reward: Any = {0: None, 1: "NaN", 2: "Infinity"}.get(number, number / 100)
        rollout = {
            "id": new_id(),
            "training_run_id": run_id,
            "environment": "alfworld" if number % 5 else "webshop",
            "episode_number": number,
            "task_description": f"{text} {number}" if number != 4 else None,
            "status": "success" if number % 2 else "failed",
            "status_change_id": str(uuid4()),
            "total_reward": reward,
            "step_count": turns_each,
            "metadata": {"number": number, "text": text} if number % 2 else {"another": [1, None, "three"]},
            "seed": 2**53 + 1,
        }
        batch["rollouts"].append({name: value for name, value in rollout.items() if value is not None})
        batch["rewards"].append({"id": new_id(), "rollout_id": rollout["id"], "reward_type": "outcome", "reward": 1.5})
        # The fourth has no turns at all.
        for step in range(0 if number == 3 else turns_each):
            turn: Row = {"id": new_id(), "rollout_id": rollout["id"], "step_number": step}
            turn |= {"observation": f"saw {step} {text}", "thought": f"thought {step}", "action": f"act {step}"}
            call = {"tool_name": "search", "tool_input": {"q": [step]}, "tool_output": f"found {step}", "success": True}
            failed = {"tool_name": "map", "success": False, "error_message": "no signal"}
            turn["tool_calls"] = [call, failed] if step == 0 else []
            turn["rewards"] = [{"reward": "NaN" if step == 2 else 0.25}] if step else []
            batch["agent_states"].append(turn)
    return batch


@pytest.fixture(scope="session")
def export_gateway(stack: Any) -> Iterator[Client]:
    opened = Client.from_url_and_key(stack.url, stack.secret_key, anon_key=stack.publishable_key)
    yield opened
    opened.http.close()


def write_run(client: Client, name: str, **fields: Any) -> Row:
    """Write a run and return its record."""
    run = {"id": new_id(), "name": name, "run_name": f"{name}-{uuid4().hex}", "environment": "alfworld", **fields}
    write_batch({"training_runs": [run]}, all_or_nothing=True, client=client)
    return run


@pytest.fixture(scope="session")
def recorded(export_gateway: Client) -> Recorded:
    run = write_run(export_gateway, "exported", config={"lr": 1e-4, "text": UNICODE}, tags=["a", "b,c"])
    empty_run = write_run(export_gateway, "nothing in it")
    batch = records_of(run["id"], rollouts=ROLLOUTS)
    chunks = [
        {
            "id": new_id(),
            "training_run_id": run["id"],
            "name": name,
            "steps": list(range(start, start + 100)),
            "values": ["NaN" if step == 7 else step / 8 for step in range(start, start + 100)],
            "times": ["2026-01-02T03:04:05.678901+00:00"] * 100,
        }
        for name in ("loss", "größe")
        for start in range(0, 1200, 100)
    ]
    # Half of them were logged together.
    for first, other in zip(chunks[:6], chunks[12:18], strict=True):
        first["axis_id"] = other["axis_id"] = new_id()
        del other["steps"], other["times"]
    write_batch({**batch, "metric_chunks": chunks}, all_or_nothing=True, client=export_gateway)
    return Recorded(run, empty_run, batch["rollouts"], batch["agent_states"])


@pytest.fixture(scope="session")
def run_of(export_gateway: Client) -> Callable[..., Row]:
    """Return a function that records a run with this many rollouts, whose turns hold this text."""

    def record(*, rollouts: int, text: str) -> Row:
        run = write_run(export_gateway, f"{rollouts} rollouts")
        for start in range(0, rollouts, 100):
            part = records_of(run["id"], rollouts=min(100, rollouts - start), text=text)
            write_batch(part, all_or_nothing=True, client=export_gateway)
        return run

    return record


@pytest.fixture
def export(command: Command) -> Command:
    """Run `openmanus-rl export` in this process."""
    return partial(command, "export")
