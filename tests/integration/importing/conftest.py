"""The command that imports, and files to import."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ..conftest import Command, Query, Row

__all__ = ["Command", "Query", "Row"]


@pytest.fixture
def run_name() -> str:
    return f"imported-{uuid4().hex}"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes lines, objects as JSON and texts as they are, and returns the file's name."""

    def write_lines(lines: Iterable[Any], name: str = "some.jsonl") -> str:
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
        return name

    return write_lines


@pytest.fixture
def rollouts(query: Query) -> Callable[[str], list[Row]]:
    """Return a function that reads a run's rollouts with their turns, in the order of the file."""

    def read(run_name: str) -> list[Row]:
        found = query(
            "select o.* from rollouts o join training_runs r on r.id = o.training_run_id where r.run_name = %s"
            " order by o.episode_number, o.id",
            run_name,
        )
        for rollout in found:
            rollout["turns"] = query(
                "select a.*, public.turn_chat(a.id) as whole_chat,"
                "  (select jsonb_agg(c order by c.position) from tool_calls c where c.agent_state_id = a.id) as calls,"
                "  (select reward from rewards w where w.rollout_id = a.rollout_id and w.step_number = a.step_number)"
                " from agent_states a where a.rollout_id = %s order by a.step_number",
                rollout["id"],
            )
        return found

    return read
