"""What tests of integrations share: settings of a training script, and a look into the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

Query = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def recorder_env(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The settings of a training script: the session's Supabase, and a home in which nothing was recorded."""
    home = tmp_path / "home"
    env = stack.env | {"OPENMANUS_RL_HOME": str(home)}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
    yield env
    # A courier ends once nobody writes; until then the folder is its.
    deadline = time.monotonic() + 30
    while any(home.glob("spool/*/*/meta.json")) and time.monotonic() < deadline:
        time.sleep(0.1)


@pytest.fixture
def query(stack: Any) -> Iterator[Query]:
    """Return the rows of a query on the session's database."""
    with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as connection:

        def run(statement: str, *values: Any) -> list[dict[str, Any]]:
            return connection.execute(statement, values).fetchall()

        yield run


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
