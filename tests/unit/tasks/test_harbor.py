"""Harbor task folders are read as they are; what could not be run as its author meant is reported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.tasks import TaskSet, pack_folder, read_tasks
from openmanus_rl.verification import check_spec

TOML = """
schema_version = "1.1"

[task]
name = "example/hello"
description = "Says hello"
authors = [{ name = "A. Author", email = "a@example.org" }]
keywords = ["easy"]

[metadata]
difficulty = "easy"
created = 2024-05-01
tags = ["shell"]

[verifier]
timeout_sec = 120.0
env = { LEVEL = "${LEVEL:-3}" }

[agent]
timeout_sec = 300

[environment]
build_timeout_sec = 600.0
cpus = 2
memory_mb = 1024
storage_mb = 5120
allow_internet = false
env = { MODE = "test" }

[solution]
env = { HOW = "quickly" }
"""
COMPOSE = """
services:
  main:
    image: ${MAIN_IMAGE_NAME}
    depends_on:
      api: {condition: service_healthy}
    environment:
      - TEST_DIR=${TEST_DIR}
    volumes:
      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
  api:
    build: {context: ./api}
    command: serve --port 8000 "two words"
    environment: {DEBUG: true, WORKERS: 2}
    ports: ["8000:8000"]
    volumes: ["./seed.json:/data/seed.json:ro", "cache:/cache"]
    healthcheck: {test: ["CMD", "true"], interval: 2s, timeout: 1m, retries: 4, start_period: 500ms}
volumes:
  cache:
"""

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that makes a task folder; files may be given, or left out as None."""

    def run(name: str = "hello", **files: str | bytes | None) -> Path:
        folder = tmp_path / "tasks" / name
        content: dict[str, str | bytes | None] = {
            "task.toml": TOML,
            "instruction.md": "Say hello.\n",
            "environment/Dockerfile": "FROM scratch\n",
            "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
            "solution/solve.sh": "#!/bin/sh\necho hello\n",
        }
        for path, text in (
            content | {key.replace("__", "/").replace("_dot_", "."): files[key] for key in files}
        ).items():
            if text is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder

    return run


def the_task(found: TaskSet) -> dict[str, Any]:
    assert found.problems == []
    (task,) = found.tasks
    return task


def test_a_task_folder_is_read_whole(make: Make) -> None:
    folder = make()
    found = read_tasks(folder)
    task = the_task(found)

    assert task["external_id"] == "example/hello"
    assert task["name"] == "hello"
    assert task["description"] == "Say hello.\n"
    assert task["solution"] == {
        "script": "#!/bin/sh\necho hello\n",
        "folder": "solution",
        "environment": {"HOW": "quickly"},
    }
    (validator,) = task["validators"]
    assert validator["kind"] == "script"
    assert validator["spec"] == {"service": "main", "timeout_seconds": 120.0, "environment": {"LEVEL": "3"}}
    check_spec(validator["kind"], validator["spec"])
    metadata = task["metadata"]
    assert metadata["limits"] == {"max_seconds": 300}
    assert (metadata["difficulty"], metadata["tags"], metadata["created"]) == ("easy", ["shell"], "2024-05-01")
    assert metadata["authors"] == [{"name": "A. Author", "email": "a@example.org"}]
    assert metadata["harbor"]["environment"]["cpus"] == 2
    json.dumps(task, allow_nan=False)
    (environment,) = found.environments
    assert environment == {
        "name": task["environment"],
        "kind": "docker",
        "spec": {
            "services": {
                "main": {
                    "idle": True,
                    "build": "environment",
                    "build_timeout_seconds": 600.0,
                    "environment": {"MODE": "test"},
                    "resources": {"memory": "1024m", "disk": "5120m", "cpus": 2},
                }
            },
            "main": "main",
            "network": "none",
        },
    }
    (files,) = found.files
    assert (files.folder, files.external_id, files.environment) == (folder, "example/hello", task["environment"])


def test_a_folder_of_tasks_is_read_and_bad_ones_are_reported(make: Make) -> None:
    make("b", task_dot_toml='[task]\nname = "x/b"')
    make("a", task_dot_toml="")
    make("bad-toml", task_dot_toml="[task")
    make("no-tests", tests__test_dot_sh=None)
    make("no-toml", task_dot_toml=None)
    make("no-text", instruction_dot_md=None)
    make("twice", task_dot_toml='[task]\nname = "x/b"')
    parent = make("z", task_dot_toml="", solution__solve_dot_sh=None).parent
    (parent / "README.md").write_text("not a task")
    (parent / "notes").mkdir()

    found = read_tasks(parent)

    assert [task["external_id"] for task in found.tasks] == ["a", "x/b", "z"]
    assert "solution" not in found.tasks[2]
    assert found.environments[0]["spec"]["network"] == "internet"
    assert [(problem.where, problem.field) for problem in found.problems] == [
        ("bad-toml", "task.toml"),
        ("no-tests", "tests/test.sh"),
        ("no-text", "instruction.md"),
        ("no-toml", "task.toml"),
        ("twice", "external_id"),
    ]


def test_a_given_environment_takes_the_place_of_the_folders_own(make: Make) -> None:
    found = read_tasks(make(), environment="local")

    assert the_task(found)["environment"] == "local"
    assert found.environments == []
    assert found.files[0].environment == "local"


def test_older_forms_and_windows_files_are_read(make: Make) -> None:
    toml = (
        b'\xef\xbb\xbfversion = "1.0"\r\n[environment]\r\nmemory = "2G"\r\nstorage = "512M"\r\n[metadata]\r\na = 1\r\n'
    )
    found = read_tasks(make(task_dot_toml=toml, instruction_dot_md=b"one\r\ntwo"))

    assert the_task(found)["description"] == "one\ntwo"
    assert found.environments[0]["spec"]["services"]["main"]["resources"] == {"memory": "2048m", "disk": "512m"}


def test_an_image_may_be_named_instead_of_built(make: Make) -> None:
    toml = (
        '[environment]\ndocker_image = "example:1"\n[environment.healthcheck]\ncommand = "test -e /ready"\nretries = 2'
    )
    found = read_tasks(make(task_dot_toml=toml))

    main = found.environments[0]["spec"]["services"]["main"]
    assert main["image"] == "example:1"
    assert "build" not in main
    assert main["health"] == {"command": "test -e /ready", "interval_seconds": 5.0, "timeout_seconds": 70.0}


def test_a_compose_file_becomes_services(make: Make) -> None:
    files = {"environment__docker-compose_dot_yaml": COMPOSE, "environment__seed_dot_json": "{}"}
    found = read_tasks(make(**files, environment__api__Dockerfile="FROM scratch"))

    the_task(found)
    services = found.environments[0]["spec"]["services"]
    assert services["main"]["build"] == "environment"
    assert services["main"]["idle"] is True
    assert services["main"]["environment"] == {"MODE": "test", "TEST_DIR": "/tests"}
    assert services["main"]["depends_on"] == ["api"]
    assert services["api"] == {
        "build": "environment/api",
        "command": ["serve", "--port", "8000", "two words"],
        "environment": {"DEBUG": "true", "WORKERS": "2"},
        "files": {"/data/seed.json": {"path": "environment/seed.json"}},
        "health": {"command": ["true"], "interval_seconds": 2.0, "timeout_seconds": 248.5},
    }


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("image: ${MAIN_IMAGE_NAME}", "privileged: true"), "services.main.privileged"),
        (("image: ${MAIN_IMAGE_NAME}", "image: ${SECRET}"), "services.main.image"),
        (("{context: ./api}", "../.."), "services.api.build"),
        (("{context: ./api}", "{context: /}"), "services.api.build"),
        (("{context: ./api}", "{context: ., args: {A: 1}}"), "services.api.build.args"),
        (("./seed.json:", "/etc/passwd:"), "services.api.volumes"),
        (("./seed.json:", "../../../x:"), "services.api.volumes"),
        (("./seed.json:", "./missing.json:"), "services.api.volumes"),
        (("DEBUG: true", "DEBUG: $HOME"), "services.api.environment.DEBUG"),
        (("{DEBUG: true, WORKERS: 2}", "[SUPABASE_KEY]"), "services.api.environment"),
        (("2s", "soon"), "services.api.healthcheck.interval"),
        (("main:", "primary:"), ""),
        (("services:", "services: ["), ""),
        (("volumes:\n  cache:", "x: &x [1]\n" + "\n".join(f"y{i}: *x" for i in range(30))), ""),
        (("volumes:\n  cache:", "x: !!python/object/apply:os.system [id]"), ""),
    ],
)
def test_what_a_compose_file_says_beyond_a_spec_is_reported(make: Make, change: tuple[str, str], field: str) -> None:
    changed = COMPOSE.replace(*change)
    assert changed != COMPOSE
    files = {"environment__docker-compose_dot_yaml": changed, "environment__seed_dot_json": "{}"}

    found = read_tasks(make(**files))

    assert found.tasks == []
    (problem,) = found.problems
    assert (problem.field or "").endswith(field)
    assert (problem.field or "").startswith("docker-compose.yaml")


@pytest.mark.parametrize(
    ("toml", "field"),
    [
        ('[task]\nname = "../../x"', "external_id"),
        ("[task]\nname = 5.5", "external_id"),
        ("task = 5", "task"),
        ("[agent]\ntimeout_sec = 'long'", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = nan", "task.toml.agent.timeout_sec"),
        ("[agent]\nuser = 'guest'", "agent.user"),
        ("[verifier]\ntimeout_sec = -1", "verifier.timeout_sec"),
        ("[verifier]\ntimeout_sec = 1e9", "validators[0].spec.timeout_seconds"),
        ("[verifier]\nenv = { KEY = '${OPENAI_API_KEY}' }", "verifier.env.KEY"),
        ("[verifier]\nenvironment_mode = 'separate'", "verifier.environment_mode"),
        ("[environment]\ngpus = 1", "environment.gpus"),
        ("[environment]\nnetwork_mode = 'allowlist'", "environment.network_mode"),
        ("[environment]\nmemory = '2 cows'", "environment.memory"),
        ("[environment]\nenv = 5", "environment.env"),
        ("[environment.healthcheck]\nretries = 1", "environment.healthcheck"),
        ("[[steps]]\nname = 'one'", "steps"),
        ("[metadata]\nx = nan", "task.toml.metadata.x"),
        ('[metadata]\nx = "\\u0000"', "task.toml.metadata.x"),
        ("a = " + "[" * 100_000, "task.toml"),
    ],
    ids=range(19),
)
def test_what_a_task_toml_says_wrongly_or_beyond_us_is_reported(make: Make, toml: str, field: str) -> None:
    found = read_tasks(make(task_dot_toml=toml))

    assert found.tasks == []
    assert [problem.field for problem in found.problems] == [field]


def test_a_folder_with_links_out_of_it_is_reported(make: Make) -> None:
    folder = make()
    (folder / "tests/passwd").symlink_to("/etc/passwd")

    (problem,) = read_tasks(folder).problems

    assert problem.field == "tests/passwd"


def test_instructions_that_are_a_pipe_do_not_hold_up_reading(make: Make) -> None:
    folder = make()
    (folder / "instruction.md").unlink()
    os.mkfifo(folder / "instruction.md")

    assert len(read_tasks(folder).problems) == 1


def test_the_files_of_a_task_can_be_packed(make: Make, tmp_path: Path) -> None:
    (files,) = read_tasks(make()).files

    packed = pack_folder(files.folder, tmp_path / "a.tar.gz")

    assert packed.size_bytes < 10_000
    assert files.task_id == read_tasks(make()).files[0].task_id


def test_the_specs_that_are_made_are_those_of_environments(make: Make) -> None:
    spec = pytest.importorskip("openmanus_rl.sandboxes.spec")
    files = {"environment__docker-compose_dot_yaml": COMPOSE, "environment__seed_dot_json": "{}"}

    for folder in (make("plain"), make("composed", **files)):
        assert read_tasks(folder, check_environment=spec.parse_spec).problems == []
