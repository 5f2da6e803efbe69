"""The benchmark runs from end to end and answers every question it asks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
_TARGETS = (
    "cost of a row of metrics, median",
    "cost of a row of metrics, p99",
    "cost of a row of metrics, longest call",
    "cost of a rollout of 20 turns, median",
    "cost of a rollout of 20 turns, p99",
    "cost of a rollout of 20 turns, longest call",
    "metric rows durable per second",
    "metric rows durable per second, sustained",
    "rollouts durable per second",
    "rollouts durable per second, beside COPY",
    "rollouts durable per second, sustained",
    "rollouts durable per second, sustained, beside COPY",
    "metric rows durable per second, over HTTP",
    "metric rows durable per second, sustained, over HTTP",
    "rollouts durable per second, over HTTP",
    "rollouts durable per second, sustained, over HTTP",
    "bytes per rollout of 36 KB",
    "bytes per rollout of 200 KB that hardly compress",
    "bytes per rollout of 200 KB of prose",
    "growth of bytes with turns: exponent",
    "bytes per metric point",
    "MB more memory in an outage",
    "lost in that outage",
    "lost after kill -9 of the process",
    "lost after kill -9 of the group",
)


@pytest.fixture(scope="module")
def results_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the quick benchmark measured, with JSONL and COPY as the peers that are always there."""
    path = tmp_path_factory.mktemp("benchmark") / "results.json"
    command = [sys.executable, str(_BENCHMARKS / "recorder.py"), "--quick", "--repeats", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout)
    return path


def test_a_quick_run_measures_every_target_and_loses_nothing(results_file: Path) -> None:
    results = json.loads(results_file.read_text())
    targets = {target["name"]: target for target in results["targets"]}
    assert tuple(targets) == _TARGETS
    for name, target in targets.items():
        assert (target["measured"] is None) == ("Trackio" in target["goal"]), name
    for name in ("lost in that outage", "lost after kill -9 of the process", "lost after kill -9 of the group"):
        assert targets[name]["measured"] == 0
    assert targets["growth of bytes with turns: exponent"]["reached"]


def test_results_are_shown_as_tables_that_name_every_target(results_file: Path) -> None:
    command = [sys.executable, str(_BENCHMARKS / "recorder.py"), "--show", str(results_file)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in _TARGETS:
        assert name in shown


def test_a_single_part_is_measured_and_judged_alone() -> None:
    only = ["--repeats", "1", "--only", "points"]
    command = [sys.executable, str(_BENCHMARKS / "recorder.py"), "--quick", "--json", *only]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert set(results["questions"]) == {"points"}
    assert [target["name"] for target in results["targets"]] == ["bytes per metric point"]


@pytest.mark.parametrize(
    ("option", "given", "known"), [("--writers", "tensorbord", "trackio"), ("--only", "rolouts", "rollouts")]
)
def test_an_unknown_name_is_refused_with_those_there_are(option: str, given: str, known: str) -> None:
    command = [sys.executable, str(_BENCHMARKS / "recorder.py"), option, given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"there is no {'writer' if option == '--writers' else 'part'} {given}" in done.stderr
    assert known in done.stderr
