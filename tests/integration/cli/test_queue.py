"""Rollouts on demand from the command line: tasks, environments, requests, the queue and its workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.records.ids import task_id
from openmanus_rl.utils.supabase_db import EnvironmentManager, QueueManager, RolloutManager, TaskManager


@pytest.fixture
def provider() -> str:
    """A kind of environment that only this test's workers can start: others share the database."""
    return f"kind-{uuid4()}"


@pytest.fixture
def environment(provider: str) -> str:
    return EnvironmentManager.save_environment(f"environment-{uuid4()}", kind=provider)["name"]


@pytest.fixture
def task(environment: str) -> str:
    """The id under which a task was imported."""
    external_id = f"balls-{uuid4()}"
    TaskManager.save_task("count the [red] balls", environment=environment, external_id=external_id)
    return external_id


def write_tasks(folder: Path, tasks: list[object]) -> str:
    path = folder / "tasks.json"
    path.write_text(json.dumps(tasks))
    return str(path)


# Tasks


def test_tasks_are_imported_listed_shown_and_deleted(cli: Any, tmp_path: Path) -> None:
    environment = f"shop-{uuid4()}"
    path = write_tasks(
        tmp_path,
        [
            {
                "id": "sum",
                "task": "How much?",
                "answer": 3,
                "validators": [{"kind": "numeric", "spec": {"expected": 3}}],
            },
            {"id": "list", "task": "Which [bold]rooms?", "answer": ["kitchen"]},
        ],
    )

    done = cli("tasks", "import", path, "--environment", environment)
    assert done.code == 0, done.err
    assert "2 tasks imported" in done.out
    listed = cli("tasks", "list", "--environment", environment, "--json").json["tasks"]
    assert {row["external_id"]: row["rollouts"] for row in listed} == {"sum": 0, "list": 0}
    assert "Which [bold]rooms?" in cli("tasks", "list", "--environment", environment, "--search", "rooms").out
    shown = cli("tasks", "show", "sum", "--environment", environment)
    assert "numeric" in shown.out
    assert cli("tasks", "show", task_id(environment, "sum"), "--json").json["task"]["expected_answer"] == "3"
    assert cli("tasks", "delete", "sum", "--environment", environment, "--yes").code == 0
    gone = cli("tasks", "show", "sum", "--environment", environment, "--json")
    assert (gone.code, gone.json["error"]["code"]) == (1, "not_found")


def test_every_bad_entry_is_shown_and_the_good_ones_are_imported(cli: Any, tmp_path: Path) -> None:
    environment = f"shop-{uuid4()}"
    tasks = [{"id": "a", "task": "x"}, {"id": "b"}, 5, {"id": "../../x", "task": "x"}, {"id": "c", "task": "x"}]
    path = write_tasks(tmp_path, tasks)

    done = cli("tasks", "import", path, "--environment", environment)
    assert done.code == 1
    assert "2 tasks imported, 3 refused" in done.out
    assert [line for line in ("entry 2", "entry 3", "entry 4") if line not in done.err] == []
    report = cli("tasks", "import", path, "--environment", environment, "--json")
    assert (report.code, report.json["count"]) == (1, 2)
    assert [problem["where"] for problem in report.json["problems"]] == ["entry 2", "entry 3", "entry 4"]
    assert len(cli("tasks", "list", "--environment", environment, "--json").json["tasks"]) == 2


@pytest.mark.parametrize("name", ["missing.json", ""])
def test_a_path_without_tasks_is_an_error_that_names_it(cli: Any, tmp_path: Path, name: str) -> None:
    done = cli("tasks", "import", str(tmp_path / name))
    assert done.code == 1
    assert str(tmp_path) in done.err


def test_a_harbor_folder_is_imported_with_its_environment_and_files(cli: Any, tmp_path: Path) -> None:
    name = f"hello-{uuid4()}"
    folder = tmp_path / "set" / name
    (folder / "tests").mkdir(parents=True)
    (folder / "environment").mkdir()
    (folder / "solution").mkdir()
    (folder / "task.toml").write_text('schema_version = "1.0"\n')
    (folder / "instruction.md").write_text("Say hello")
    (folder / "environment" / "Dockerfile").write_text("FROM debian\n")
    (folder / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    (folder / "solution" / "solve.sh").write_text("echo hello\n")

    done = cli("tasks", "import", str(tmp_path / "set"), "--json")
    assert done.code == 0, done.json
    assert (done.json["count"], done.json["files"], done.json["environments"]) == (1, 1, [f"harbor/{name}"])
    row = TaskManager.get_task(done.json["tasks"][0])
    assert EnvironmentManager.get_environment(f"harbor/{name}")["kind"] == "docker"
    assert row["files_path"].startswith(f"{row['id']}/")
    assert StorageManager.file_exists("task-files", row["files_path"])

    again = cli("tasks", "import", str(tmp_path / "set"), "--json").json
    assert (again["tasks"], again["files"]) == ([row["id"]], 0)
    assert TaskManager.get_task(row["id"])["version"] == row["version"]
    (folder / "tests" / "test.sh").write_text("echo 0 > /logs/verifier/reward.txt\n")
    assert cli("tasks", "import", str(tmp_path / "set"), "--json").json["files"] == 1
    changed = TaskManager.get_task(row["id"])
    assert (changed["version"], changed["files_path"] == row["files_path"]) == (row["version"] + 1, False)


# Environments


def test_environments_are_saved_from_files_and_replaced(cli: Any, tmp_path: Path) -> None:
    name = f"pole-{uuid4()}"
    spec = tmp_path / "pole.toml"
    spec.write_text('kind = "gymnasium"\nid = "CartPole-v1"\narguments = { sutton_barto_reward = true }\n')
    assert "version 1" in cli("environments", "save", name, str(spec)).out
    spec = tmp_path / "pole.json"
    spec.write_text('{"kind": "gymnasium", "id": "CartPole-v1"}')
    assert cli("environments", "save", name, str(spec), "--json").json["version"] == 2
    shown = cli("environments", "show", name, "--json").json
    assert (shown["kind"], shown["spec"]) == ("gymnasium", {"id": "CartPole-v1"})
    assert name in cli("environments", "list", "--limit", "1000").out
    assert cli("environments", "delete", name, "--yes").code == 0
    assert cli("environments", "show", name).code == 1


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"kind": "spaceship"}', "kind"),
        ('{"kind": "gymnasium"}', "id"),
        ('{"kind": "gymnasium", "id": "CartPole-v1", "colour": "red"}', "colour"),
        ("[]", "kind"),
        ("{", "JSON"),
    ],
)
def test_a_wrong_spec_is_not_saved_and_names_the_field(cli: Any, tmp_path: Path, text: str, field: str) -> None:
    name = f"wrong-{uuid4()}"
    spec = tmp_path / "spec.json"
    spec.write_text(text)
    done = cli("environments", "save", name, str(spec))
    assert done.code == 1
    assert field in done.err
    assert EnvironmentManager.find_environment(name) is None


# Asking


def test_rollouts_are_asked_for_cancelled_retried_and_deleted(cli: Any, task: str) -> None:
    asked = cli(
        "rollouts", "new", "--task", task, "--attempts", "2", "--agent", "noop", "--model", "m", "--seed", "7",
        "--priority", "3", "--limit", "max_steps=50", "--limit", "max_cost_usd=0.5",
        "--option", "temperature=0.7", "--option", "style=short=er", "--json",
    )  # fmt: skip
    assert asked.code == 0, asked.err
    first, second = asked.json["rollouts"]
    assert (first["agent"], first["model"], first["seed"], second["seed"], first["priority"]) == ("noop", "m", 7, 8, 3)
    assert first["request"]["limits"] == {"max_steps": 50, "max_cost_usd": 0.5}
    assert first["request"]["agent_options"] == {"temperature": 0.7, "style": "short=er"}

    assert "cancelled" in cli("rollouts", "cancel", first["id"], second["id"]).out
    assert cli("rollouts", "retry", first["id"], "--json").json["rollouts"][0]["status"] == "pending"
    assert cli("rollouts", "retry", first["id"], "--json").json["rollouts"][0]["attempt"] == 2
    assert f"{first['id']} deleted" in cli("rollouts", "delete", first["id"], "--yes").out
    assert cli("rollouts", "show", first["id"]).code == 1


def test_what_is_asked_is_printed_for_people(cli: Any, task: str) -> None:
    done = cli("rollouts", "new", "--task", task, "--attempts", "25", "--agent", "noop")
    assert done.code == 0, done.err
    assert "count the [red] balls" in done.out
    assert "and 5 more" in done.out
    assert "25 rollouts in the queue" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "max_steps"], "NAME=VALUE is expected"),
        (["--limit", "steps=5"], "is not one of max_steps"),
        (["--limit", "max_steps=many"], "a number is expected"),
        (["--limit", "max_steps=true"], "a number is expected"),
        (["--option", "=5"], "NAME=VALUE is expected"),
        (["--attempts", "0"], "attempts"),
        (["--priority", "5000"], "priority"),
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(
    cli: Any, task: str, arguments: list[str], message: str
) -> None:
    done = cli("rollouts", "new", "--task", task, *arguments)
    assert done.code == 2
    assert message in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize("reference", ["../../x", "%2e%2e", "", "x" * 5000])
def test_an_unknown_task_is_an_error(cli: Any, reference: str) -> None:
    done = cli("rollouts", "new", "--task", reference, "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "OM404")


def test_an_evaluation_is_asked_for(cli: Any, task: str, environment: str) -> None:
    asked = cli(
        "rollouts", "evaluate", "--model", "m", "--environment", environment, "--attempts", "2", "--name", "nightly",
        "--json",
    )  # fmt: skip
    assert asked.code == 0, asked.err
    assert asked.json["evaluation"]["name"] == "nightly"
    assert len(asked.json["rollouts"]) == 2
    by_task = cli("rollouts", "evaluate", "--agent", "noop", "--task", task, "--baseline")
    assert "1 rollout in the queue" in by_task.out
    assert cli("rollouts", "evaluate", "--model", "m").code == 2
    assert cli("rollouts", "evaluate", "--environment", environment).code == 2
    assert cli("rollouts", "evaluate", "--model", "m", "--environment", "nowhere").code == 1


# The queue and its workers


def test_the_queue_shows_what_waits_what_runs_and_who_works(
    cli: Any, task: str, environment: str, provider: str
) -> None:
    rollouts = QueueManager.request_rollouts(task, environment=environment, attempts=2, priority=1000).rollouts
    name = f"tester {uuid4()}"
    worker = QueueManager.register_worker(name=name, host="here", providers=[provider], max_rollouts=3)
    held = QueueManager.claim(worker, wanted=1, lease_seconds=60, providers=[provider]).claims[0]["rollout"]["id"]
    waiting = next(row["id"] for row in rollouts if row["id"] != held)

    shown = cli("queue", "--limit", "1000").out
    running, _, rest = shown.partition("Next")
    assert held in running
    assert name in running
    assert waiting in rest
    overview = cli("queue", "--limit", "1000", "--json").json
    assert waiting in [row["id"] for row in overview["next"]]
    assert "1/3" in next(line for line in cli("workers", "list").out.splitlines() if worker in line)

    assert cli("workers", "stop").code == 2
    assert cli("workers", "stop", "nobody").code == 1
    assert "1 asked to end" in cli("workers", "stop", name).out
    assert "No worker was active" in cli("workers", "stop", worker).out
    assert QueueManager.get_worker(worker)["state"] == "draining"
    stopping = cli("rollouts", "delete", held, "--yes").out
    assert "is being stopped by its worker" in stopping
    QueueManager.retire(worker)
    assert RolloutManager.list_rollouts(task_id=rollouts[0]["task_id"] or "").rows[0]["id"] == waiting
    assert worker in [row["id"] for row in cli("workers", "list", "--json").json["workers"]]


def test_the_whole_way_from_a_file_of_tasks_to_results(cli: Any, stack: Any, tmp_path: Path) -> None:
    suffix = uuid4()
    right = {"id": f"right-{suffix}", "task": "17 + 25?", "answer": 42, "solution": {"answer": 42}}
    wrong = {"id": f"wrong-{suffix}", "task": "3 + 4?", "answer": 7, "solution": {"answer": "eight"}}
    path = write_tasks(tmp_path, [right, wrong])
    assert cli("tasks", "import", path, "--environment", "none").code == 0
    asked = cli("rollouts", "new", "--task", right["id"], "--task", wrong["id"], "--agent", "oracle", "--json").json

    worked = subprocess.run(
        [sys.executable, "-m", "openmanus_rl", "worker", "--until-idle"],
        env=stack.env, cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip

    assert worked.returncode == 0, worked.stdout + worked.stderr
    ended = [RolloutManager.get_rollout(rollout["id"])["status"] for rollout in asked["rollouts"]]
    assert ended == ["success", "failed"], worked.stdout
    assert cli("tasks", "show", right["id"], "--json").json["results"][0]["success_rate"] == 1
    assert "eight" in cli("rollouts", "show", asked["rollouts"][1]["id"]).out
    # The same question again is answered by what has ended.
    again = cli("rollouts", "new", "--task", right["id"], "--agent", "oracle", "--reuse", "--json").json
    assert again["reused"] == [asked["rollouts"][0]["id"]]
