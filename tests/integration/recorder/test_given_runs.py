"""Runs that others created, which a process resumes by their id: as given to `init`, or by its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
from openmanus_rl.connections import get_client
from openmanus_rl.errors import InvalidInput, NotFoundError, ServerError
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.ids import new_id

from .conftest import Query, wait_until
from .faulty_server import FaultySupabase, broken

pytestmark = pytest.mark.usefixtures("recorder_env")


@pytest.fixture
def pending() -> str:
    """The id of a run as the dashboard creates it."""
    row = TrainingRunManager.create_run("asked for", "ppo", "my-world", {"lr": 1, "n": 2}, status="pending")
    return row["id"]


def row_of(query: Query, run_id: str) -> dict[str, Any]:
    (row,) = query("select * from training_runs where id = %s", run_id)
    return row


def test_a_run_is_resumed_by_its_id_and_keeps_what_its_creator_said(query: Query, pending: str) -> None:
    with openmanus_rl.init("mine", run_id=pending, environment="CartPole-v1", config={"lr": 3}, total_steps=9) as run:
        assert (run.id, run.next_step) == (pending, 0)
        run.log({"loss": 1.0}, step=0)
        assert run.flush()
        assert row_of(query, pending)["status"] == "running"
    wait_until(lambda: row_of(query, pending)["status"] == "completed")
    row = row_of(query, pending)
    assert (row["name"], row["run_name"], row["environment"]) == ("asked for", None, "my-world")
    assert (row["config"], row["total_steps"]) == ({"lr": 3, "n": 2}, 9)


def test_a_run_is_rewound_by_its_id(query: Query, pending: str) -> None:
    with openmanus_rl.init(run_id=pending) as run:
        for step in range(5):
            run.log({"loss": 1.0}, step=step)
        assert run.flush()
    with openmanus_rl.init(run_id=pending, rewind_to_step=2) as again:
        assert (again.next_step, list(again.rewinds)) == (3, [2])
        again.log({"loss": 2.0}, step=3)
        assert again.flush()
    shown = query("select visible_to, steps from metric_chunks where training_run_id = %s and visible_to = 2", pending)
    assert shown


def test_an_unknown_id_is_refused(recorder_env: dict[str, str]) -> None:
    for mode in ("online", "offline"):
        with pytest.raises(NotFoundError, match="there is none to resume") as refused:
            openmanus_rl.init(run_id=new_id(), mode=mode)
        assert refused.value.field == "run_id"
    assert not list(Path(recorder_env["OPENMANUS_RL_HOME"]).glob("spool/*/*/meta.json"))


def test_an_id_is_not_mixed_with_a_name_or_a_promise_that_the_run_is_new(pending: str) -> None:
    for options in ({"run_name": "x"}, {"resume": "never"}):
        with pytest.raises(InvalidInput, match="run_id"):
            openmanus_rl.init("n", run_id=pending, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="is not an id"):
        openmanus_rl.init(run_id="latest")


def test_without_an_answer_a_given_run_is_not_guessed_at(
    pending: str, server: FaultySupabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_RETRY_LIMIT_SECONDS", "0")
    monkeypatch.setenv("OPENMANUS_RL_OWN_RUN_ID", pending)
    server.fault = broken
    # Also where "allow" would start a run of that name: this one has been asked for.
    with pytest.raises(ServerError):
        openmanus_rl.init("whatever", run_name="whatever", resume="allow")
    # Not taken: when the database answers again, the run is begun.
    server.fault = None
    with openmanus_rl.init("whatever") as run:
        assert run.id == pending


def test_the_first_init_of_a_launched_program_begins_its_run_and_the_next_another(
    query: Query, pending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_OWN_RUN_ID", pending)
    name = f"own-{new_id()}"
    with openmanus_rl.init("mine", run_name=name, resume="never", rewind_to_step=-1) as run:
        assert run.id == pending
        assert os.environ["OPENMANUS_RL_RUN_ID"] == pending
        assert "OPENMANUS_RL_OWN_RUN_ID" not in os.environ
        with openmanus_rl.init("another", run_name=f"another-{new_id()}") as other:
            assert other.id != pending
    # By the name that the program gave it, its run is still that one.
    with openmanus_rl.init("mine", run_name=name, rewind_to_step=0) as again:
        assert (again.id, again.next_step) == (pending, 1)
    assert query("select 1 from training_runs where run_name = %s", name) == []


PROGRAM = """
import multiprocessing, os, subprocess, sys, openmanus_rl
def log(value):
    openmanus_rl.init().log({"spawned": value}, step=value)
if __name__ == "__main__":
    run = openmanus_rl.init()
    print(run.id)
    child = "import openmanus_rl; openmanus_rl.init().log({'child': 1.0}, step=1)"
    subprocess.run([sys.executable, "-c", child])
    process = multiprocessing.get_context("spawn").Process(target=log, args=(2,))
    process.start()
    process.join()
    if os.fork() == 0:
        run.log({"forked": 1.0}, step=3)
        sys.exit()
    os.wait()
    run.log({"loss": 1.0}, step=4)
"""


def test_children_of_a_launched_program_join_its_run(query: Query, pending: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "OPENMANUS_RL_OWN_RUN_ID": pending},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.returncode) == ([pending], 0), done.stderr
    wait_until(
        lambda: (
            {row["name"] for row in query("select name from metric_chunks where training_run_id = %s", pending)}
            == {"child", "spawned", "forked", "loss"}
        )
    )
    wait_until(lambda: row_of(query, pending)["status"] == "completed")
    # Only the launched program itself began and ended the run.
    changes = query("select new_status from status_history where entity_id = %s order by changed_at, id", pending)
    assert [row["new_status"] for row in changes] == ["pending", "running", "completed"]


RANK = """
import os, openmanus_rl
run = openmanus_rl.init(name="ranks", run_name="of-the-script", rewind_to_step=-1)
run.log({f"rank_{os.environ['RANK']}": 1.0}, step=run.next_step)
run.finish()
"""


def test_the_ranks_of_a_launched_job_are_one_owner(query: Query, pending: str, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    # It has begun before: otherwise there is nothing to rewind.
    get_client().rpc("resume_run", {"run_id": pending, "change_id": new_id()})
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(
        torchrun,
        env={**os.environ, "OPENMANUS_RL_OWN_RUN_ID": pending, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wait_until(
        lambda: (
            {row["name"] for row in query("select name from metric_chunks where training_run_id = %s", pending)}
            == {"rank_0", "rank_1"}
        )
    )
    wait_until(lambda: row_of(query, pending)["status"] == "completed")
    assert row_of(query, pending)["rewinds"] == [-1]


def test_a_launched_program_that_records_nothing_does_not_touch_its_run(
    query: Query, pending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_OWN_RUN_ID", pending)
    run = openmanus_rl.init("n", mode="disabled")
    assert run.id == pending
    run.finish()
    assert row_of(query, pending)["status"] == "pending"
