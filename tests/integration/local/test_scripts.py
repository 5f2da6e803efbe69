"""The scripts of the README say what is missing on a machine that lacks something."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the scripts, where they can't touch the checkout's own environment."""
    shutil.copytree(CHECKOUT / "scripts", tmp_path / "scripts")
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    return tmp_path


def run(project: Path, script: str, *, python: str) -> subprocess.CompletedProcess[str]:
    interpreter = project / "python3"
    interpreter.write_text(python)
    interpreter.chmod(0o755)
    env = {"PATH": f"{project}:/usr/bin:/bin", "PYTHON": str(interpreter)}
    command = ["sh", str(project / "scripts" / script)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", ["start", "test"])
def test_a_python_without_venv_is_told_how_to_get_it(project: Path, script: str) -> None:
    done = run(project, script, python='#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\n')
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (project / ".venv").exists()


def test_an_old_python_is_refused(project: Path) -> None:
    (project / "scripts" / "lib" / "venv.sh").write_text(
        (project / "scripts" / "lib" / "venv.sh").read_text().replace("python3 python3.13 python3.12 python3.11", "")
    )
    done = run(project, "start", python="#!/bin/sh\nexit 1\n")
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
