"""Steps of episodes that are open at once."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.importing import step_lines
from openmanus_rl.importing.identity import Naming
from openmanus_rl.importing.lines import Line
from openmanus_rl.importing.writing import BatchWriter


def test_only_so_many_episodes_are_held_open_and_the_one_left_longest_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_lines, "_MOST_OPEN_EPISODES", 2)
    batches: list[dict[str, list[dict[str, Any]]]] = []

    def load(batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        batches.append(batch)
        return []

    run_id = str(uuid4())
    writer = BatchWriter(load, on_refused=lambda *_: None)
    steps = step_lines.StepLines(writer, run_id=run_id, naming=Naming(run_id), file_number=1, environment="e")
    for number, (env_id, step) in enumerate([(0, 0), (1, 0), (0, 1), (2, 0)], start=1):
        steps.add(Line(number, f"{env_id}:{step}".encode(), {"env_id": env_id, "step": step, "action": "a"}))
    writer.flush()

    ended = [record for record in batches[0]["rollouts"] if record["status"] == "truncated"]
    begun = [record for record in batches[0]["rollouts"] if record["status"] == "interrupted"]
    # Environment 1: the others have gone on since.
    assert [record["id"] for record in ended] == [begun[1]["id"]]
    steps.finish()
    writer.flush()
    assert {record["id"] for record in batches[1]["rollouts"]} == {begun[0]["id"], begun[2]["id"]}
