"""The script validator runs the task's tests, and takes nothing but a finite number for a reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.verification import ValidatorSpec, Verdict, verify

from .local_sandbox import LocalSandbox


class Bench:
    """A sandbox, a task's files, and the validator that brings them together."""

    def __init__(self, folder: Path) -> None:
        self.task_files = folder / "task"
        self.sandbox = LocalSandbox(folder / "sandbox")
        self.tests, self.logs = folder / "sandbox/tests", folder / "sandbox/logs/verifier"
        (self.task_files / "tests").mkdir(parents=True)
        self.sandbox.folder.mkdir()

    def verify(self, script: str, **spec: Any) -> Verdict:
        """Return the verdict of a script, in which {logs} is the folder for its reward."""
        lines = f"#!/bin/sh\n{script.replace('{logs}', str(self.logs))}\n"
        (self.task_files / "tests/test.sh").write_text(lines)
        folders = {"tests_folder": str(self.tests), "logs_folder": str(self.logs)}
        validator = ValidatorSpec("script", {**folders, **spec})
        sandbox: Any = self.sandbox
        (verdict,) = verify([validator], answer=None, sandbox=sandbox, task_files=self.task_files)
        return verdict


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("script", "outcome", "score"),
    [
        ("echo 1 > {logs}/reward.txt", "pass", 1.0),
        ("printf ' 1.0\n\n' > {logs}/reward.txt; exit 3", "pass", 1.0),
        ("echo 0 > {logs}/reward.txt", "fail", 0.0),
        ("echo 0.999 > {logs}/reward.txt", "fail", 0.999),
        ("echo -1e0 > {logs}/reward.txt", "fail", -1.0),
        ("""echo '{"reward": 1, "speed": 0.2}' > {logs}/reward.json""", "pass", 1.0),
        ("""echo '{"speed": 1, "style": 0.5, "note": "x", "ok": true}' > {logs}/reward.json""", "fail", 0.5),
        ("""echo 0 > {logs}/reward.txt; echo '{"reward": 1}' > {logs}/reward.json""", "fail", 0.0),
        ("exit 0", "error", None),
        ("echo NaN > {logs}/reward.txt", "error", None),
        ("echo inf > {logs}/reward.txt", "error", None),
        ("echo 1e999 > {logs}/reward.txt", "error", None),
        ("echo 1_0 > {logs}/reward.txt", "error", None),
        ("echo > {logs}/reward.txt", "error", None),
        ("echo yes > {logs}/reward.txt", "error", None),
        ("echo 1 1 > {logs}/reward.txt", "error", None),
        ("printf '\\377\\376' > {logs}/reward.txt", "error", None),
        ("head -c 1000000 /dev/zero | tr '\\0' 1 > {logs}/reward.txt", "error", None),
        ("mkdir {logs}/reward.txt", "error", None),
        ("echo 1 > {logs}/reward.json", "error", None),
        ("echo '{}' > {logs}/reward.json", "error", None),
        ("echo '{\"reward\": NaN}' > {logs}/reward.json", "error", None),
        ("echo '{\"reward\": true}' > {logs}/reward.json", "error", None),
        ('echo \'{"reward": "1"}\' > {logs}/reward.json', "error", None),
        ("echo '{\"reward\": 1' > {logs}/reward.json", "error", None),
        ('echo \'{"reward": 1, "other": -Infinity}\' > {logs}/reward.json', "error", None),
    ],
)
def test_the_reward_decides(bench: Bench, script: str, outcome: str, score: float | None) -> None:
    verdict = bench.verify(script)

    assert (verdict.outcome, verdict.score) == (outcome, score)


def test_a_spec_may_lower_the_reward_that_passes_and_name_the_one_that_counts(bench: Bench) -> None:
    script = 'echo 0 > {logs}/reward.txt; echo \'{"quality": 0.5, "speed": 0}\' > {logs}/reward.json'

    assert bench.verify(script, reward="quality", pass_at=0.5).outcome == "pass"
    assert bench.verify(script, reward="missing").outcome == "error"


def test_a_reward_that_the_agent_left_does_not_count(bench: Bench) -> None:
    bench.logs.mkdir(parents=True)
    (bench.logs / "reward.txt").write_text("1")
    (bench.logs / "reward.json").symlink_to(bench.logs / "reward.txt")
    bench.tests.mkdir()
    (bench.tests / "helper.sh").write_text("echo 1 > reward.txt")

    assert bench.verify("exit 0").outcome == "error"
    assert not (bench.tests / "helper.sh").exists()


def test_a_tests_folder_that_the_agent_made_a_link_is_replaced(bench: Bench, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    bench.tests.symlink_to(elsewhere)

    assert bench.verify("echo 1 > {logs}/reward.txt").outcome == "pass"
    assert list(elsewhere.iterdir()) == []


def test_a_script_that_does_not_end_is_an_error_although_it_wrote_a_reward(bench: Bench) -> None:
    verdict = bench.verify("echo 1 > {logs}/reward.txt; sleep 60", timeout_seconds=1)

    assert verdict.outcome == "error"
    assert "within 1 s" in (verdict.message or "")


def test_the_end_of_the_output_is_kept(bench: Bench) -> None:
    verdict = bench.verify("seq 100000; echo oops >&2; echo $LEVEL >&2; exit 7", environment={"LEVEL": "hard"})

    assert verdict.details is not None
    assert verdict.details["exit_code"] == 7
    assert verdict.details["stdout"].endswith("100000\n")
    assert len(verdict.details["stdout"]) <= 4000
    assert verdict.details["stderr"] == "oops\nhard\n"


def test_without_files_or_sandbox_there_is_an_error(bench: Bench) -> None:
    validator, sandbox = ValidatorSpec("script", {}), bench.sandbox
    both: Any = ((sandbox, None), (sandbox, bench.task_files), (None, bench.task_files))

    for given, files in both:
        (verdict,) = verify([validator], answer="1", sandbox=given, task_files=files)
        assert verdict.outcome == "error"
