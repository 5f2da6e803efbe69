"""What a training loop records is in the database, once, whatever happens to the loop."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
import openmanus_rl.recorder
import openmanus_rl.records.ids
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.destination import connect
from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import Spool, find_spools
from openmanus_rl.spool.writer import SpoolWriter

from .conftest import Query, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")


def start(**fields: Any) -> openmanus_rl.recorder.Run:
    return openmanus_rl.init(**{"name": "cartpole-ppo", "environment": "CartPole-v1"} | fields)


def has_status(query: Query, run: Any, status: str) -> bool:
    return bool(query("select 1 from training_runs where id = %s and status = %s", run.id, status))


def script(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code, *arguments], stdout=subprocess.PIPE, text=True, **options
    )


def test_the_contracts_example_is_recorded_whole(query: Query) -> None:
    with openmanus_rl.init(
        name="cartpole-ppo", algorithm="ppo", environment="CartPole-v1", config={"lr": 3e-4},
        run_name="cartpole-of-the-contract", resume="allow",
    ) as run:  # fmt: skip
        run.log({"loss": 0.31, "reward": 12.0}, step=10)
        with (
            run.step(10) as step,
            step.group(task="find the red ball") as group,
            group.rollout(task_description="find the red ball") as rollout,
        ):
            call = {"tool_name": "search", "tool_input": {"q": "ball"}, "tool_output": "...", "success": True}
            rollout.log_turn(observation="a room", action="go north", thought="explore", reward=0.5, tool_calls=[call])
            rollout.complete(status="success", total_reward=0.5)
        assert run.flush(timeout_seconds=30)
        assert (run.stats.queued, run.stats.rejected, run.stats.lost) == (0, 0, 0)
        assert run.stats.delivered > 0
    wait_until(lambda: has_status(query, run, "completed"))

    (found,) = query("select * from training_runs where id = %s", run.id)
    assert (found["algorithm"], found["config"], found["run_name"]) == ("ppo", {"lr": 3e-4}, "cartpole-of-the-contract")
    points = query("select name, step, value from metrics where training_run_id = %s order by name", run.id)
    assert points == [{"name": "loss", "step": 10, "value": 0.31}, {"name": "reward", "step": 10, "value": 12.0}]
    (found,) = query("select r.*, g.reward_mean from rollouts r join rollout_groups g on g.id = r.group_id"
                     " where r.training_run_id = %s", run.id)  # fmt: skip
    assert (found["status"], found["total_reward"], found["step_count"]) == ("success", 0.5, 1)
    assert (found["environment"], found["reward_mean"]) == ("CartPole-v1", 0.5)
    (turn,) = query("select * from agent_states where rollout_id = %s", rollout.id)
    assert (turn["observation"], turn["action"], turn["thought"]) == ("a room", "go north", "explore")
    (tool,) = query("select * from tool_calls where agent_state_id = %s", turn["id"])
    assert (tool["tool_name"], tool["tool_input"], tool["success"]) == ("search", {"q": "ball"}, True)
    (reward,) = query("select * from rewards where rollout_id = %s", rollout.id)
    assert (reward["reward"], reward["step_number"]) == (0.5, 0)


def test_a_rollout_of_a_step_needs_no_group(query: Query) -> None:
    name = f"without-groups-{openmanus_rl.records.ids.new_id()}"
    with start(run_name=name) as run:
        for number in (3, 4):
            with run.step(number) as step, step.rollout(task_description="balance") as rollout:
                rollout.log_turn(observation="upright", action="left", reward=1.0)
        assert run.flush(), run.stats
        of_run = "select step, group_id, task_description, total_reward from rollouts where training_run_id = %s"
        made = {"group_id": None, "task_description": "balance", "total_reward": 1.0}
        assert query(f"{of_run} order by step", run.id) == [{"step": 3, **made}, {"step": 4, **made}]
    wait_until(lambda: has_status(query, run, "completed"))
    # It goes with its step.
    start(run_name=name, rewind_to_step=3).finish()
    assert [row["step"] for row in query(f"{of_run} and rewound_at is null", run.id)] == [3]


def test_metrics_come_back_as_they_were_logged_also_when_they_are_not_finite(query: Query) -> None:
    with start() as run:
        for step in range(600):
            run.log({"loss": math.nan if step == 7 else float(step), "kl": math.inf if step == 8 else 1}, step=step)
            if step == 300:
                assert run.flush(timeout_seconds=30)  # the chunk that is open then goes on growing
        assert run.flush(timeout_seconds=30)
    points = query("select step, value from metrics where training_run_id = %s and name = 'loss' order by step", run.id)
    assert [point["step"] for point in points] == list(range(600))
    assert math.isnan(points[7]["value"])
    assert points[599]["value"] == 599.0
    assert query("select value from metrics where training_run_id = %s and name = 'kl' and step = 8", run.id)[0][
        "value"
    ] == math.inf  # fmt: skip


def test_an_exception_marks_what_it_was_in_and_is_raised_on(query: Query) -> None:
    run = start()
    step = run.step(0)
    group = step.group(task="t")
    fine, broken = group.rollout(), group.rollout()
    with fine:
        fine.log_turn(observation="a")

    def train() -> None:
        with run, step, group, broken:
            broken.log_turn(observation="b", reward=1.0)
            raise ZeroDivisionError("division by zero")

    with pytest.raises(ZeroDivisionError):
        train()
    wait_until(lambda: has_status(query, run, "failed"))
    (found,) = query("select * from rollouts where id = %s", broken.id)
    assert (found["status"], found["step_count"], found["error"]) == ("error", 1, "ZeroDivisionError: division by zero")
    assert query("select status from rollouts where id = %s", fine.id) == [{"status": "completed"}]
    (found,) = query("select * from training_steps where id = %s", step.id)
    assert (found["status"], found["status_message"]) == ("failed", "ZeroDivisionError: division by zero")


def test_a_flush_after_the_end_tells_the_truth_too(query: Query) -> None:
    with start() as run:
        run.log({"loss": 1.0}, step=0)
    assert run.flush(timeout_seconds=30)
    assert (run.stats.queued, run.stats.rejected, run.stats.lost) == (0, 0, 0)
    assert run.stats.delivered == 3
    # Also once the spool has been cleared away.
    wait_until(lambda: not list(find_spools(spool_root(load_settings()))))
    assert run.flush(timeout_seconds=0)
    assert (run.stats.queued, run.stats.delivered) == (0, 3)
    assert has_status(query, run, "completed")


def test_an_interrupted_run_is_marked_interrupted(query: Query) -> None:
    with pytest.raises(KeyboardInterrupt), start() as run, run.step(0) as step, step.rollout():
        raise KeyboardInterrupt
    assert run.flush()
    for table in ("training_steps", "rollouts"):
        (row,) = query(f"select status, status_message from {table} where training_run_id = %s", run.id)
        assert (row["status"], row["status_message"]) == ("interrupted", "KeyboardInterrupt")
    wait_until(lambda: has_status(query, run, "interrupted"))


ENDLESS = """
import sys, time, openmanus_rl
run = openmanus_rl.init(name="killed", environment="e")
print(run.id)
for number in range(100_000):
    with run.rollout(episode_number=number) as rollout:
        rollout.log_turn(observation=f"turn of {number}", reward=1.0)
        rollout.complete("success")
    print(number)
    time.sleep(0.005)
"""


@pytest.mark.parametrize("whole_group", [False, True], ids=["the process", "its process group"])
def test_what_a_call_returned_from_survives_kill_9(query: Query, whole_group: bool) -> None:
    process = script(ENDLESS, start_new_session=True)
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    for _ in range(200):
        last = int(process.stdout.readline())
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    said = [int(line) for line in process.stdout.read().split() if line.isdigit()]
    last = max([last, *said])

    # Nobody does anything: the courier outlives the loop.
    wait_until(
        lambda: (
            query("select count(*) as n from rollouts where training_run_id = %s and status = 'success'", run_id)[0][
                "n"
            ]
            > last
        )
    )
    turns = query(
        "select r.episode_number, a.observation from rollouts r join agent_states a on a.rollout_id = r.id"
        " where r.training_run_id = %s order by r.episode_number", run_id)  # fmt: skip
    assert [turn["observation"] for turn in turns[: last + 1]] == [f"turn of {number}" for number in range(last + 1)]


def test_one_bad_record_is_refused_kept_and_sent_again(query: Query, cli: Any, recorder_env: dict[str, str]) -> None:
    with start() as run:
        for number in range(200):
            with run.rollout() as rollout:
                rollout.log_turn(observation=str(number))
                if number == 100:
                    rollout.log_turn(observation="again", step_number=0)
        assert not run.flush(timeout_seconds=30)
        assert (run.stats.rejected, run.stats.lost) == (1, 0)
    assert query("select count(*) as n from rollouts where training_run_id = %s", run.id) == [{"n": 200}]
    assert query("select count(*) as n from agent_states where training_run_id = %s", run.id) == [{"n": 200}]

    def spools() -> list[Spool]:
        return list(find_spools(spool_root(load_settings())))

    (entry,) = spools()[0].refused()
    assert entry["record"]["observation"] == "again"
    assert "step_number" in entry["message"]

    # Once the cause is mended, it can be sent again.
    query("delete from agent_states where observation = '100' and training_run_id = %s returning 1", run.id)
    wait_until(lambda: cli("sync", "--refused", env=recorder_env, cwd=Path.cwd()).returncode == 0)
    assert query("select observation from agent_states where id = %s", entry["record"]["id"]) == [
        {"observation": "again"}
    ]


def test_a_value_of_the_wrong_type_loses_nothing_else(query: Query) -> None:
    with start() as run:
        for number in range(50):
            with run.rollout(seed="many" if number == 20 else number):
                pass
        assert not run.flush(timeout_seconds=30)
        # Its beginning, of which all but the seed arrives.
        assert run.stats.rejected == 1
    assert query("select count(*) as n from rollouts where training_run_id = %s", run.id) == [{"n": 50}]


def test_the_same_spool_delivered_again_changes_nothing(query: Query, tmp_path: Path) -> None:
    settings = load_settings()
    writer = SpoolWriter(tmp_path / "spools", url="x", run_id="x")
    run_id, rollout_id, turn_id = (openmanus_rl.records.ids.new_id() for _ in range(3))
    change = [openmanus_rl.records.ids.new_id() for _ in range(2)]
    writer.append("training_runs", {"id": run_id, "name": "twice", "status": "running", "status_change_id": change[0]})
    writer.append("rollouts", {"id": rollout_id, "training_run_id": run_id, "environment": "e"})
    turn = {"id": turn_id, "rollout_id": rollout_id, "step_number": 0, "rewards": [{"reward": 1.0}]}
    writer.append("agent_states", turn | {"tool_calls": [{"tool_name": "t"}]})
    for step in range(700):
        writer.append("metrics", {"run": run_id, "step": step, "values": {"loss": step}})
    writer.append(
        "rollouts", {"id": rollout_id, "status": "success", "total_reward": 1.0, "status_change_id": change[1]}
    )

    def state() -> list[Any]:
        return [
            query("select count(*), sum(value) from metrics where training_run_id = %s", run_id),
            query("select * from rollouts where id = %s", rollout_id),
            query(
                "select entity, old_status, new_status from status_history where training_run_id = %s order by 1, 2",
                run_id,
            ),
            query("select id from tool_calls where agent_state_id = %s", turn_id),
            query("select id from rewards where rollout_id = %s", rollout_id),
            query("select rollout_count, reward_sum from rollout_stats where training_run_id = %s", run_id),
        ]

    states: list[Any] = []
    for small in (300, 4096, 10**6):
        # A courier that died after the database had committed, and before it could write that down.
        (writer.folder / "progress.json").unlink(missing_ok=True)
        courier = Courier(tmp_path / "spools", connect=lambda: connect(settings), batch_bytes=small)
        courier.deliver()
        courier.close()
        progress = Spool(writer.folder).progress
        assert (progress.taken, progress.refused) == (704, 0)
        states.append(state())
        assert states[-1] == states[0]
    assert states[0][0] == [{"count": 700, "sum": float(sum(range(700)))}]
    writer.close()


def test_two_couriers_share_a_spool_without_delivering_it_twice(query: Query, tmp_path: Path) -> None:
    settings = load_settings()
    writer = SpoolWriter(tmp_path / "spools", url="x", run_id="x")
    run_id = openmanus_rl.records.ids.new_id()
    writer.append("training_runs", {"id": run_id, "name": "two couriers"})
    for number in range(500):
        writer.append("rollouts", {"training_run_id": run_id, "environment": "e", "episode_number": number,
                                   "id": openmanus_rl.records.ids.new_id()})  # fmt: skip
    couriers = [Courier(tmp_path / "spools", connect=lambda: connect(settings), batch_bytes=2000) for _ in range(2)]
    threads = [threading.Thread(target=courier.deliver) for courier in couriers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert query("select count(*) as n from rollouts where training_run_id = %s", run_id) == [{"n": 500}]
    assert Spool(writer.folder).progress.delivered == 501
    writer.close()


def test_a_forked_child_writes_to_a_spool_of_its_own(query: Query) -> None:
    code = """
import os, openmanus_rl
run = openmanus_rl.init(name="forked", environment="e")
print(run.id)
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        for number in range(50):
            with run.rollout(source="manual", seed=child * 50 + number) as rollout:
                rollout.log_turn(observation="x")
        os._exit(0)
    children.append(pid)
for number in range(50):
    run.log({"loss": number}, step=number)
for pid in children:
    os.waitpid(pid, 0)
run.finish()
"""
    process = script(code)
    run_id = process.communicate()[0].strip()
    assert process.returncode == 0

    def seeds() -> list[Any]:
        return query("select seed from rollouts where training_run_id = %s and status = 'completed' order by 1", run_id)

    wait_until(lambda: len(seeds()) == 150)
    assert [row["seed"] for row in seeds()] == list(range(150))
    wait_until(lambda: query("select count(*) as n from metrics where training_run_id = %s", run_id) == [{"n": 50}])


def test_a_worker_joins_the_run_that_its_environment_names(query: Query) -> None:
    worker = """
import openmanus_rl
with openmanus_rl.init() as run, run.step(3) as step, step.group(task="t") as group, group.rollout() as rollout:
    rollout.log_turn(observation="from a worker")
"""
    with start() as run:
        workers = [script(worker, env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "3"}) for rank in range(3)]
        assert [process.wait() for process in workers] == [0, 0, 0]

        def groups() -> list[Any]:
            return query(
                "select number, rollout_count from rollout_groups where training_run_id = %s order by 1", run.id
            )

        wait_until(lambda: groups() == [{"number": rank, "rollout_count": 1} for rank in range(3)])
        assert query("select status from training_runs where id = %s", run.id) == [{"status": "running"}]


def test_threads_and_coroutines_record_side_by_side(query: Query) -> None:
    with start() as run:

        def record(first: int) -> None:
            for number in range(first, first + 100):
                with run.rollout(seed=number) as rollout:
                    rollout.log_turn(observation="x")

        async def record_async(first: int) -> None:
            for number in range(first, first + 100):
                with run.rollout(seed=number) as rollout:
                    await asyncio.sleep(0)
                    rollout.log_turn(observation="x")

        async def all_of_them() -> None:
            await asyncio.gather(*(record_async(first) for first in (400, 500)))

        threads = [threading.Thread(target=record, args=(first,)) for first in (0, 100, 200, 300)]
        for thread in threads:
            thread.start()
        asyncio.run(all_of_them())
        for thread in threads:
            thread.join()
        assert run.flush(timeout_seconds=60)
    found = query("select seed, episode_number from rollouts where training_run_id = %s", run.id)
    assert sorted(row["seed"] for row in found) == list(range(600))
    assert sorted(row["episode_number"] for row in found) == list(range(600))


def test_a_run_goes_on_after_its_last_completed_step(query: Query) -> None:
    name = f"resumed-{openmanus_rl.records.ids.new_id()}"
    run = start(run_name=name)
    for number in range(3):
        with run.step(number):
            pass

    def train() -> None:
        with run, run.step(3):
            raise RuntimeError("cut short")

    with pytest.raises(RuntimeError):
        train()
    wait_until(lambda: has_status(query, run, "failed"))

    with start(run_name=name, resume="must") as again:
        assert (again.id, again.next_step) == (run.id, 3)
        with again.step(3):
            pass
        assert again.flush(timeout_seconds=30)
    steps = query("select step, status from training_steps where training_run_id = %s order by 1", run.id)
    assert steps == [{"step": number, "status": "completed"} for number in range(4)]
    wait_until(lambda: has_status(query, run, "completed"))
    with pytest.raises(ConflictError, match="there already"):
        start(run_name=name, resume="never")

    with start(run_name=name, resume="allow") as longer:
        assert longer.next_step == 4
        assert longer.flush(timeout_seconds=30)
        assert has_status(query, run, "running")
    wait_until(lambda: has_status(query, run, "completed"))


def test_what_init_cannot_do_is_said() -> None:
    with pytest.raises(NotFoundError, match="there is none to resume"):
        start(run_name="nobody-knows-it", resume="must")
    with pytest.raises(InvalidInput, match="needs a name"):
        openmanus_rl.init()
    with pytest.raises(InvalidInput, match="resume"):
        start(resume="perhaps")


def test_a_full_disk_keeps_records_in_memory_until_there_is_room(
    query: Query, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = load_settings()
    writer = SpoolWriter(tmp_path / "spools", url="x", run_id="x")
    run_id = openmanus_rl.records.ids.new_id()
    writer.append("training_runs", {"id": run_id, "name": "full disk"})
    real_write = os.write

    room = [20]

    def full(descriptor: int, data: bytes) -> int:
        if room:
            return real_write(descriptor, data[: room.pop()])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("openmanus_rl.spool.writer.os.write", full)
    for name in ("torn", "kept"):
        writer.append(
            "training_runs", {"id": openmanus_rl.records.ids.new_id(), "run_name": f"{run_id}-{name}", "name": name}
        )
    assert (writer.waiting, writer.lost) == (2, 0)
    monkeypatch.undo()
    writer.append("rollouts", {"id": openmanus_rl.records.ids.new_id(), "training_run_id": run_id, "environment": "e"})
    assert writer.waiting == 0
    Courier(tmp_path / "spools", connect=lambda: connect(settings)).deliver()
    found = query("select name from training_runs where run_name like %s order by name", f"{run_id}-%")
    assert [row["name"] for row in found] == ["kept", "torn"]
    writer.close()


def test_without_a_server_nothing_waits_and_nothing_is_lost(
    homes: Path, cli: Any, recorder_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
        recorder_env.pop(name, None)
    home = homes / "recorder"
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(home))
    monkeypatch.setenv("OPENMANUS_RL_AUTOSTART", "0")
    env = recorder_env | {"OPENMANUS_RL_HOME": str(home), "OPENMANUS_RL_AUTOSTART": "0"}

    with start(run_name="offline") as run:
        for step in range(100):
            run.log({"loss": step}, step=step)
        assert not run.flush(timeout_seconds=1)
        assert (run.stats.queued, run.stats.delivered, run.stats.lost) == (101, 0, 0)
        wait_until(lambda: "OPENMANUS_RL_AUTOSTART=0" in (run.stats.error or ""))

    assert cli("up", "--detach", "--port", "0", env=env).returncode == 0
    try:
        # The courier is at it by itself; whoever is quicker.
        synced = cli("sync", "--json", env=env)
        assert synced.returncode in (0, 1), synced.stderr
        wait_until(lambda: cli("sync", env=env).returncode == 0)
        assert "Nothing to deliver" in cli("sync", env=env).stdout
        shown = json.loads(cli("runs", "show", "offline", "--json", env=env).stdout)
        assert shown["run"]["status"] == "completed"
    finally:
        assert cli("down", env=env).returncode == 0


def test_what_is_no_number_is_refused_and_stops_nothing(query: Query) -> None:
    with start() as run:
        run.log({"loss": 1.0, "note": "three", "unknown": None, "flag": True}, step=0)
        run.log({"loss": 2.0}, step=-1)
        run.log({"loss": 3.0}, step=2)
        assert not run.flush(timeout_seconds=30)
        assert run.stats.rejected == 2
    points = query("select name, step, value from metrics where training_run_id = %s order by 1, 2", run.id)
    assert [tuple(point.values()) for point in points] == [("flag", 0, 1.0), ("loss", 0, 1.0), ("loss", 2, 3.0)]
    (spool,) = find_spools(spool_root(load_settings()))
    assert {entry["message"] for entry in spool.refused()} == {
        "metric 'note': a str is not a number",
        "metric 'loss': step -1 is not a whole number from 0 on",
    }


def test_every_part_of_consecutive_turns_is_recorded(query: Query) -> None:
    """The ids of parts follow from their turn's: several parts of each of many turns must not meet."""
    with start() as run, run.rollout() as rollout:
        for number in range(40):
            rollout.log_turn(
                tool_calls=[{"tool_name": f"{number}.{place}"} for place in range(5)],
                generations=[{"completion_ids": [number, place]} for place in range(3)],
                observations=[{"kind": "page", "text": f"{number}.{place}"} for place in range(3)],
                reward={"step": 1.0, "form": 2.0, "speed": 3.0},
            )
        assert run.flush(timeout_seconds=30)
        assert run.stats.rejected == 0
    (found,) = query(
        "select (select count(*) from tool_calls where training_run_id = %(run)s) as calls,"
        " (select count(distinct tool_name) from tool_calls where training_run_id = %(run)s) as names,"
        " (select count(*) from generations where training_run_id = %(run)s) as generations,"
        " (select count(*) from observations where training_run_id = %(run)s) as observations,"
        " (select count(*) from rewards where training_run_id = %(run)s) as rewards".replace("%(run)s", f"'{run.id}'")
    )
    assert found == {"calls": 200, "names": 200, "generations": 120, "observations": 120, "rewards": 120}
