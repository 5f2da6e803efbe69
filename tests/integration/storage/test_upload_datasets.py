"""`openmanus-rl datasets upload`, and `scripts/upload_datasets.py` as the deploy workflow and a researcher run it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.managers.storage import BUCKETS, StorageManager

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "upload_datasets.py"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def upload(stack: Any, tmp_path: Path) -> Run:
    """Run the script in a folder that holds no settings."""

    def run(*arguments: str | Path, cwd: Path = tmp_path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(SCRIPT), *map(str, arguments)],
            env=stack.env | env,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def data(tmp_path: Path, run_id: str) -> Path:
    """A folder of two environments, which no other test uses."""
    folder = tmp_path / "data"
    for name in ("one/train.jsonl", "one/test.csv", "two/tasks.json"):
        environment, _, file_name = name.partition("/")
        path = folder / f"{environment}-{run_id}" / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")
    return folder


def _statuses(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {Path(file["file"]).name: file["status"] for file in json.loads(done.stdout)["files"]}


def test_datasets_are_uploaded_once_and_again_only_when_they_change(
    upload: Run, data: Path, run_id: str, manager: type[StorageManager]
) -> None:
    first = upload()
    assert first.returncode == 0, first.stderr
    assert "3 uploaded" in first.stdout
    # One plain line a file where no terminal shows a bar.
    assert f"[1/3] data/one-{run_id}/test.csv: uploaded" in first.stderr
    assert "\x1b" not in first.stdout + first.stderr
    assert manager.download_bytes("datasets", f"one-{run_id}/train.jsonl") == b"content of one/train.jsonl"

    again = upload(data, "--json")
    assert again.returncode == 0, again.stderr
    assert set(_statuses(again).values()) == {"unchanged"}

    # As long as before: only the checksum tells.
    (data / f"two-{run_id}" / "tasks.json").write_text("CONTENT OF two/tasks.json")
    changed = upload(data, "--json")
    assert _statuses(changed) == {"test.csv": "unchanged", "train.jsonl": "unchanged", "tasks.json": "uploaded"}
    assert manager.download_bytes("datasets", f"two-{run_id}/tasks.json") == b"CONTENT OF two/tasks.json"


def test_one_bad_file_fails_alone_and_the_exit_code_tells(
    upload: Run, data: Path, run_id: str, manager: type[StorageManager]
) -> None:
    folder = data / f"one-{run_id}"
    with (folder / "huge.parquet").open("wb") as opened:
        opened.truncate(BUCKETS["datasets"].limit_bytes + 1)
    (folder / "größe.json").write_text("{}")
    (folder / "gone.json").symlink_to(folder / "nowhere")
    done = upload(data)
    assert done.returncode == 1
    lines = {line.split()[0].rpartition("/")[2]: line for line in done.stdout.splitlines()}
    assert "failed" in lines["huge.parquet"]
    assert "52,428,801 bytes, but bucket datasets takes at most 52,428,800; split it" in lines["huge.parquet"]
    assert "outside ASCII" in lines["größe.json"]
    assert "no such file" in lines["gone.json"]
    assert lines["train.jsonl"].split()[-1] == f"one-{run_id}/train.jsonl"
    assert "3 uploaded" in done.stdout
    assert "3 failed" in done.stdout
    stored = {entry["name"] for entry in manager.list_files("datasets", f"one-{run_id}")}
    assert stored == {"train.jsonl", "test.csv"}


def test_what_is_left_out_is_told(upload: Run, data: Path, run_id: str) -> None:
    (data / "README.md").touch()
    (data / f"one-{run_id}" / ".DS_Store").touch()
    (data / f"one-{run_id}" / "raw").mkdir()
    done = upload(data, "--json")
    assert done.returncode == 0
    assert {Path(skipped["file"]).name for skipped in json.loads(done.stdout)["skipped"]} == {
        "README.md",
        ".DS_Store",
        "raw",
    }
    shown = upload(data, "--dry-run")
    assert f"skipped {data}/README.md: a file outside an environment's folder" in shown.stderr


def test_a_dry_run_and_a_chosen_environment_upload_no_more_than_asked(
    upload: Run, data: Path, run_id: str, manager: type[StorageManager]
) -> None:
    dry = upload(data, "--dry-run", "--json")
    assert dry.returncode == 0
    assert set(_statuses(dry).values()) == {"would upload"}
    assert len(manager.list_files("datasets", f"one-{run_id}")) == 0

    chosen = upload(data, "--environment", f"two-{run_id}", "--json")
    assert _statuses(chosen) == {"tasks.json": "uploaded"}
    assert len(manager.list_files("datasets", f"one-{run_id}")) == 0

    unknown = upload(data, "--environment", "chess")
    assert unknown.returncode == 1
    assert "no folder for environment chess" in unknown.stderr


def test_an_empty_folder_is_no_error_and_a_missing_one_is(upload: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = upload("empty")
    assert (empty.returncode, empty.stderr) == (0, "")
    assert "no datasets to upload" in empty.stdout

    missing = upload("missing")
    assert missing.returncode == 1
    assert "missing: no such folder" in missing.stderr
    missing_json = upload("missing", "--json")
    assert missing_json.returncode == 1
    assert json.loads(missing_json.stdout)["error"]["code"] == "local_file"

    default = upload()
    assert default.returncode == 1
    assert "data: no such folder" in default.stderr


def test_the_command_does_what_the_script_does(
    stack: Any, upload: Run, data: Path, run_id: str, manager: type[StorageManager], tmp_path: Path
) -> None:
    (data / f"ALE=2FPong-{run_id}").mkdir()
    (data / f"ALE=2FPong-{run_id}" / "train.json").write_text("frames")
    command = [sys.executable, "-m", "openmanus_rl", "datasets", "upload", str(data), "--json"]
    done = subprocess.run(command, env=stack.env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(_statuses(done).values()) == {"uploaded"}
    assert {file["environment"] for file in json.loads(done.stdout)["files"]} >= {f"ALE/Pong-{run_id}"}
    again = upload(data, "--json")
    assert set(_statuses(again).values()) == {"unchanged"}
    assert manager.upload_dataset(f"ALE/Pong-{run_id}", "train", data / f"ALE=2FPong-{run_id}" / "train.json") == (
        f"ALE=2FPong-{run_id}/train.json"
    )


def test_a_wrong_key_fails_every_file_at_once_with_the_way_out(upload: Run, data: Path) -> None:
    done = upload(data, "--json", SUPABASE_SERVICE_ROLE_KEY="sb_secret_" + "0" * 32)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["counts"] == {"failed": 3}
    assert "SUPABASE_SERVICE_ROLE_KEY" in report["files"][0]["reason"]
    assert [file["reason"].startswith("not tried: ") for file in report["files"]] == [False, True, True]


def test_the_help_teaches_what_goes_where(upload: Run) -> None:
    done = upload("--help", COLUMNS="120")
    assert done.returncode == 0
    for word in ("alfworld/train.json", "--dry-run", "--environment", "--json", "SUPABASE_URL", "50 MB"):
        assert word in done.stdout


def test_the_datasets_that_come_along_are_accepted(upload: Run) -> None:
    done = upload(cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "alfworld/train.json" in done.stdout
