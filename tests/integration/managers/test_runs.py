"""Training runs through their manager, on a real database."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError, TransitionError
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.filters import Filter
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import MetricManager, StatusHistoryManager, TrainingRunManager

Runs = type[TrainingRunManager]


def test_a_run_is_read_back_as_it_was_created(runs: Runs) -> None:
    made = runs.create_run(
        "cartpole", algorithm="ppo", environment="CartPole-v1", config={"lr": 3e-4, "layers": [64, 64]}, tags=["a", "b"]
    )

    assert runs.get_run(made["id"]) == made
    assert made["status"] == "running"
    assert made["config"] == {"lr": 3e-4, "layers": [64, 64]}
    assert made["tags"] == ["a", "b"]
    assert made["progress"] is None


def test_a_run_is_found_by_its_run_name(runs: Runs) -> None:
    run_name = f"resume-{uuid4()}"
    made = runs.create_run("x", run_name=run_name)

    assert runs.get_by_run_name(run_name)["id"] == made["id"]
    assert runs.find_by_run_name("no such run") is None
    with pytest.raises(NotFoundError, match="training run 'no such run': unknown") as caught:
        runs.get_by_run_name("no such run")
    assert caught.value.field == "run_name"


def test_a_taken_run_name_is_a_conflict_that_names_it(runs: Runs) -> None:
    run_name = f"taken-{uuid4()}"
    runs.create_run("x", run_name=run_name)

    with pytest.raises(ConflictError, match=run_name) as caught:
        runs.create_run("y", run_name=run_name)
    assert caught.value.field == "run_name"


def test_the_same_id_makes_one_run_and_never_sets_its_status_back(runs: Runs) -> None:
    run_id = new_id()
    runs.create_run("x", run_id=run_id)
    runs.finish(run_id)

    again = runs.create_run("x", run_id=run_id)

    assert again["status"] == "completed"
    assert runs.list_runs(filters=[Filter.eq("id", run_id)], count=True).total == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 501}, "name"),
        ({"name": "x", "total_steps": -1}, "total_steps"),
        ({"name": "x", "visibility": "secret"}, "visibility"),
        ({"name": "x", "status": "sleeping"}, "status"),
        ({"name": "x", "heartbeat_timeout_seconds": 0}, "heartbeat_timeout_seconds"),
        ({"name": "x", "config": {"lr": float("nan")}}, "config.lr"),
        ({"name": "x", "run_id": "7"}, "id"),
    ],
)
def test_what_a_run_cannot_be_is_refused_by_its_field(runs: Runs, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        runs.create_run(**fields)

    assert caught.value.field == field


def test_lists_filter_sort_page_and_count(runs: Runs) -> None:
    algorithm = f"algo-{uuid4()}"
    made = [runs.create_run(f"run {index}", algorithm=algorithm, tags=[f"t{index}"]) for index in range(5)]
    runs.finish(made[0]["id"], status="failed")

    newest = runs.list_runs(algorithm=algorithm, limit=2, count=True)
    rest = runs.list_runs(algorithm=algorithm, limit=10, offset=newest.next_offset or 0)

    assert [row["name"] for row in (*newest, *rest)] == ["run 4", "run 3", "run 2", "run 1", "run 0"]
    assert (newest.total, newest.next_offset, rest.next_offset) == (5, 2, None)
    assert [row["name"] for row in runs.list_runs(algorithm=algorithm, status="failed")] == ["run 0"]
    assert len(runs.list_runs(algorithm=algorithm, status=["failed", "running"])) == 5
    assert [row["name"] for row in runs.list_runs(algorithm=algorithm, tag="t3")] == ["run 3"]
    assert [row["name"] for row in runs.list_runs(algorithm=algorithm, name_contains="UN 2")] == ["run 2"]
    assert [row["name"] for row in runs.list_runs(algorithm=algorithm, order_by="name", limit=1)] == ["run 0"]
    assert runs.list_runs(algorithm=algorithm, offset=50, count=True).rows == []


def test_a_json_path_can_be_filtered_by(runs: Runs) -> None:
    marker = str(uuid4())
    made = runs.create_run("x", config={"optimizer": {"name": marker}})

    found = runs.list_runs(filters=[Filter.eq("config->optimizer->>name", marker)])

    assert [row["id"] for row in found] == [made["id"]]


def test_a_status_moves_with_its_metrics_and_leaves_a_history(runs: Runs, client: Client, run: Row) -> None:
    runs.update_status(run["id"], "interrupted", {"reward": 1.0}, message="preempted")
    runs.update_status(run["id"], "running")
    done = runs.update_status(run["id"], "completed", metrics={"loss": 0.1})

    assert done["summary"] == {"reward": 1.0, "loss": 0.1}
    assert done["finished_at"] is not None
    history = StatusHistoryManager.using(client).list_changes(entity_id=run["id"])
    assert [(change["old_status"], change["new_status"], change["message"]) for change in history] == [
        (None, "running", None),
        ("running", "interrupted", "preempted"),
        ("interrupted", "running", None),
        ("running", "completed", None),
    ]
    assert StatusHistoryManager.using(client).get_change(history[1]["id"]) == history[1]


def test_a_completed_run_cannot_run_again(runs: Runs, run: Row) -> None:
    runs.finish(run["id"], summary={"reward": 2})

    with pytest.raises(TransitionError, match="cannot go from completed to running") as caught:
        runs.update_status(run["id"], "running")
    assert caught.value.field == "status"
    assert runs.get_run(run["id"])["status"] == "completed"


def test_an_unknown_run_is_not_found_by_any_call(runs: Runs) -> None:
    unknown = new_id()
    for call in (
        lambda: runs.get_run(unknown),
        lambda: runs.update_status(unknown, "completed"),
        lambda: runs.update_run(unknown, name="x"),
        lambda: runs.finish(unknown),
        lambda: runs.heartbeat(unknown),
        lambda: runs.get_metrics(unknown),
        lambda: runs.delete_run(unknown),
    ):
        with pytest.raises(NotFoundError, match=unknown):
            call()


def test_what_is_not_an_id_is_said_before_asking(runs: Runs) -> None:
    with pytest.raises(InvalidInput, match="run_id 'run-1' is not an id"):
        runs.get_run("run-1")


def test_updates_merge_objects_and_leave_the_rest(runs: Runs, run: Row) -> None:
    changed = runs.update_run(run["id"], config={"batch": 32}, description="second try", visibility="public")

    assert changed["config"] == {"lr": 1e-4, "batch": 32}
    assert (changed["name"], changed["description"], changed["visibility"]) == ("a run", "second try", "public")


def test_a_run_that_only_logs_metrics_is_as_far_as_they_are(runs: Runs, client: Client) -> None:
    run = runs.create_run(name="only logs", total_steps=2)
    for step in (0, 1):
        MetricManager.using(client).log(run["id"], {"loss": 1.0}, step=step)
    listed = runs.list_runs(filters=[Filter.eq("id", run["id"])])[0]
    for found in (runs.get_run(run["id"]), listed):
        assert (found["current_step"], found["progress"]) == (1, 1)
    assert listed["steps_done"] == 2


def test_a_heartbeat_notes_progress(runs: Runs, run: Row) -> None:
    beat = runs.heartbeat(run["id"], progress=0.25, current_step=10)

    found = runs.get_run(run["id"])
    assert (found["heartbeat_at"], found["progress"], found["current_step"]) == (beat, 0.25, 10)


def test_a_run_whose_heartbeat_stopped_is_shown_as_stalled(runs: Runs, client: Client) -> None:
    made = runs.create_run(f"silent {uuid4()}", heartbeat_timeout_seconds=60)
    assert client.database_url is not None
    with psycopg.connect(client.database_url) as connection:
        connection.execute(
            "update public.training_runs set heartbeat_at = now() - interval '2 minutes' where id = %s", [made["id"]]
        )

    assert [row["id"] for row in runs.list_runs(name_contains=made["name"], shown_status="stalled")] == [made["id"]]
    runs.heartbeat(made["id"])
    assert runs.list_runs(name_contains=made["name"], shown_status="stalled").rows == []


def test_deleting_a_run_takes_what_hangs_on_it(runs: Runs, run: Row, rollout: Row, rollouts: Any) -> None:
    runs.delete_run(run["id"])

    with pytest.raises(NotFoundError):
        runs.get_run(run["id"])
    with pytest.raises(NotFoundError):
        rollouts.get_rollout(rollout["id"])


def test_the_publishable_key_sees_public_runs_alone(runs: Runs, client: Client, run: Row) -> None:
    public = runs.create_run("shown", visibility="public")
    anyone = TrainingRunManager.using(client.as_anonymous())

    assert anyone.get_run(public["id"])["name"] == "shown"
    with pytest.raises(NotFoundError):
        anyone.get_run(run["id"])


def test_the_class_itself_uses_the_settings(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY"):
        monkeypatch.setenv(name, stack.env[name])

    made = TrainingRunManager.create_run(name="by the settings")

    assert TrainingRunManager.get_run(made["id"]) == made
