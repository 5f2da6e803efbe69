"""Another machine: SUPABASE_URL and a member's key are all that a trainer, a worker and the commands have."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_env

from .conftest import Person, Workspace

TRAINER = """
import io, json, sys
import numpy
import openmanus_rl
from openmanus_rl.utils.supabase_db import TrainingRunManager
from openmanus_rl.utils.supabase_storage import StorageManager

name, resume = sys.argv[1:3]
options = {"resume": "must", "rewind_to_step": 1} if resume == "rewind" else {"resume": resume}
with openmanus_rl.init(name="elsewhere", run_name=name, environment="alfworld", algorithm="ppo", **options) as run:
    for step in (1, 2):
        run.log({"loss": 1.0 / step}, step=step)
        with run.step(step) as block, block.group(task="find it") as group:
            with group.rollout(task_description="find it") as rollout:
                picture = numpy.zeros((8, 8, 3), dtype=numpy.uint8)
                rollout.log_turn(observation="a room", action="go", thought="hm", reward=0.5, images=[picture])
                rollout.complete(status="success", total_reward=0.5)
    assert run.flush(timeout_seconds=60), run.stats
    with open("checkpoint.pt", "wb") as file:
        file.write(b"weights")
    path = StorageManager.upload_checkpoint(run.id, 1 if resume == "never" else 2, "checkpoint.pt")
    TrainingRunManager.get_run(run.id)
    print(json.dumps({"run_id": run.id, "path": path, "rejected": run.stats.rejected, "lost": run.stats.lost}))
"""


@pytest.fixture
def elsewhere(workspace: Workspace, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Return the environment of another machine, which has an address and a key."""

    def make(key: str) -> dict[str, str]:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        return clean_env(
            OPENMANUS_RL_HOME=str(home),
            OPENMANUS_RL_AUTOSTART="0",
            OPENMANUS_RL_ASK_TIMEOUT_SECONDS="30",
            SUPABASE_URL=workspace.stack.url,
            SUPABASE_KEY=key,
        )

    return make


def run_program(env: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


def run_command(env: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(env, folder, "-m", "openmanus_rl", *arguments)


def test_a_trainer_records_resumes_rewinds_and_uploads(
    workspace: Workspace, editor: Person, elsewhere: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    env = elsewhere(workspace.key(editor, name="gpu-box")["key"])
    name = f"run of {editor.id}"
    for resume in ("never", "rewind"):
        done = run_program(env, tmp_path, "-c", TRAINER, name, resume)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.strip().splitlines()[-1])
        assert (told["rejected"], told["lost"]) == (0, 0), done.stderr
    run_id = told["run_id"]
    [run] = workspace.rows(workspace.secret, f"training_runs?id=eq.{run_id}")
    assert (run["owner_id"], run["status"]) == (editor.id, "completed")
    rollouts = workspace.rows(workspace.secret, f"rollouts?training_run_id=eq.{run_id}")
    assert {rollout["owner_id"] for rollout in rollouts} <= {editor.id, None}
    assert len(rollouts) == 4
    assert len(workspace.rows(workspace.secret, f"media?training_run_id=eq.{run_id}")) == 4
    changes = workspace.rows(workspace.secret, f"status_history?training_run_id=eq.{run_id}&entity=eq.training_runs")
    assert {change["changed_by"] for change in changes} == {editor.id}


def test_a_worker_works_on_the_queue(
    workspace: Workspace, editor: Person, elsewhere: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    env = elsewhere(workspace.key(editor)["key"])
    task = {"id": editor.id, "task": "say yes", "answer": "yes", "solution": {"answer": "yes"}}
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    imported = run_command(env, tmp_path, "tasks", "import", "tasks.json", "--environment", "words")
    assert imported.returncode == 0, imported.stderr
    asked = run_command(
        env, tmp_path, "rollouts", "new", "--task", editor.id, "--attempts", "2", "--agent", "oracle", "--json"
    )
    assert asked.returncode == 0, asked.stderr
    worked = run_command(env, tmp_path, "worker", "--until-idle", "--max-workers", "1")
    assert worked.returncode == 0, worked.stderr
    rollouts = workspace.rows(workspace.secret, f"rollouts?owner_id=eq.{editor.id}&request=not.is.null")
    assert [rollout["status"] for rollout in rollouts] == ["success"] * 2
    [worker] = workspace.rows(workspace.secret, f"workers?owner_id=eq.{editor.id}")
    assert worker["state"] == "stopped"
    entries = workspace.entries(actor_id=editor.id, action="rollout.requested")
    assert [(entry["actor_kind"], entry["key_name"]) for entry in entries] == [("key", "a trainer")]


def test_what_was_recorded_while_a_key_was_dead_is_delivered_with_another(
    workspace: Workspace, editor: Person, elsewhere: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    made = workspace.key(editor)
    dead = elsewhere(made["key"]) | {
        "OPENMANUS_RL_COURIER_PATIENCE_SECONDS": "0",
        "OPENMANUS_RL_ASK_TIMEOUT_SECONDS": "5",
    }
    workspace.done(editor.headers, "revoke_key", key_id=made["id"])
    script = (
        "import openmanus_rl\n"
        "with openmanus_rl.init(name='later', environment='x') as run:\n"
        "    run.log({'loss': 1.0}, step=1)\n"
        "print(run.id, run.stats.lost, run.stats.rejected)\n"
    )
    done = run_program(dead, tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr
    run_id, lost, rejected = done.stdout.split()[-3:]
    assert (lost, rejected) == ("0", "0"), "nothing is lost for a key"
    assert workspace.rows(workspace.secret, f"training_runs?id=eq.{run_id}") == []
    alive = elsewhere(workspace.key(editor)["key"])
    for _ in range(20):
        # The courier that has the dead key may still hold the spool.
        synced = run_command(alive, tmp_path, "sync")
        if synced.returncode == 0:
            break
        time.sleep(1)
    assert synced.returncode == 0, synced.stderr + synced.stdout
    [run] = workspace.rows(workspace.secret, f"training_runs?id=eq.{run_id}")
    assert run["owner_id"] == editor.id


def test_a_viewers_key_reads_and_writes_nothing(
    workspace: Workspace, elsewhere: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    viewer = workspace.person("viewer")
    env = elsewhere(workspace.key(viewer)["key"])
    listed = run_command(env, tmp_path, "runs", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    script = (
        "import openmanus_rl\n"
        "from openmanus_rl.errors import OpenManusError\n"
        "from openmanus_rl.utils.supabase_db import TrainingRunManager\n"
        "try:\n    TrainingRunManager.create_run(name='mine', environment='x')\n"
        "except OpenManusError as error:\n    print(type(error).__name__)\n"
    )
    done = run_program(env, tmp_path, "-c", script)
    assert done.stdout.strip() == "ForbiddenError", done.stderr
    assert workspace.rows(workspace.secret, f"training_runs?owner_id=eq.{viewer.id}") == []
    worker = run_command(env, tmp_path, "worker", "--until-idle")
    assert worker.returncode != 0
    assert "only editors and admins may" in worker.stderr


@pytest.mark.parametrize("command", [["members", "invite", "x@example.org"], ["keys", "create", "x", "--member", "me"]])
def test_members_and_keys_are_not_managed_with_a_key(
    workspace: Workspace, admin: Person, elsewhere: Callable[[str], dict[str, str]], tmp_path: Path, command: list[str]
) -> None:
    env = elsewhere(workspace.key(admin, role="admin")["key"])
    command = [admin.id if word == "me" else word for word in command]
    done = run_command(env, tmp_path, *command)
    assert done.returncode == 1
    assert "a key may not" in " ".join(done.stderr.split())
    assert run_command(env, tmp_path, "keys", "list", "--json").returncode == 0


def test_what_an_editor_may_not_see_is_not_said_to_be_absent(
    workspace: Workspace, admin: Person, editor: Person, elsewhere: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    env = elsewhere(workspace.key(editor)["key"])
    members = {one["user_id"]: one for one in workspace.done(editor.headers, "list_members")}
    assert (members[admin.id]["keys"], members[editor.id]["keys"]) == (None, 1)
    link = run_command(env, tmp_path, "members", "link", admin.email)
    assert link.returncode == 1
    assert "only admins see the addresses" in " ".join(link.stderr.split())
    assert "admins and the secret key alone" in " ".join(run_command(env, tmp_path, "members", "log").stdout.split())


def test_the_commands_of_an_owner_make_list_and_revoke_keys(
    workspace: Workspace, editor: Person, stack: Any, tmp_path: Path
) -> None:
    env: dict[str, str] = stack.env
    made = run_command(
        env, tmp_path, "keys", "create", "gpu box", "--member", editor.email, "--expires", "12h", "--json"
    )
    key = json.loads(made.stdout)
    assert workspace.rows({"apikey": key["key"]}, "members?limit=1")
    listed = json.loads(run_command(env, tmp_path, "keys", "list", "--member", editor.email, "--json").stdout)
    assert [row["id"] for row in listed] == [key["id"]]
    assert "key" not in listed[0]
    done = run_command(env, tmp_path, "keys", "revoke", key["key"])
    assert done.returncode == 0, done.stderr
    assert key["key"] not in done.stdout + done.stderr
    assert json.loads(run_command(env, tmp_path, "keys", "list", "--member", editor.email, "--json").stdout) == []


def test_an_invitation_is_made_listed_and_revoked_by_command(
    workspace: Workspace, editor: Person, stack: Any, tmp_path: Path
) -> None:
    env: dict[str, str] = stack.env
    email = f"new-{editor.email}"
    made = run_command(env, tmp_path, "members", "invite", email, "--role", "editor", "--json")
    assert made.returncode == 0, made.stderr
    link = json.loads(made.stdout)["link"]
    assert link.startswith(f"{stack.url}/invitation#token=")
    elsewhere = run_command(env, tmp_path, "members", "invite", email, "--address", "https://rl.example.org")
    assert "https://rl.example.org/invitation#token=" in elsewhere.stdout
    listed = json.loads(run_command(env, tmp_path, "members", "invitations", "--json").stdout)
    assert [row["email"] for row in listed].count(email) == 1
    assert run_command(env, tmp_path, "members", "uninvite", email.upper()).returncode == 0
    token = link.partition("token=")[2]
    assert workspace.done(workspace.publishable, "find_invitation", token=token)["state"] == "revoked"
    link = run_command(env, tmp_path, "members", "link", editor.email)
    assert f"{stack.url}/#token_hash=" in link.stdout
    log = json.loads(run_command(env, tmp_path, "members", "log", "--action", "link.created", "--json").stdout)
    assert log[0]["subject_name"] == editor.email
    refused = run_command(env, tmp_path, "members", "invite", email, "--expires", "soon")
    assert (refused.returncode, "--expires" in refused.stderr) == (2, True)
