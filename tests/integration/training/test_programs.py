"""Programs of one's own: started, handed their run, stopped and resumed, whatever they are made with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.tasks.archives import pack_folder
from openmanus_rl.training.service import FAILED, REFUSED, Launch, serve
from openmanus_rl.training.stopping import Stop

from ..conftest import Command
from .conftest import Launched, Query, new_run, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")

# A loop that knows nothing of its run's id; it goes on where it was.
LOOP = """
import os, sys, time, openmanus_rl
print("arguments", sys.argv[1:], os.environ["RUN_ID"], flush=True)
with openmanus_rl.init(name="my loop", environment="mine", run_name="my-loop") as run:
    for step in range(run.next_step, int(sys.argv[1])):
        run.log({"loss": 1 / (step + 1)}, step=step)
        time.sleep(0.02)
"""
SB3_LOOP = """
from stable_baselines3 import PPO
from openmanus_rl.integrations.stable_baselines3 import OpenManusCallback

def main():
    small = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "policy_kwargs": {"net_arch": [4]}}
    PPO("MlpPolicy", "CartPole-v1", device="cpu", **small).learn(64, callback=OpenManusCallback(name="by hand"))
"""


def row_of(query: Query, run_id: str) -> dict[str, Any]:
    (row,) = query("select * from training_runs where id = %s", run_id)
    return row


def ended(query: Query, run_id: str) -> dict[str, Any]:
    wait_until(lambda: row_of(query, run_id)["status"] not in ("pending", "running"))
    return row_of(query, run_id)


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """The URL of a git repository with the loop."""
    folder = tmp_path / "repository"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "loop.py").write_text(LOOP)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q", "-b", "trunk"], ["add", "."], ["commit", "-q", "-m", "loop"]):
        subprocess.run([*git, *arguments], check=True)
    return folder.as_uri()


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a module into the current folder."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return lambda code: (folder / "own.py").write_text(code) and None


def uploaded(tmp_path: Path, **files: str) -> str:
    folder = tmp_path / "packed"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    archive = pack_folder(folder, tmp_path / "code.tar.gz")
    return StorageManager.upload_file("task-files", f"code/{archive.sha256}.tar.gz", archive.path)


def test_a_script_from_git_is_stopped_and_goes_on(
    launch: Callable[..., Launched], repository: str, command: Command, query: Query
) -> None:
    entry_point = {"script": "scripts/loop.py", "git": {"url": repository, "ref": "trunk"}}
    run_id = new_run(None, None, entry_point=entry_point, arguments=["100000"])
    launched = launch(run_id)
    launched.wait_for(lambda: query("select 1 from metric_chunks where training_run_id = %s", run_id))
    assert command("runs", "stop", run_id).code == 0
    code, said = launched.end()
    assert code == 0, said
    assert f"arguments ['100000'] {run_id}" in said
    row = ended(query, run_id)
    assert row["status"] == "interrupted"
    assert "as requested in the record" in row["status_message"]
    assert (row["name"], row["run_name"]) == ("asked for", None)
    head = subprocess.run(["git", "-C", repository.removeprefix("file://"), "rev-parse", "HEAD"], capture_output=True)
    assert row["metadata"] == {"commit": head.stdout.decode().strip()}

    reached = MetricManager.get_series(run_id)["loss"][-1].step
    query("update training_runs set config = jsonb_set(config, '{arguments}', %s) where id = %s returning 1",
          f'["{reached + 20}"]', run_id)  # fmt: skip
    code, said = launch(run_id).end()
    assert code == 0, said
    wait_until(lambda: row_of(query, run_id)["status"] == "completed")
    steps = [point.step for point in MetricManager.get_series(run_id)["loss"]]
    assert steps == list(range(steps[-1] + 1))
    assert steps[-1] > reached


def test_a_function_in_an_archive_that_trains_with_a_hook_is_handed_its_run(tmp_path: Path, query: Query) -> None:
    archive = uploaded(tmp_path, own=SB3_LOOP)
    run_id = new_run(None, None, entry_point={"module": "own:main", "archive": archive})
    before = query("select count(*) as n from training_runs")

    assert serve(Launch(run_id), Stop()) == 0

    row = ended(query, run_id)
    assert (row["status"], row["algorithm"], row["name"]) == ("completed", "ppo", "asked for")
    assert query("select count(*) as n from training_runs") == before
    assert query("select 1 from rollouts where training_run_id = %s", run_id)


def test_a_program_that_fails_before_it_records_makes_its_run_fail(
    in_folder: Callable[[str], None], query: Query, capfd: pytest.CaptureFixture[str]
) -> None:
    in_folder("def main():\n    raise ValueError('no data\\N{BULLET}')\n")
    run_id = new_run(None, None, entry_point={"module": "own:main"})

    assert serve(Launch(run_id), Stop()) == 1

    row = ended(query, run_id)
    assert row["status"] == "failed"
    assert "exit code 1" in row["status_message"]
    assert "ValueError: no data" in row["status_message"]
    assert "ValueError: no data" in capfd.readouterr().err


def test_a_progress_bar_is_passed_through_before_its_line_ends_and_shown_as_it_was_last(
    in_folder: Callable[[str], None], launch: Callable[..., Launched], query: Query
) -> None:
    in_folder(
        "import sys, time\nfrom pathlib import Path\n"
        "def main():\n    sys.stderr.write('10%\\r20%\\r')\n    sys.stderr.flush()\n"
        "    for _ in range(1000):\n        if Path('go').exists(): break\n        time.sleep(0.02)\n"
        "    else: sys.exit(4)\n    sys.stderr.write('30%')\n    sys.exit(3)\n"
    )
    run_id = new_run(None, None, entry_point={"module": "own:main"})

    launched = launch(run_id)
    assert launched.process.stderr is not None
    shown = launched.process.stderr.read(len("10%"))
    Path("go").touch()

    assert shown == "10%"
    assert launched.end()[0] == 3
    assert ended(query, run_id)["status_message"] == "the program ended with exit code 3: 30%"


def test_the_exit_code_is_the_programs_own(in_folder: Callable[[str], None], query: Query) -> None:
    in_folder("import openmanus_rl, sys\ndef main():\n    openmanus_rl.init('x')\n    sys.exit(7)\n")
    run_id = new_run(None, None, entry_point={"module": "own:main"})

    assert serve(Launch(run_id), Stop()) == 7

    assert ended(query, run_id)["status"] == "failed"


@pytest.mark.parametrize(
    ("config", "code", "said"),
    [
        ({"entry_point": {"script": "x.py", "git": {"url": "REPOSITORY"}}}, REFUSED, "there is no file 'x.py'"),
        ({"entry_point": {"script": "x.py", "git": {"url": "REPOSITORY", "ref": "nowhere"}}}, FAILED, "fetch nowhere"),
        ({"entry_point": {"script": "x.py", "archive": "no/such.tar.gz"}}, FAILED, "no/such.tar.gz"),
        (
            {"entry_point": {"module": "own:main"}, "requirements": ["./no-such-folder"]},
            FAILED,
            "config.requirements: pip install ./no-such-folder",
        ),
    ],
)
def test_code_that_cannot_be_had_makes_the_run_fail(
    config: dict[str, Any], code: int, said: str, repository: str, query: Query
) -> None:
    git = config["entry_point"].get("git")
    if git is not None:
        config = {"entry_point": {**config["entry_point"], "git": {**git, "url": repository}}}
    run_id = new_run(None, None, **config)

    assert serve(Launch(run_id), Stop()) == code

    row = ended(query, run_id)
    assert row["status"] == "failed"
    assert said in row["status_message"]


def test_a_program_finds_what_it_requires_beside_what_is_installed(
    in_folder: Callable[[str], None], tmp_path: Path, query: Query
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "extra_of_the_run.py").write_text("VALUE = 3.0\n")
    (package / "pyproject.toml").write_text(
        "[project]\nname = 'extra-of-the-run'\nversion = '1'\n[build-system]\nrequires = ['hatchling']\n"
        "build-backend = 'hatchling.build'\n[tool.hatch.build.targets.wheel]\ninclude = ['extra_of_the_run.py']\n"
    )
    in_folder(
        "def main():\n    import extra_of_the_run, gymnasium, openmanus_rl\n"
        "    openmanus_rl.init('x').log({'value': extra_of_the_run.VALUE}, step=0)\n"
    )
    requirement = f"extra-of-the-run @ {package.as_uri()}"
    run_id = new_run(None, None, entry_point={"module": "own:main"}, requirements=[requirement])

    assert serve(Launch(run_id), Stop()) == 0

    assert ended(query, run_id)["status"] == "completed"
    assert [point.value for point in MetricManager.get_series(run_id)["value"]] == [3.0]


def test_a_program_ends_when_the_service_is_killed(
    launch: Callable[..., Launched], repository: str, query: Query
) -> None:
    entry_point = {"script": "scripts/loop.py", "git": {"url": repository}}
    run_id = new_run(None, None, entry_point=entry_point, arguments=["100000"])
    launched = launch(run_id)
    launched.wait_for(lambda: row_of(query, run_id)["status"] == "running")
    (program,) = [
        process
        for process in psutil.Process(launched.process.pid).children()
        if "loop.py" in " ".join(process.cmdline())
    ]
    launched.process.kill()
    launched.end()
    psutil.wait_procs([program], timeout=20)
    assert not program.is_running() or program.status() == psutil.STATUS_ZOMBIE


def test_a_variable_names_the_run_only_to_its_program(in_folder: Callable[[str], None], query: Query) -> None:
    in_folder("def main():\n    pass\n")
    run_id = new_run(None, None, entry_point={"module": "own:main"})

    assert serve(Launch(run_id), Stop()) == 0

    assert "OPENMANUS_RL_OWN_RUN_ID" not in os.environ
    assert sys.executable
    row = ended(query, run_id)
    assert (row["status"], row["status_message"]) == ("completed", "the program recorded nothing")
