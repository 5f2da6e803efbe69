"""`openmanus-rl runs`: found by id, prefix or name, shown, compared and deleted."""

from __future__ import annotations

import sys
import time
from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import (
    EvaluationManager,
    MetricManager,
    ModelCheckpointManager,
    RolloutManager,
    TrainingRunManager,
)
from openmanus_rl.utils.supabase_storage import StorageManager


@pytest.fixture
def environment() -> str:
    """A name that no other test uses, to list by."""
    return f"env-{uuid4().hex[:12]}"


@pytest.fixture
def run(environment: str) -> Row:
    return TrainingRunManager.create_run(
        "a [bold] run",
        algorithm="gigpo",
        environment=environment,
        config={"lr": 0.1},
        run_name=f"name-{environment}",
        total_steps=10,
    )


def test_a_list_is_filtered_sorted_limited_and_counted(cli: Any, environment: str) -> None:
    for number, algorithm in enumerate(["ppo", "ppo", "grpo"]):
        TrainingRunManager.create_run(f"run {number}", algorithm=algorithm, environment=environment)
    listed = cli("runs", "list", "--environment", environment, "--algorithm", "ppo", "--sort", "name", "--json").json
    assert [row["name"] for row in listed["runs"]] == ["run 0", "run 1"]
    assert listed["total"] == 2
    newest = cli("runs", "list", "--environment", environment, "--limit", "1", "--json").json
    assert [row["name"] for row in newest["runs"]] == ["run 2"]
    assert newest["total"] == 3
    assert cli("runs", "list", "--environment", environment, "--status", "failed").out.strip() == "No runs match"


def test_people_can_copy_whole_ids_from_the_list(cli: Any, run: Row, environment: str) -> None:
    done = cli("runs", "list", "--environment", environment)
    assert run["id"] in done.out
    assert "1 of 1" in done.out


@pytest.mark.parametrize("reference", ["id", "id_start", "run_name"])
def test_a_run_is_found_by_id_by_the_start_of_it_and_by_run_name(cli: Any, run: Row, reference: str) -> None:
    given = {"id": run["id"], "id_start": run["id"][:30].upper(), "run_name": run["run_name"]}[reference]
    assert cli("runs", "show", given, "--json").json["run"]["id"] == run["id"]


@pytest.mark.parametrize("reference", ["nothing-like-it", "ffffffff", "", "%", "ff"])
def test_what_is_not_there_is_said_with_the_way_out(cli: Any, reference: str) -> None:
    done = cli("runs", "show", reference)
    assert done.code == 1
    assert repr(reference) in done.message
    assert "openmanus-rl runs list" in done.message


def test_a_start_that_several_ids_share_names_them(cli: Any, environment: str) -> None:
    start = uuid4().hex[:16]
    ids = {f"{start[:8]}-{start[8:12]}-{start[12:]}-8000-{number:012x}" for number in range(2)}
    for run_id in ids:
        TrainingRunManager.create_run("twin", environment=environment, run_id=run_id)
    done = cli("runs", "show", start)
    assert done.code == 1
    assert all(run_id in done.message for run_id in ids)


def test_show_tells_progress_counts_metrics_evaluations_checkpoints_and_history(cli: Any, run: Row) -> None:
    MetricManager.append(run["id"], {"loss": [(step, 1.0 / (step + 1)) for step in range(50)]})
    for kind, step, rate in (("baseline", 0, 0.25), ("eval", 5, 0.75)):
        evaluation = EvaluationManager.create_evaluation(run["id"], kind=kind, step=step)  # type: ignore[arg-type]
        EvaluationManager.complete_evaluation(evaluation["id"], success_rate=rate)
    ModelCheckpointManager.save_checkpoint(run["id"], 5, storage_path="somewhere/checkpoint_5.pt", size_bytes=2048)
    rollout = RolloutManager.create_rollout(run["id"], 0, task_description="find it")
    RolloutManager.complete_rollout(rollout["id"], "success", total_reward=2.0, step_count=4)
    TrainingRunManager.heartbeat(run["id"], progress=0.5, current_step=5)
    TrainingRunManager.update_status(run["id"], "failed", message="out of memory")

    done = cli("runs", "show", run["run_name"])
    assert done.code == 0, done.err
    shown = " ".join(done.out.split())
    assert "a [bold] run failed" in shown
    assert "50%, step 5 of 10" in shown
    assert "1, of which 1 completed, 1 successful (100%)" in shown
    assert "+50 points" in shown
    assert "somewhere/checkpoint_5.pt" in shown
    assert "out of memory" in shown
    assert "running → failed" in shown
    assert "█" in shown

    report = cli("runs", "show", run["id"], "--json").json
    assert report["metrics"]["loss"]["last_step"] == 49
    assert report["metrics"]["loss"]["last_value"] == pytest.approx(0.02)
    assert report["counts"]["average_reward"] == 2.0


def test_a_run_without_anything_can_be_shown(cli: Any, run: Row) -> None:
    done = cli("runs", "show", run["id"])
    assert done.code == 0, done.err
    assert "0, of which 0 completed" in done.out


def test_a_run_whose_heartbeat_stopped_is_shown_as_stalled(cli: Any, environment: str) -> None:
    run = TrainingRunManager.create_run("silent", environment=environment, heartbeat_timeout_seconds=1)
    time.sleep(1.2)
    listed = cli("runs", "list", "--environment", environment, "--status", "stalled", "--json").json
    assert [row["id"] for row in listed["runs"]] == [run["id"]]
    assert "stalled" in cli("runs", "show", run["id"]).out


def test_compare_puts_figures_and_differing_config_side_by_side(cli: Any, run: Row, environment: str) -> None:
    other = TrainingRunManager.create_run("other", environment=environment, config={"lr": 0.2, "same": 1})
    rows = cli("runs", "compare", run["id"], other["id"], "--json").json
    assert [row["run_id"] for row in rows] == [run["id"], other["id"]]
    done = cli("runs", "compare", run["run_name"], other["id"])
    line = next(line for line in done.out.splitlines() if line.startswith("config lr"))
    assert line.split()[2:] == ["0.1", "0.2"]
    assert cli("runs", "compare", run["id"]).code == 2


def test_delete_removes_the_record_and_the_files_but_asks_first(cli: Any, run: Row, tmp_path: Any) -> None:
    weights = tmp_path / "weights.json"
    weights.write_text("{}")
    StorageManager.upload_checkpoint(training_run_id=run["id"], checkpoint_number=1, checkpoint_file=weights)
    checkpoint = ModelCheckpointManager.save_checkpoint(run["id"], 1)
    StorageManager.upload_evaluation_result(checkpoint["id"], "house", weights)

    refused = cli("runs", "delete", run["id"], "--json")
    assert refused.code == 2
    assert "--yes" in refused.message
    assert TrainingRunManager.get_run(run["id"])

    done = cli("runs", "delete", run["id"], "--yes", "--json")
    assert done.json == {"deleted": run["id"], "rollouts": 0, "files": 2}
    assert cli("runs", "show", run["id"]).code == 1
    assert not StorageManager.list_files("model-checkpoints", run["id"]).rows


def test_who_declines_to_delete_keeps_the_run(cli: Any, run: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda *_: "n\n", raising=False)
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    assert cli("runs", "delete", run["id"]).code == 1
    assert TrainingRunManager.get_run(run["id"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("list", "--status", "sleeping"), "stalled"),
        (("list", "--sort", "colour"), "progress"),
        (("list", "--limit", "0"), "--limit"),
        (("list", "--offset", "-1"), "--offset"),
        (("show",), "RUN"),
    ],
)
def test_bad_input_is_refused_with_what_is_possible(cli: Any, arguments: tuple[str, ...], named: str) -> None:
    done = cli("runs", *arguments)
    assert done.code == 2
    assert named in done.message


def test_an_error_is_json_when_json_was_asked_for(cli: Any) -> None:
    done = cli("runs", "show", "no-such-run", "--json")
    assert done.code == 1
    assert done.json["error"]["code"] == "not_found"


@pytest.mark.parametrize("noun", ["runs", "rollouts", "members"])
def test_every_command_has_help_with_an_example(cli: Any, noun: str) -> None:
    commands = {"runs": ["list", "show", "compare", "delete"], "rollouts": ["list", "show"]}
    for command in commands.get(noun, ["add", "set-role", "remove"]):
        done = cli(noun, command, "--help")
        assert done.code == 0
        assert f"openmanus-rl {noun} {command} " in done.out
