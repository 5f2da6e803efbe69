"""Jobs of several processes: one run, one rewind, numbers that nobody gives twice; and workers of any kind."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
from openmanus_rl.errors import InvalidInput
from openmanus_rl.recorder import Run
from openmanus_rl.records.ids import new_id

from .conftest import Query, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]

RANK = """
import json, os, signal, time, openmanus_rl
run = openmanus_rl.init(name="ranks", environment="e", config={"lr": 1})
for number in range(2):
    with run.rollout(step=run.next_step):
        pass
with run.step(run.next_step):
    pass
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["TORCHELASTIC_MAX_RESTARTS"] != "0":
    if os.environ["RANK"] == "0":
        while not os.path.exists(os.environ["OUT"] + ".written"):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    open(os.environ["OUT"] + ".written", "w").close()
    signal.pause()
run.finish()
again = openmanus_rl.init(name="another", environment="e")
again.finish()
with open(f"{os.environ['OUT']}.{os.environ['RANK']}", "w") as file:
    json.dump([run.id, again.id, run.next_step], file)
"""


def launch(tmp_path: Path, *options: str, **env: str) -> subprocess.Popen[str]:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    return subprocess.Popen(
        [*TORCHRUN, *options, str(script)],
        env={**os.environ, "OUT": str(tmp_path / "out"), "OMP_NUM_THREADS": "1", **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def said_by(tmp_path: Path, rank: int) -> list[Any]:
    found: list[Any] = json.loads((tmp_path / f"out.{rank}").read_text())
    return found


def has_ended_well(query: Query, run_id: str) -> bool:
    return query("select status from training_runs where id = %s", run_id) == [{"status": "completed"}]


def test_the_ranks_of_a_job_are_one_run_also_after_a_restart(query: Query, tmp_path: Path) -> None:
    before = query("select count(*) as n from training_runs")[0]["n"]
    job = launch(tmp_path, "--nproc-per-node", "2", "--max-restarts", "1")
    _, errors = job.communicate()
    assert job.returncode == 0, errors
    run_id, another_id, next_step = said_by(tmp_path, 0)
    assert said_by(tmp_path, 1)[:2] == [run_id, another_id]
    # The restarted ranks go on behind what they had done before.
    assert next_step == 1
    wait_until(lambda: has_ended_well(query, run_id) and has_ended_well(query, another_id))
    home = Path(os.environ["OPENMANUS_RL_HOME"])
    wait_until(lambda: not list(home.glob("spool/*/*/meta.json")), seconds=120)
    assert query("select count(*) as n from training_runs")[0]["n"] == before + 2
    numbers = query("select episode_number from rollouts where training_run_id = %s", run_id)
    assert len({row["episode_number"] for row in numbers} - {None}) == len(numbers) == 8


def test_ranks_on_two_machines_are_one_run(query: Query, tmp_path: Path) -> None:
    address = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint"]
    port = _free_port()
    nodes = [
        launch(
            tmp_path, *address, f"127.0.0.1:{port}", "--rdzv-id", "job", OPENMANUS_RL_HOME=str(tmp_path / f"home{n}")
        )
        for n in range(2)
    ]
    for node in nodes:
        _, errors = node.communicate()
        assert node.returncode == 0, errors
    assert said_by(tmp_path, 0) == said_by(tmp_path, 1)
    run_id = said_by(tmp_path, 0)[0]
    wait_until(lambda: has_ended_well(query, run_id))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def as_rank(monkeypatch: pytest.MonkeyPatch, rank: int, job: str) -> None:
    """Be a rank of a job of two, as torchrun says it."""
    for name, value in {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "TORCHELASTIC_RUN_ID": job,
    }.items():
        monkeypatch.setenv(name, value)


def test_ranks_that_rewind_together_rewind_once_and_hide_nothing_of_each_other(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"rewound-{new_id()}"
    with openmanus_rl.init(name="loop", environment="e", run_name=name) as run:
        for number in range(6):
            with run.step(number):
                pass
        assert run.flush(timeout_seconds=30)
    job = "0b54f6ba-1f43-4b6b-9f3f-000000000001"
    as_rank(monkeypatch, 0, job)
    first = openmanus_rl.init(name="loop", run_name=name, rewind_to_step=3)
    with first.step(4):
        first.log({"loss": 1.0}, step=4)
    assert first.flush(timeout_seconds=30)
    _forget_what_this_process_began()
    as_rank(monkeypatch, 1, job)
    second = openmanus_rl.init(name="loop", run_name=name, rewind_to_step=3)
    assert list(first.rewinds) == list(second.rewinds) == [3]
    assert second.next_step == first.next_step == 4
    second.finish()
    first.finish()
    steps = query(
        "select step from training_steps where training_run_id = %s and rewound_at is null order by 1", run.id
    )
    assert [row["step"] for row in steps] == [0, 1, 2, 3, 4]
    _forget_what_this_process_began()
    # Another launch of the same job rewinds again.
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "0b54f6ba-1f43-4b6b-9f3f-000000000002")
    with openmanus_rl.init(name="loop", run_name=name, rewind_to_step=1) as third:
        assert list(third.rewinds) == [3, 1]


def test_a_rank_that_comes_late_begins_where_the_first_did_and_cuts_nothing_short(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"late-{new_id()}"
    job = "0b54f6ba-1f43-4b6b-9f3f-000000000003"
    for restart, begins_at in enumerate([0, 2]):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(restart))
        as_rank(monkeypatch, 0, job)
        first = openmanus_rl.init(name="loop", run_name=name)
        for number in range(first.next_step, first.next_step + 2):
            with first.step(number):
                pass
        rollout = first.rollout()
        assert first.flush(timeout_seconds=30)
        _forget_what_this_process_began()
        as_rank(monkeypatch, 1, job)
        second = openmanus_rl.init(name="loop", run_name=name)
        _forget_what_this_process_began()
        assert [first.next_step, second.next_step] == [begins_at, begins_at]
        assert second.flush(timeout_seconds=30)
        assert query("select status from rollouts where id = %s", rollout.id) == [{"status": "running"}]
        rollout.complete(status="success")
        second.finish()
        first.finish()


def _forget_what_this_process_began() -> None:
    """Be another process of the same job, which has begun nothing yet."""
    from openmanus_rl.recorder import job

    job._begun.clear()


@pytest.mark.parametrize("order", list(itertools.permutations("aab")), ids="".join)
def test_rewinds_of_two_launches_in_any_order_are_one_each(query: Query, order: tuple[str, ...]) -> None:
    """Three processes of two launches resume and then write, one after the other: the last launch's work counts."""
    run_id = new_id()
    launches = {"a": new_id(), "b": new_id()}
    query(
        "select ingest(%s)",
        json.dumps(
            {
                "training_runs": [{"id": run_id, "name": "r", "status": "running"}],
                "training_steps": [{"id": new_id(), "training_run_id": run_id, "step": n} for n in range(5)],
            }
        ),
    )
    for step, who in enumerate(order, start=3):
        (row,) = query("select resume_run(%s, %s, rewind_to_step => 2) as place", run_id, launches[who])
        assert row["place"]["next_step"] == 3
        made = {"id": new_id(), "training_run_id": run_id, "step": step, "timeline": len(row["place"]["rewinds"])}
        query("select ingest(%s)", json.dumps({"training_steps": [made]}))
    assert query("select timeline from training_runs where id = %s", run_id) == [{"timeline": 2}]
    counts = query(
        "select distinct timeline from training_steps where training_run_id = %s and rewound_at is null and step > 2",
        run_id,
    )
    assert counts == [{"timeline": 2}]


def test_a_job_that_nothing_tells_from_others_asks_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidInput, match="give a run_name"):
        openmanus_rl.init(name="ranks")
    with pytest.raises(InvalidInput, match="rank 0 alone"):
        openmanus_rl.init(name="ranks", run_name="ranks", rewind_to_step=1)


def test_a_pickled_run_and_its_variables_lead_workers_to_it(query: Query, tmp_path: Path) -> None:
    with openmanus_rl.init(name="handed on", environment="e") as run:
        pickled = tmp_path / "run.pickle"
        pickled.write_bytes(pickle.dumps(run))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENMANUS_RL_RUN")}
        by_pickle = (
            "import pickle, sys\nrun = pickle.load(open(sys.argv[1], 'rb'))\n"
            "assert pickle.loads(pickle.dumps(run)) is run\nrun.rollout().complete()\nrun.finish()\n"
        )
        by_variables = "import openmanus_rl\nwith openmanus_rl.init() as run: run.rollout().complete()\n"
        subprocess.run([sys.executable, "-c", by_pickle, str(pickled)], env=clean, check=True)
        subprocess.run([sys.executable, "-c", by_variables], env=clean | run.worker_env(include_keys=True), check=True)
        assert "SUPABASE_SERVICE_ROLE_KEY" not in run.worker_env()
        for _ in range(2):
            run.rollout().complete()
        if (child := os.fork()) == 0:
            run.rollout().complete()
            os._exit(0)
        os.waitpid(child, 0)
    found = "select episode_number from rollouts where training_run_id = %s order by 1"
    wait_until(lambda: len(query(found, run.id)) == 5)
    assert [row["episode_number"] for row in query(found, run.id)] == [0, 1, None, None, None]


def test_resuming_takes_the_new_settings_of_the_run(query: Query) -> None:
    name = f"resumed-{new_id()}"
    with openmanus_rl.init(
        name="shown", environment="e", run_name=name, config={"lr": 1, "old": 1}, total_steps=5, tags=["a"]
    ) as run:
        with run.step(0, phase="rollout"), run.rollout():
            pass
        assert run.flush(timeout_seconds=30)
    with openmanus_rl.init(run_name=name, config={"lr": 2}, total_steps=9, tags=["b"]) as again:
        with again.step(0, phase="training"), again.rollout():
            pass
        assert again.flush(timeout_seconds=30), again.stats
    (row,) = query("select name, config, total_steps, tags, status from training_runs where id = %s", run.id)
    assert (row["name"], row["config"]) == ("shown", {"lr": 2, "old": 1})
    assert (row["total_steps"], row["tags"]) == (9, ["b"])
    assert query("select phase from training_steps where training_run_id = %s", run.id) == [{"phase": "training"}]
    numbers = query("select episode_number from rollouts where training_run_id = %s order by 1", run.id)
    assert [row["episode_number"] for row in numbers] == [0, 1]


def test_a_nameless_init_after_a_finished_run_joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENMANUS_RL_MODE", "offline")
    monkeypatch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
    outer = openmanus_rl.init(name="outer")
    inner = openmanus_rl.init(name="inner")
    outer.finish()
    assert os.environ["OPENMANUS_RL_RUN_ID"] == inner.id
    joined: Run = openmanus_rl.init()
    assert joined.id == inner.id
    joined.finish()
    inner.finish()
    assert "OPENMANUS_RL_RUN_ID" not in os.environ
    with pytest.raises(InvalidInput, match="a run needs a name"):
        openmanus_rl.init()


def test_a_job_that_is_killed_leaves_one_run_that_says_so(query: Query, tmp_path: Path) -> None:
    code = RANK.replace("run.finish()\n", "print(run.id, flush=True)\nsignal.pause()\n", 1)
    ids = []
    for rank in (1, 0):
        env = {"RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "0b54f6ba-1f43-4b6b-9f3f-0000000000ff"}
        env |= {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "OUT": str(tmp_path / "out")}
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=os.environ | env, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        ids.append(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert ids[0] == ids[1]
    is_interrupted = "select status from training_runs where id = %s"
    wait_until(lambda: query(is_interrupted, ids[0]) == [{"status": "interrupted"}])
