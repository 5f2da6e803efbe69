"""Servers fail, runs are deleted, processes end anyhow: nothing is lost or doubled, and the reason is told."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.delivery.batches import Batch
from openmanus_rl.delivery.courier import Courier, Sink
from openmanus_rl.delivery.destination import connect
from openmanus_rl.errors import OpenManusError, TransientError
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import Spool, find_spools
from openmanus_rl.spool.writer import SpoolWriter

from . import faulty_server
from .conftest import Query, wait_until
from .faulty_server import Fault, FaultySupabase
from .test_recorder import script, start

pytestmark = pytest.mark.usefixtures("recorder_env")


def write_a_run(writer: SpoolWriter, *, name: str = "faults", rollouts: int = 20) -> str:
    run_id = new_id()
    writer.append("training_runs", {"id": run_id, "name": name, "status": "running", "status_change_id": new_id()})
    for number in range(rollouts):
        rollout_id = new_id()
        writer.append("rollouts", {"id": rollout_id, "training_run_id": run_id, "environment": "e", "seed": number})
        writer.append(
            "agent_states",
            {"id": new_id(), "rollout_id": rollout_id, "step_number": 0, "rewards": [{"reward": 1.0}]}
            | {"observation": "x" * 500, "tool_calls": [{"tool_name": "t"}]},
        )
        writer.append("metrics", {"run": run_id, "step": number, "values": {"loss": number}})
    return run_id


def counts(query: Query, run_id: str) -> tuple[int, ...]:
    (found,) = query(
        """select (select count(*) from rollouts where training_run_id = r.id) as a,
                  (select count(*) from agent_states where training_run_id = r.id) as b,
                  (select count(*) from rewards w join rollouts o on o.id = w.rollout_id
                   where o.training_run_id = r.id) as c,
                  (select count(*) from metrics where training_run_id = r.id) as d
           from training_runs r where r.id = %s""",
        run_id,
    )
    return tuple(found.values())


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (faulty_server.too_many, "too many requests"),
        (faulty_server.broken, "out of order"),
        (faulty_server.html, "text/html"),
        (faulty_server.other_json, "does not say what was refused"),
        (faulty_server.bad_request_of_a_proxy, "answered 400"),
        (faulty_server.bad_request_in_json, "no such route"),
        (faulty_server.other_host, "called omrl.test"),
        (faulty_server.half_an_answer, "call load_batch"),
        (faulty_server.slow, "too long"),
        (faulty_server.revoked, "call load_batch"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_failing_server_costs_time_and_nothing_else(
    server: FaultySupabase, query: Query, tmp_path: Path, fault: Fault, told: str
) -> None:
    settings = load_settings()
    writer = SpoolWriter(tmp_path / "spools", url="x", run_id="x")
    run_id = write_a_run(writer)
    courier = Courier(tmp_path / "spools", connect=lambda: connect(settings), batch_bytes=10_000)
    server.fault = fault
    for _ in range(2):
        with pytest.raises(OpenManusError):
            courier.deliver()
        progress = Spool(writer.folder).progress
        assert (progress.taken, progress.delivered, progress.refused) == (0, 0, 0)
        assert told in (progress.error or "")
    server.fault = None
    courier.deliver()
    progress = Spool(writer.folder).progress
    assert (progress.taken, progress.refused, progress.error) == (61, 0, None)
    assert counts(query, run_id) == (20, 20, 20, 20)
    writer.close()


def test_a_run_is_recorded_over_http_and_its_stats_say_why_it_waits(server: FaultySupabase, query: Query) -> None:
    server.fault = faulty_server.broken
    with start() as run:
        for number in range(10):
            with run.rollout(seed=number) as rollout:
                rollout.log_turn(observation=str(number), reward=1.0)
            run.log({"loss": number}, step=number)
        wait_until(lambda: "out of order" in (run.stats.error or ""))
        assert (run.stats.queued, run.stats.delivered, run.stats.lost) == (41, 0, 0)
        server.fault = None
        assert run.flush(timeout_seconds=30)
        assert (run.stats.queued, run.stats.error) == (0, None)
        assert counts(query, run.id) == (10, 10, 10, 10)
    wait_until(lambda: bool(query("select 1 from training_runs where id = %s and status = 'completed'", run.id)))


def test_the_pause_that_a_server_asks_for_is_kept(
    server: FaultySupabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: Query
) -> None:
    settings = load_settings()
    writer = SpoolWriter(tmp_path / "spools", url="x", run_id="x")
    run_id = write_a_run(writer)
    writer.close()
    server.fault = faulty_server.too_many
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        server.fault = None

    monkeypatch.setattr("openmanus_rl.delivery.courier.time.sleep", sleep)
    Courier(tmp_path / "spools", connect=lambda: connect(settings)).run(until_idle_seconds=0)
    assert pauses[0] >= 7
    assert counts(query, run_id) == (20, 20, 20, 20)


def test_what_is_too_large_for_the_server_is_refused_alone(
    server: FaultySupabase, tmp_path: Path, query: Query
) -> None:
    settings = load_settings()
    writer = SpoolWriter(tmp_path / "spools", url="x", run_id="x")
    run_id = write_a_run(writer)
    writer.append("training_runs", {"id": run_id, "description": "y" * 30_000})
    writer.append("training_runs", {"id": run_id, "current_step": 7})
    server.fault = faulty_server.refuse_large_bodies
    courier = Courier(tmp_path / "spools", connect=lambda: connect(settings))
    courier.deliver()
    assert counts(query, run_id) == (20, 20, 20, 20)
    assert query("select current_step from training_runs where id = %s", run_id) == [{"current_step": 7}]
    (entry,) = Spool(writer.folder).refused()
    assert len(entry["record"]["description"]) == 30_000
    assert "413" in entry["message"]

    server.fault = None
    Spool(writer.folder).ask_to_resend()
    courier.deliver()
    assert query("select length(description) as n from training_runs where id = %s", run_id) == [{"n": 30_000}]
    assert Spool(writer.folder).refused() == []
    writer.close()


def test_fifty_megabytes_in_one_turn_arrive(query: Query) -> None:
    with start() as run:
        with run.rollout() as rollout:
            rollout.log_turn(observation="x" * 50_000_000)
            rollout.log_turn(observation="small")
        assert run.flush(timeout_seconds=60)
    found = query("select length(observation) as n from agent_states where rollout_id = %s order by 1", rollout.id)
    assert [row["n"] for row in found] == [5, 50_000_000]


def test_text_that_postgres_cannot_hold_is_stored_with_marks(query: Query) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with start(config={"seed": 2**70, (1, 2): "pair"}) as run:
        with run.rollout() as rollout:
            rollout.log_turn(observation="a\0b", action="half \ud83d", reward={"step": 0.5, "odd": 10**400})
            rollout.log_turn(observation="c", tool_calls=[{"tool_name": "t", "tool_input": {"x": loop}}])
            rollout.log_turn(observation="d", observations=["not a record"])
        run.log({"flops": 10**30}, step=0)
        run.flush(timeout_seconds=30)
        assert run.stats.lost == 0
        # The reward that is no number, and the turn with something on it that is no record.
        assert run.stats.rejected == 2
    found = query("select observation, action from agent_states where rollout_id = %s order by step_number", rollout.id)
    assert [tuple(row.values()) for row in found] == [("a\u2400b", "half \ufffd"), ("c", None)]
    assert query("select config from training_runs where id = %s", run.id) == [
        {"config": {"seed": str(2**70), "(1, 2)": "pair"}}
    ]
    assert query("select value from metrics where training_run_id = %s", run.id) == [{"value": 1e30}]


def test_a_run_deleted_while_it_is_written_stops_nothing(query: Query) -> None:
    settings = load_settings()
    with start() as run:
        rollout = run.rollout()
        rollout.log_turn(observation="before")
        assert run.flush(timeout_seconds=30)
        query("delete from training_runs where id = %s returning 1", run.id)
        rollout.log_turn(observation="after")
        run.log({"loss": 1.0}, step=0)
        with run.rollout() as another:
            another.log_turn(observation="of another")
        assert not run.flush(timeout_seconds=30)
        stats = run.stats
        assert (stats.queued, stats.lost) == (0, 0)
        assert stats.rejected >= 4
    assert query("select 1 from rollouts where training_run_id = %s", run.id) == []
    (spool,) = find_spools(spool_root(settings))
    assert {"after", "of another"} <= {entry["record"].get("observation") for entry in spool.refused()}


def test_orphans_are_tried_again_only_for_a_while(query: Query, tmp_path: Path) -> None:
    settings = load_settings()
    writer = SpoolWriter(tmp_path / "spools", url="x", run_id="x")
    run_id = new_id()
    writer.append("rollouts", {"id": new_id(), "training_run_id": run_id, "environment": "e"})
    writer.close()
    Courier(tmp_path / "spools", connect=lambda: connect(settings)).deliver()
    assert [entry["code"] for entry in Spool(writer.folder).refused()] == ["OM404"]
    query("insert into training_runs (id, name) values (%s, 'late') returning 1", run_id)
    Courier(tmp_path / "spools", connect=lambda: connect(settings), orphan_patience_seconds=0).deliver()
    assert len(Spool(writer.folder).refused()) == 1
    Courier(tmp_path / "spools", connect=lambda: connect(settings)).deliver()
    assert not writer.folder.exists()
    assert query("select count(*) as n from rollouts where training_run_id = %s", run_id) == [{"n": 1}]


BEGIN = """
import os, sys, threading, openmanus_rl
run = openmanus_rl.init(name="ends anyhow", environment="e")
print(run.id, flush=True)
run.log({"loss": 1.0}, step=0)
"""


@pytest.mark.parametrize(
    ("end", "status", "message"),
    [
        ("pass", "completed", None),
        ("sys.exit(0)", "completed", None),
        ("sys.exit(3)", "failed", "SystemExit: 3"),
        ("raise ValueError('no such layer')", "failed", "ValueError: no such layer"),
        ("run.finish()\nrun.log({'late': 1}, step=1)", "completed", None),
        ("t = threading.Thread(target=sys.exit); t.start(); t.join(); run.finish()", "completed", None),
        ("os._exit(0)", "interrupted", "the process that recorded it ended before it did"),
    ],
)
def test_a_process_may_end_as_it_likes(query: Query, end: str, status: str, message: str | None) -> None:
    process = script(BEGIN + end)
    run_id = process.communicate()[0].strip()

    def found() -> list[dict[str, Any]]:
        return query("select status, status_message from training_runs where id = %s", run_id)

    wait_until(lambda: found() == [{"status": status, "status_message": message}])
    wait_until(lambda: query("select name from metrics where training_run_id = %s", run_id) == [{"name": "loss"}])


def test_a_forked_child_that_ends_does_not_end_the_run(query: Query) -> None:
    process = script(BEGIN + "pid = os.fork()\nif pid == 0: sys.exit()\nos.waitpid(pid, 0)\nrun.finish()")
    run_id = process.communicate()[0].strip()
    wait_until(lambda: bool(query("select 1 from training_runs where id = %s and status = 'completed'", run_id)))
    changes = query("select new_status from status_history where training_run_id = %s", run_id)
    assert {row["new_status"] for row in changes} == {"running", "completed"}


def test_delivery_goes_on_when_the_folder_that_training_began_in_is_gone(
    server: FaultySupabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    run = start()
    assert run.flush(timeout_seconds=30)
    monkeypatch.chdir(tmp_path)
    gone.rmdir()
    server.fault = faulty_server.broken
    run.log({"loss": 1.0}, step=1)
    wait_until(lambda: run.stats.error is not None)
    server.fault = None
    assert run.flush(timeout_seconds=30), run.stats
    run.finish()


def test_a_silent_run_is_not_taken_for_dead(query: Query) -> None:
    run_id = new_id()
    recording = Recording(load_settings(), run_id=run_id, heartbeat_seconds=0.1)
    recording.append("training_runs", {"id": run_id, "name": "silent", "status": "running"})
    wait_until(lambda: bool(query("select 1 from training_runs where id = %s", run_id)))
    query(
        "update training_runs set heartbeat_at = now() - interval '1 hour', started_at = now() - interval '1 hour'"
        " where id = %s returning 1",
        run_id,
    )

    def shown() -> Any:
        return query("select shown_status from run_overview where id = %s", run_id)[0]["shown_status"]

    wait_until(lambda: shown() == "running")
    # Of a run that is gone there is nothing to say, and nothing to refuse.
    query("delete from training_runs where id = %s returning 1", run_id)
    delivered = recording.stats.delivered
    wait_until(lambda: recording.stats.delivered > delivered + 2)
    assert recording.stats.rejected == 0
    recording.close()


class Away:
    def load(self, _batch: Any) -> list[dict[str, Any]]:
        raise TransientError("nobody answers")


def test_status_tells_what_waits_and_why(cli: Any, recorder_env: dict[str, str]) -> None:
    root = spool_root(load_settings())
    first, second = (SpoolWriter(root, url="x", run_id="x") for _ in range(2))
    for writer in (first, second):
        writer.append("training_runs", {"id": new_id(), "name": "waits"})
    settings = load_settings()
    ways: list[Sink] = [connect(settings), Away(), Away()]
    courier = Courier(root, connect=ways.pop)
    with pytest.raises(TransientError):
        courier.deliver()
    # Both are told.
    assert [spool.progress.error for spool in find_spools(root)] == ["nobody answers"] * 2
    report = json.loads(cli("status", "--json", env=recorder_env, cwd=Path.cwd()).stdout)["recording"]
    assert (report["spools"], report["refused"], report["error"]) == (2, 0, "nobody answers")
    assert report["queued"] == 2
    assert report["queued_bytes"] > 100
    assert "nobody answers" in cli("status", env=recorder_env, cwd=Path.cwd()).stdout
    for writer in (first, second):
        writer.close()
    courier.deliver()
    report = json.loads(cli("status", "--json", env=recorder_env, cwd=Path.cwd()).stdout)["recording"]
    assert report == {"spools": 0, "queued": 0, "queued_bytes": 0, "refused": 0, "damaged": 0, "error": None}


class Impatient:
    """Takes what is small, and never answers in time what is large."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def load(self, batch: Batch) -> list[dict[str, Any]]:
        if len(json.dumps(batch)) > 200_000:
            raise TransientError("took too long")
        self.ids += [record["id"] for record in batch["agent_states"]]
        return []


def test_a_batch_that_always_takes_too_long_is_sent_in_smaller_ones() -> None:
    root = spool_root(load_settings())
    writer = SpoolWriter(root, url="x", run_id="x")
    written = [new_id() for _ in range(300)]
    for number, turn_id in enumerate(written):
        turn = {"id": turn_id, "rollout_id": new_id(), "step_number": number, "observation": "x" * 5000}
        writer.append("agent_states", turn)
    writer.close()
    sink = Impatient()
    courier = Courier(root, connect=lambda: sink)
    for _ in range(10):
        with suppress(TransientError):
            courier.deliver()
    assert sink.ids == written  # each once, in their order
