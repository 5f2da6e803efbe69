"""The benchmark of the queue runs from end to end, with or without procrastinate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_SCRIPT = str(Path(__file__).parents[3] / "benchmarks" / "work_queue.py")


def test_a_quick_run_measures_rates_and_claims() -> None:
    done = subprocess.run([sys.executable, _SCRIPT, "--quick", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    questions = json.loads(done.stdout)["questions"]
    for workers in ("1 worker", "4 workers"):
        [measured] = questions[workers]["ours"]
        assert measured["count"] == 40
        assert measured["rate"] > 0
    assert list(questions["claims"]) == ["10,000 finished", "1,000 finished"]
    assert all(measured["one_ms"] > 0 for repeats in questions["claims"].values() for measured in repeats)
