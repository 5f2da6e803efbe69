"""Going on with a run: after a kill at any point, after an outage, and from an earlier step."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.destination import connect
from openmanus_rl.errors import InvalidInput, OpenManusError
from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.managers.steps import TrainingStepManager
from openmanus_rl.recorder import Run
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import find_spools
from openmanus_rl.transport.client import Client

from . import faulty_server
from .conftest import Query, wait_until
from .faulty_server import FaultySupabase

pytestmark = pytest.mark.usefixtures("recorder_env")

STEPS = 12

# A loop with a state of its own, which it saves after each step as a trainer saves its model, and goes on from.
LOOP = """
import json, os, sys, time, openmanus_rl
name, saved = sys.argv[1:3]
state = json.load(open(saved)) if os.path.exists(saved) else {"step": -1, "value": 1}
run = openmanus_rl.init(name="loop", environment="e", run_name=name, rewind_to_step=state["step"])
assert run.next_step == state["step"] + 1, (run.next_step, state)
print("started", flush=True)
for number in range(run.next_step, 12):
    with run.step(number) as step, step.group(task=f"task {number}") as group:
        for attempt in range(2):
            with group.rollout() as rollout:
                for turn in range(3):
                    rollout.log_turn(observation=f"{number}.{attempt}.{turn}", reward=state["value"] % 7)
                    time.sleep(0.002)
        state = {"step": number, "value": state["value"] * 3 % 1009}
        run.log({"value": state["value"]}, step=number)
        step.log(loss=state["value"] / 2)
    run.log_checkpoint(number, step=number, metadata=state)
    with open(saved + ".new", "w") as file:
        json.dump(state, file)
    os.replace(saved + ".new", saved)
run.finish()
"""


def start(name: str, **options: Any) -> Run:
    return openmanus_rl.init(name="loop", environment="e", run_name=name, **options)


def train(name: str, saved: Path, *, kill_after_seconds: float | None = None) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, name, str(saved)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    if kill_after_seconds is not None:
        time.sleep(kill_after_seconds)
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode in (0, -signal.SIGKILL)


def what_counts(query: Query, name: str) -> dict[str, Any]:
    """Return everything that counts of a run, but for ids and times."""
    (run,) = query("select id, status from training_runs where run_name = %s", name)
    of_run = "training_run_id = %s and rewound_at is null"
    return {
        "status": run["status"],
        "steps": query(f"select step, status, loss from training_steps where {of_run} order by step", run["id"]),
        "rollouts": query(
            f"select step, status, total_reward, step_count from rollouts where {of_run} order by step, id", run["id"]
        ),
        "checkpoints": query(
            f"select checkpoint_number, step, metadata from model_checkpoints where {of_run} order by 1", run["id"]
        ),
        "metrics": query("select step, value from metrics where training_run_id = %s order by step", run["id"]),
        "groups": query(
            "select s.step, g.number, g.rollout_count, g.reward_mean from rollout_groups g"
            " join training_steps s on s.id = g.training_step_id"
            " where g.training_run_id = %s and s.rewound_at is null order by 1, 2",
            run["id"],
        ),
        "figures": {
            name: value for name, value in TrainingRunManager.get_metrics(run["id"]).items() if name != "rollouts"
        },
    }


def test_a_loop_that_is_killed_at_random_points_ends_as_if_it_had_never_been(query: Query, tmp_path: Path) -> None:
    whole, killed = f"whole-{new_id()}", f"killed-{new_id()}"
    train(whole, tmp_path / "whole.json")
    moments = random.Random(7)
    for _ in range(4):
        train(killed, tmp_path / "killed.json", kill_after_seconds=moments.uniform(0.0, 0.12))
    train(killed, tmp_path / "killed.json")

    def is_done(name: str) -> bool:
        return bool(query("select 1 from training_runs where run_name = %s and status = 'completed'", name))

    wait_until(lambda: is_done(whole) and is_done(killed))
    expected = what_counts(query, whole)
    assert [step["step"] for step in expected["steps"]] == list(range(STEPS))
    assert len(expected["rollouts"]) == expected["figures"]["total_rollouts"] == 2 * STEPS
    # What dead processes left arrives late, and must not show: wait until all of it has come.
    home = Path(os.environ["OPENMANUS_RL_HOME"])
    wait_until(lambda: not list(home.glob("spool/*/*/meta.json")))
    assert what_counts(query, killed) == expected
    # What was cut short is still there, with its turns, and says so.
    (run,) = query("select id, timeline from training_runs where run_name = %s", killed)
    assert run["timeline"] == 4
    left = query("select status, count(*) from rollouts where training_run_id = %s group by 1", run["id"])
    assert {row["status"] for row in left} <= {"completed", "interrupted"}


@pytest.mark.parametrize("is_in_database", [False, True])
def test_a_rewind_misses_nothing_that_is_delivered_while_it_looks_where_the_run_is(
    is_in_database: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"delivered-meanwhile-{new_id()}"
    rewinds = []
    settings = load_settings()

    def deliver() -> None:
        Courier(spool_root(settings), connect=lambda: connect(settings)).deliver()

    if is_in_database:
        with start(name, mode="offline") as run:
            run.step(0).finish()
        deliver()
        # This machine then knows of a rewind that the database does not.
        rewinds.append(0)
    with start(name, mode="offline", rewind_to_step=0) as run:
        assert list(run.rewinds) == rewinds
        run.step(1).finish()
    look = Client.select_one

    def deliver_after_the_look(client: Client, *args: Any, **options: Any) -> Any:
        found = look(client, *args, **options)
        deliver()
        return found

    monkeypatch.setattr(Client, "select_one", deliver_after_the_look)
    with start(name, rewind_to_step=0) as again:
        assert (list(again.rewinds), again.next_step) == ([*rewinds, 0], 1)


def test_a_rollout_that_was_cut_short_keeps_its_turns_and_says_so(query: Query) -> None:
    code = """
import os, sys, openmanus_rl
run = openmanus_rl.init(name="loop", environment="e")
step = run.step(0)
rollout = step.group(task="t").rollout()
for turn in range(3):
    rollout.log_turn(observation=str(turn))
evaluation = run.evaluation()
print(run.id, rollout.id, step.id, evaluation.id, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    run_id, rollout_id, step_id, evaluation_id = done.stdout.split()
    is_interrupted = "select 1 from training_runs where id = %s and status = 'interrupted'"
    wait_until(lambda: bool(query(is_interrupted, run_id)))
    (found,) = query("select * from rollouts where id = %s", rollout_id)
    assert (found["status"], found["step_count"], found["total_reward"]) == ("interrupted", 3, None)
    assert "the process that recorded it ended" in found["status_message"]
    assert len(query("select 1 from agent_states where rollout_id = %s", rollout_id)) == 3
    assert query("select status from training_steps where id = %s", step_id) == [{"status": "interrupted"}]
    assert query("select status from evaluations where id = %s", evaluation_id) == [{"status": "interrupted"}]


def test_what_nobody_ended_before_the_run_was_finished_is_interrupted(query: Query) -> None:
    with openmanus_rl.init(name="loop", environment="e") as run:
        left = run.rollout()
        ended = run.rollout()
        ended.complete("success")
    wait_until(lambda: query("select status from rollouts where id = %s", left.id) == [{"status": "interrupted"}])
    assert query("select status from rollouts where id = %s", ended.id) == [{"status": "success"}]
    assert query("select status from training_runs where id = %s", run.id) == [{"status": "completed"}]


def test_a_rewind_hides_what_came_after_and_goes_on_from_there() -> None:
    name = f"rewound-{new_id()}"
    with start(name) as run:
        for number in range(6):
            run.log({"loss": float(number)}, step=number)
            with run.step(number) as step, step.group(task="t") as group, group.rollout() as rollout:
                rollout.log_turn(observation="first time")
        assert run.flush(timeout_seconds=30)
    with start(name, rewind_to_step=2) as again:
        assert (again.id, again.next_step, list(again.rewinds)) == (run.id, 3, [2])
        again.log({"loss": 30.0}, step=3)
        with again.step(3) as step, step.group(task="t") as group, group.rollout() as rollout:
            rollout.log_turn(observation="second time")
        assert again.flush(timeout_seconds=30), again.stats

    points = MetricManager.get_series(run.id)["loss"]
    assert [(point.step, point.value) for point in points] == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 30.0)]
    before = MetricManager.get_series(run.id, timeline=0)["loss"]
    assert [point.step for point in before] == list(range(6))
    assert [row["step"] for row in TrainingStepManager.list_steps(run.id)] == [0, 1, 2, 3]
    assert len(TrainingStepManager.list_steps(run.id, include_rewound=True)) == 7
    rollouts = RolloutManager.list_rollouts(training_run_id=run.id)
    assert sorted(row["step"] for row in rollouts) == [0, 1, 2, 3]
    hidden = [
        row for row in RolloutManager.list_rollouts(training_run_id=run.id, include_rewound=True) if row["rewound_at"]
    ]
    assert sorted(row["step"] for row in hidden) == [3, 4, 5]
    assert RolloutManager.get_trajectory(hidden[0]["id"])["turns"][0]["observation"] == "first time"
    # Managers write on the present timeline as well.
    row = TrainingStepManager.start_step(run.id, 4)
    assert row["rewound_at"] is None
    assert TrainingStepManager.complete_step(run.id, 4, loss=1.0)["id"] == row["id"]


WORKER = """
import openmanus_rl
with openmanus_rl.init() as run, run.step(1):
    run.log({"loss": 1.0}, step=1)
"""


def test_the_workers_of_a_rewound_run_write_on_its_present_timeline(query: Query) -> None:
    name = f"rewound-{new_id()}"
    with start(name) as run, run.step(0), run.step(1):
        assert run.flush(timeout_seconds=30)
    code = (
        "import openmanus_rl\nrun = openmanus_rl.init()\nwith run.step(1): run.log({'loss': 1.0}, step=1)\nrun.finish()"
    )
    with start(name, rewind_to_step=0):
        subprocess.run([sys.executable, "-c", code], check=True)
    wait_until(lambda: bool(query("select 1 from metrics where training_run_id = %s and step = 1", run.id)))
    steps = query(
        "select timeline from training_steps where training_run_id = %s and step = 1 and rewound_at is null", run.id
    )
    assert steps == [{"timeline": 1}]


@pytest.mark.parametrize("first_comes", ["first", "second"])
def test_of_several_ranks_the_first_alone_ends_the_run(
    query: Query, monkeypatch: pytest.MonkeyPatch, first_comes: str
) -> None:
    name = f"ranks-{new_id()}"
    monkeypatch.setenv("WORLD_SIZE", "2")

    def begin(rank: int) -> Run:
        monkeypatch.setenv("RANK", str(rank))
        run = start(name)
        assert run.flush(timeout_seconds=30)
        return run

    if first_comes == "first":
        first, second = begin(0), begin(1)
    else:
        second, first = begin(1), begin(0)
    assert second.id == first.id
    second.log({"loss": 1.0}, step=1)
    assert second.flush(timeout_seconds=30)
    second.finish()
    # Its spool is delivered and cleared away, and with it what it might have left open.
    spools = spool_root(load_settings())
    wait_until(lambda: len(list(find_spools(spools))) == 1)
    assert query("select status from training_runs where id = %s", first.id) == [{"status": "running"}]
    first.finish()
    wait_until(lambda: query("select status from training_runs where id = %s", first.id) == [{"status": "completed"}])


@pytest.mark.parametrize("delivered", [True, False], ids=["delivered before", "still in the spool"])
def test_a_run_goes_on_where_it_was_while_the_database_is_away(
    server: FaultySupabase, monkeypatch: pytest.MonkeyPatch, delivered: bool
) -> None:
    name = f"away-{new_id()}"
    monkeypatch.setenv("OPENMANUS_RL_RETRY_LIMIT_SECONDS", "0")
    if not delivered:
        server.fault = faulty_server.broken
    subprocess.run([sys.executable, "-c", FOUR_STEPS, name, str(delivered)], check=False)
    server.fault = faulty_server.broken
    run = start(name)
    assert run.next_step == 4
    with run.step(4):
        pass
    server.fault = None
    assert run.flush(timeout_seconds=30), run.stats
    steps = TrainingStepManager.list_steps(run.id)
    assert [(row["step"], row["status"]) for row in steps] == [(number, "completed") for number in range(5)]
    run.finish()


FOUR_STEPS = """
import os, sys, openmanus_rl
run = openmanus_rl.init(name="loop", environment="e", run_name=sys.argv[1])
for number in range(4):
    with run.step(number):
        run.log({"loss": 1.0}, step=number)
if sys.argv[2] == "True":
    assert run.flush(timeout_seconds=30)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how_it_ended", ["completed", "failed", "interrupted"])
def test_an_end_that_arrives_when_the_run_goes_on_already_does_not_end_it(
    server: FaultySupabase, query: Query, how_it_ended: str
) -> None:
    name = f"gone-on-{new_id()}"
    run = start(name)
    assert run.flush(timeout_seconds=30)
    # The next process asks before the courier, which rests between deliveries, has brought the end of this one.
    server.faulty_path = "/rest/v1/rpc/load_batch"
    server.fault = faulty_server.broken
    run.finish(how_it_ended, message="the first")
    again = start(name)
    server.fault = None
    spools = spool_root(load_settings())
    wait_until(lambda: len(list(find_spools(spools))) == 1)
    assert again.flush(timeout_seconds=30), again.stats
    assert query("select status from training_runs where id = %s", run.id) == [{"status": "running"}]
    again.finish("failed", message="the second")
    wait_until(lambda: not list(find_spools(spools)))
    changes = query(
        "select new_status, message from status_history where entity_id = %s order by changed_at, id", run.id
    )
    assert [(row["new_status"], row["message"]) for row in changes] == [
        ("running", None), (how_it_ended, "the first"), ("running", None), ("failed", "the second"),
    ]  # fmt: skip


@pytest.mark.parametrize("is_resumed", [False, True], ids=["delivered", "resumed before"])
def test_a_run_that_failed_and_went_on_without_the_database_is_completed(query: Query, is_resumed: bool) -> None:
    name = f"offline-{new_id()}"
    settings = load_settings()

    def deliver() -> None:
        courier = Courier(spool_root(settings), connect=lambda: connect(settings))
        courier.deliver()
        courier.close()

    def changes() -> list[str]:
        rows = query("select new_status from status_history where entity_id = %s order by changed_at, id", run.id)
        return [row["new_status"] for row in rows]

    if is_resumed:
        # So that the database knows the run.
        first = start(name)
        assert first.flush(timeout_seconds=30)
    for status in ("failed", "completed"):
        run = start(name, mode="offline")
        with run.step(run.next_step):
            pass
        run.finish(status)
    expected = ["running", "failed", "running", "completed"]
    if is_resumed:
        again = start(name)
        deliver()
        assert again.flush(timeout_seconds=30), again.stats
        expected.append("running")
        assert changes() == expected
        again.finish("failed")
        first.leave()
        wait_until(lambda: not list(find_spools(spool_root(settings))))
        expected.append("failed")
    else:
        deliver()
    assert changes() == expected
    assert list(find_spools(spool_root(settings))) == []


def test_a_rewind_needs_the_database(server: FaultySupabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENMANUS_RL_RETRY_LIMIT_SECONDS", "0")
    server.fault = faulty_server.broken
    with pytest.raises(OpenManusError, match="out of order"):
        start("anything", rewind_to_step=1)


def test_what_is_no_step_to_rewind_to_is_said() -> None:
    for odd in (-2, 1.5, "first"):
        with pytest.raises(InvalidInput, match="rewind_to_step"):
            start("odd", rewind_to_step=odd)
    with pytest.raises(InvalidInput, match="run_name"):
        openmanus_rl.init(name="nameless", rewind_to_step=3)


def test_rewinding_a_run_that_is_not_there_begins_it() -> None:
    with start(f"new-{new_id()}", rewind_to_step=5) as run:
        assert (run.next_step, list(run.rewinds)) == (0, [])
