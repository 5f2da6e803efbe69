"""What the form of a new run knows of Stable-Baselines3 is what the installed release says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = ROOT / "dashboard" / "src" / "pages" / "new_run" / "algorithms.json"


def test_the_parameters_of_the_algorithms_are_those_of_stable_baselines3(tmp_path: Path) -> None:
    fresh = tmp_path / "algorithms.json"
    subprocess.run([sys.executable, ROOT / "scripts" / "generate_algorithms.py", fresh], check=True)
    assert fresh.read_text() == WRITTEN.read_text(), "run scripts/generate_algorithms.py and commit what it writes"
