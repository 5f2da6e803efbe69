"""Every snippet of the README runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def of_language(language: str) -> list[str]:
    return [code for name, code in SNIPPETS if name == language]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the files that the snippets name."""
    for name in ("path/to/checkpoint.pt", "data/alfworld/train.json", "logs/training.log"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"a": 1}\n')
    (tmp_path / "screenshot.png").write_bytes(b"\x89PNG\r\n\x1a\n and so on")
    return tmp_path


def run(command: list[str], *, stack, cwd: Path) -> str:
    # The stack's own home, not its settings: a newcomer has set nothing.
    env = {name: value for name, value in stack.env.items() if not name.startswith(("SUPABASE_", "DATABASE_URL"))}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_snippet_is_of_a_kind_that_is_run_or_shown() -> None:
    # console: the two commands, which CI runs; no name: a picture.
    assert {name for name, _ in SNIPPETS} == {"python", "bash", "console", ""}
    assert "".join(of_language("console")) == "scripts/start\nscripts/test\n"


def test_the_python_snippets_run_one_after_the_other(stack, project: Path) -> None:
    script = project / "readme.py"
    script.write_text("\n".join(of_language("python")))
    printed = run([sys.executable, str(script)], stack=stack, cwd=project)
    assert "Stats(queued=0" in printed
    assert "Find the red ball 10.5" in printed
    assert "status must be one of pending, running, success" in printed


@pytest.mark.parametrize("number", range(len(of_language("bash"))))
def test_the_shell_snippets_run(stack, project: Path, number: int) -> None:
    run(["bash", "-euo", "pipefail", "-c", of_language("bash")[number]], stack=stack, cwd=project)
