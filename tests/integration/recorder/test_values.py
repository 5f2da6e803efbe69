"""An odd value loses only itself, by every way into the database, and is told."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import openmanus_rl
from openmanus_rl.errors import InvalidInput
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import find_spools

from .conftest import Query, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")


@pytest.fixture(params=["copy", "http"])
def way(request: pytest.FixtureRequest, recorder_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways into the database: straight into Postgres, and over HTTP."""
    if request.param == "copy" and "DATABASE_URL" not in recorder_env:
        pytest.skip("only the way through the proxy is known")
    if request.param == "http":
        monkeypatch.delenv("DATABASE_URL", raising=False)


def start(**fields: Any) -> Any:
    return openmanus_rl.init(**{"name": "odd values", "environment": "CartPole-v1"} | fields)


def points(query: Query, run: Any) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for row in query("select name, step, value from metrics where training_run_id = %s order by name, step", run.id):
        found.setdefault(row["name"], []).append((row["step"], row["value"]))
    return found


def counts(run: Any) -> tuple[int, int, int, int]:
    stats = run.stats
    return stats.queued, stats.delivered, stats.rejected, stats.lost


@pytest.mark.usefixtures("way")
def test_one_odd_point_among_a_hundred_loses_nothing(query: Query) -> None:
    odd = {10: True, 20: np.float16(0.5), 30: torch.tensor([3.0]), 40: Decimal("0.25"), 50: np.array([[7]])}
    with start() as run:
        for step in range(100):
            run.log({"won": odd.get(step, 0.0)}, step=np.int64(step) if step % 2 else float(step))
        assert run.flush(timeout_seconds=30)
        assert counts(run) == (0, 101, 0, 0)
    assert dict(points(query, run)["won"]) == dict.fromkeys(range(100), 0.0) | {
        10: 1.0, 20: 0.5, 30: 3.0, 40: 0.25, 50: 7.0,
    }  # fmt: skip


@pytest.mark.usefixtures("way")
def test_a_bad_point_loses_only_itself_and_the_counts_tell_it(query: Query) -> None:
    with start() as run:
        for step in range(100):
            bad = step in (10, 20)
            run.log({"loss": "high" if bad else 0.5, "won": True, "many": [1, 2] if bad else 1}, step=step)
        for no_step in (-1, 5.5, None):
            run.log({"loss": 1.0}, step=no_step)
        assert not run.flush(timeout_seconds=30)
        # Each call once: the run, 98 whole ones, two of which something was refused, three with no step.
        assert counts(run) == (0, 99, 5, 0)
    found = points(query, run)
    assert [step for step, _ in found["loss"]] == [step for step in range(100) if step not in (10, 20)]
    assert found["won"] == [(step, 1.0) for step in range(100)]
    (spool,) = find_spools(spool_root(load_settings()))
    assert {entry["message"] for entry in spool.refused()} == {
        "metric 'loss': a str is not a number",
        "metric 'many': a list is not a number",
        "metric 'loss': step -1 is not a whole number from 0 on",
        "metric 'loss': step 5.5 is not a whole number from 0 on",
        "metric 'loss': step: a NoneType is not a number; it must be a whole number from 0 on",
    }
    # What was refused for good is written nowhere.
    assert not any(b"high" in path.read_bytes() for path in spool.folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("way")
def test_points_of_a_run_that_is_gone_are_all_counted_as_rejected(query: Query) -> None:
    with start() as run:
        assert run.flush(timeout_seconds=30)
        query("delete from training_runs where id = %s returning 1", run.id)
        for step in range(3):
            run.log({"loss": 1.0, "reward": 2.0}, step=step)
            run.flush(timeout_seconds=30)
        assert counts(run) == (0, 1, 3, 0)


@pytest.mark.usefixtures("way")
def test_texts_that_are_no_text_are_stored_as_json(query: Query) -> None:
    seen = [
        {"room": 1, "things": ["ball", None, True]},
        ["a", 'b"c', {"d": 0.5}],
        (1, 2),
        np.array([[0.5, 1.0]]),
        True,
        5,
        Path("/tmp/x"),
        "plain",
        "",
    ]
    with start() as run:
        with run.rollout(task_description=[{"role": "user", "content": "find it"}]) as rollout:
            for one in seen:
                rollout.log_turn(observation=one, action=one, thought=one, memory_summary=one)
        assert run.flush(timeout_seconds=30), run.stats
    rows = query(
        "select observation, action, thought, memory_summary from agent_states where rollout_id = %s"
        " order by step_number", rollout.id
    )  # fmt: skip
    texts = [
        '{"room":1,"things":["ball",null,true]}',
        '["a","b\\"c",{"d":0.5}]',
        "[1,2]",
        "[[0.5,1.0]]",
        "true",
        "5",
        "/tmp/x",
        "plain",
        "",
    ]
    assert [set(row.values()) for row in rows] == [{text} for text in texts]
    assert query("select task_description from rollouts where id = %s", rollout.id) == [
        {"task_description": '[{"role":"user","content":"find it"}]'}
    ]


@pytest.mark.usefixtures("way")
def test_numbers_of_any_type_are_taken_wherever_numbers_go(query: Query) -> None:
    with start(config={"lr": np.float32(0.5), "nan": math.nan, "shape": (1, 2), "decimal": Decimal("0.1")}) as run:
        with run.step(np.int64(3)) as step:
            step.log(loss=torch.tensor(0.5), grad_norm=Decimal("0.25"), tokens=8.0)
        with run.rollout(seed=np.int32(7), step=3.0) as rollout:
            rollout.log_turn(step_number=np.int64(0), observation="a", reward=np.float16(0.5), duration_ms=Decimal(2))
            rollout.log_turn(step_number=1.0, observation="b", reward={"step": True, "shaped": torch.tensor([0.25])})
            rollout.complete("success", total_reward=torch.tensor([1.75]), step_count=2.0)
        assert run.flush(timeout_seconds=30), run.stats
    assert query("select config from training_runs where id = %s", run.id) == [
        {"config": {"lr": 0.5, "nan": "NaN", "shape": [1, 2], "decimal": 0.1}}
    ]
    assert query("select step, loss, grad_norm, tokens from training_steps where training_run_id = %s", run.id) == [
        {"step": 3, "loss": 0.5, "grad_norm": 0.25, "tokens": 8}
    ]
    found = query("select seed, step, status, total_reward, step_count from rollouts where id = %s", rollout.id)
    assert found == [{"seed": 7, "step": 3, "status": "success", "total_reward": 1.75, "step_count": 2}]
    rewards = query("select reward from rewards where rollout_id = %s order by reward", rollout.id)
    assert [row["reward"] for row in rewards] == [0.25, 0.5, 1.0]


def test_a_status_that_there_is_not_is_raised_at_once(query: Query) -> None:
    with start() as run:
        rollout = run.rollout()
        with pytest.raises(InvalidInput, match=r"rollout: status 'failure' is not one of .*did you mean"), rollout:
            rollout.complete(status="failure")
        for call in (
            lambda: run.step(0).finish("done"),
            lambda: run.evaluation().finish("success"),
            lambda: run.evaluation(kind="test"),
            lambda: run.rollout(source="play"),
            lambda: run.step(1).log(phase="resting"),
            lambda: run.update(visibility="hidden"),
            lambda: run.finish("success"),
            lambda: run.log_media(b"x", kind="picture"),
            lambda: run.rollout(sead=1),
            lambda: run.rollout().log_turn(observaton="typo"),
            lambda: run.step("first"),
            lambda: run.rollout().complete("running"),
        ):
            with pytest.raises(InvalidInput):
                call()
        assert run.flush(timeout_seconds=30), run.stats
    assert query("select status from rollouts where id = %s", rollout.id) == [{"status": "error"}]
    wait_until(lambda: not query("select 1 from rollouts where training_run_id = %s and status = 'running'", run.id))


@pytest.mark.usefixtures("way")
def test_a_rollout_has_ended_also_if_what_was_said_at_its_end_is_refused(query: Query) -> None:
    with start() as run:
        with run.rollout() as rollout:
            rollout.complete("success", total_reward="a lot", result={"kept": True})
        assert not run.flush(timeout_seconds=30)
        assert counts(run) == (0, 2, 1, 0)
    found = query("select status, total_reward, result from rollouts where id = %s", rollout.id)
    assert found == [{"status": "success", "total_reward": None, "result": {"kept": True}}]
    (spool,) = find_spools(spool_root(load_settings()))
    # It can be sent again, without being taken for the same change of status.
    assert [entry["record"] for entry in spool.refused()] == [{"id": rollout.id, "total_reward": "a lot"}]


def test_a_bad_field_of_a_rollout_loses_neither_the_rollout_nor_its_turns(query: Query) -> None:
    with start() as run:
        with run.rollout(seed="odd", task_description="bad beginning") as begun:
            begun.log_turn(observation="a room")
        ended = run.rollout(whole=True, seed="odd", task_description="all in one line")
        turns = {"first": 0, "times": [1.0], "observations": ["a"], "actions": ["b"], "rewards": [1.0]}
        ended._end("success", total_reward="a lot", turns=turns)
        assert not run.flush(timeout_seconds=30)
        # Refused are the beginning of the one, and the only line of the other.
        assert counts(run) == (0, 3, 2, 0)
    found = query(
        "select task_description, status, seed from rollouts where training_run_id = %s order by id",
        run.id,
    )
    assert [(row["task_description"], row["status"], row["seed"]) for row in found] == [
        ("bad beginning", "completed", None), ("all in one line", "success", None),
    ]  # fmt: skip
    assert query("select count(*) as n from agent_states where training_run_id = %s", run.id) == [{"n": 2}]
    (spool,) = find_spools(spool_root(load_settings()))
    assert sorted(entry["field"] for entry in spool.refused()) == ["seed", "seed", "total_reward"]


TELLS = """
import logging, os, sys
logging.basicConfig(filename=os.devnull)
import openmanus_rl
run = openmanus_rl.init(name="tells")
for step in range(50):
    run.log({"loss": 0.5, "note": "SECRET"}, step=step)
for _ in range(3):
    run.rollout(seed="many")
run.flush(timeout_seconds=30)
import time
time.sleep(2.5)
print("before the end", file=sys.stderr, flush=True)
run.finish()
"""


def test_what_is_refused_is_told_on_stderr_once_and_in_sum_at_the_end() -> None:
    told = subprocess.run([sys.executable, "-c", TELLS], capture_output=True, text=True, check=True).stderr.splitlines()
    end = told.index("before the end")
    during = [line for line in told[:end] if "refused" in line]
    assert [line for line in during if "metric 'note'" in line] == during[:1]
    assert [line for line in during if "rollouts.seed" in line] == during[1:2]
    assert "a str is not a number" in during[0]
    assert "openmanus-rl sync" in during[1]
    assert len(during) == 2
    (summary,) = told[end + 1 :]
    # Of the run, its metrics, its rollouts and its end; a heartbeat may come in between.
    assert re.search(r"\b53 of 5[56] records were refused", summary)
    assert "metric 'note' (50)" in summary
    assert "SECRET" not in "".join(told)


def test_a_call_that_is_no_metrics_is_told_what_to_give() -> None:
    with start() as run, pytest.raises(InvalidInput, match="a dict of numbers by name is expected, not list"):
        run.log([1.0], step=0)


@pytest.mark.usefixtures("way")
def test_a_run_begins_also_if_something_that_is_said_of_it_is_refused(query: Query) -> None:
    with start(total_steps="ten thousand", config={"lr": 0.5}) as run:
        with run.rollout() as rollout:
            rollout.log_turn(observation="a room")
        run.log({"loss": 0.5}, step=0)
        wait_until(lambda: not run.flush(timeout_seconds=30) and run.stats.rejected == 1)
        assert run.stats.queued == 0
    found = query("select config, total_steps from training_runs where id = %s", run.id)
    assert found == [{"config": {"lr": 0.5}, "total_steps": None}]
    assert query("select count(*) as n from agent_states where training_run_id = %s", run.id) == [{"n": 1}]
    assert points(query, run) == {"loss": [(0, 0.5)]}
    (spool,) = find_spools(spool_root(load_settings()))
    assert [entry["record"] for entry in spool.refused()] == [{"id": run.id, "total_steps": "ten thousand"}]


@pytest.mark.usefixtures("way")
def test_none_clears_a_field_in_an_update_of_the_run_and_nowhere_else(query: Query) -> None:
    with start() as run:
        run.update(description="a run", progress=0.5, current_step=3)
        with run.step(0) as step:
            step.log(loss=0.5, kl=0.1)
            step.log(loss=None, kl=0.2)
        with run.rollout(seed=1, model="small") as rollout:
            rollout.complete("success", total_reward=1.0, error=None, model=None)
        run.log_checkpoint(1, step=3, storage_path="a/b.pt")
        run.log_checkpoint(1, storage_path=None)
        run.update(description=None, progress=None)
        assert run.flush(timeout_seconds=30)
        assert run.stats.rejected == 0
    found = query("select description, progress, current_step from training_runs where id = %s", run.id)
    assert found == [{"description": None, "progress": None, "current_step": 3}]
    assert query("select loss, kl from training_steps where id = %s", step.id) == [{"loss": 0.5, "kl": 0.2}]
    found = query("select seed, model, total_reward from rollouts where id = %s", rollout.id)
    assert found == [{"seed": 1, "model": "small", "total_reward": 1.0}]
    found = query("select step, storage_path from model_checkpoints where training_run_id = %s", run.id)
    assert found == [{"step": 3, "storage_path": "a/b.pt"}]
