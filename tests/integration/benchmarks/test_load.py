"""The benchmark of a server under load runs from end to end, and counts what it recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_SCRIPT = str(Path(__file__).parents[3] / "benchmarks" / "load.py")


def test_a_quick_run_counts_every_record_and_every_dashboard() -> None:
    command = [sys.executable, _SCRIPT, "--quick", "--json", "--proxy", "nginx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)["load"]
    # Of each of three trainers 36 steps of 20 metrics, 5 rollouts, and their 100 turns.
    assert measured["records"] == 3 * (36 * 20 + 5 + 5 * 20)
    assert (measured["lost"], measured["doubled"], measured["undelivered"]) == (0, 0, 0)
    pages = measured["pages"]
    assert (pages["heard"], pages["failures"]) == (6, 0), pages["first_failures"]
    assert pages["reads"] > 6
