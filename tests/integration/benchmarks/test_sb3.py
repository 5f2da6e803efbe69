"""The benchmark of Stable-Baselines3 trains with each of our variants and says how long that took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).parents[3] / "benchmarks" / "sb3.py"


def test_a_variant_is_trained_and_measured(stack: Any, tmp_path: Path) -> None:
    env = {**os.environ, **stack.env, "OPENMANUS_RL_HOME": str(tmp_path / "home")}
    env.pop("OPENMANUS_RL_RUN_ID", None)
    command = [sys.executable, str(_SCRIPT), "--train", "ours, all turns", "--steps", "2048", "--folder", str(tmp_path)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout.splitlines()[-1])
    assert measured["seconds"] > 0
    assert measured["cpu_seconds"] > 0
