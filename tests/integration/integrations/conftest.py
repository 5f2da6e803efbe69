"""What tests of integrations share: settings of a training script, and a look into the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Query

__all__ = ["Query"]


@pytest.fixture(scope="module")
def recorder_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where spools lie; one for all tests of a file, so that they share a courier."""
    home = tmp_path_factory.mktemp("home")
    yield home
    # A courier ends once nobody writes; until then the folder is its.
    deadline = time.monotonic() + 30
    while any(home.glob("spool/*/*/meta.json")) and time.monotonic() < deadline:
        time.sleep(0.1)


@pytest.fixture
def recorder_env(stack: Any, recorder_home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of a training script: the session's Supabase, and no run under way."""
    env: dict[str, str] = stack.env | {"OPENMANUS_RL_HOME": str(recorder_home)}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
    return env


@pytest.fixture
def rollouts_of(query: Query) -> Callable[[Any], list[dict[str, Any]]]:
    """Return a function that waits until all of a run has arrived, and returns its rollouts in order."""

    def read(run: Any) -> list[dict[str, Any]]:
        assert run.flush(), run.stats
        return query("select * from rollouts where training_run_id = %s order by episode_number, id", run.id)

    return read


@pytest.fixture
def turns_of(query: Query) -> Callable[[Any], list[dict[str, Any]]]:
    """Return a function that returns the turns of a rollout, each with its rewards."""

    def read(rollout: Any) -> list[dict[str, Any]]:
        return query(
            """
            select a.*, (select sum(reward) from rewards r where r.rollout_id = a.rollout_id
              and r.step_number = a.step_number) as reward
            from agent_states a where rollout_id = %s order by step_number
            """,
            rollout["id"],
        )

    return read


@pytest.fixture
def ended(query: Query) -> Callable[[Any], dict[str, Any]]:
    """Return a function that waits until a run's end, and so all before it, has arrived, and returns its row."""

    def read(run: Any) -> dict[str, Any]:
        deadline = time.monotonic() + 40
        while True:
            rows = query("select * from training_runs where id = %s and status <> 'running'", run.id)
            if rows:
                return rows[0]
            assert time.monotonic() < deadline, "it did not end in time"
            time.sleep(0.05)

    return read
