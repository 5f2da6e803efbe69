"""The command line on the running stack, in this process where that will do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.cli import main
from openmanus_rl.gateway import forget_gateways


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed for programs."""
        return json.loads(self.out)

    @property
    def message(self) -> str:
        """What it said went wrong, on one line."""
        return " ".join(self.err.replace("│", " ").split())


Cli = Callable[..., Done]


@pytest.fixture(scope="session")
def _connections() -> Iterator[None]:
    yield
    forget_gateways()


@pytest.fixture(autouse=True)
def _stack_settings(stack: Any, _connections: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the managers and commands of this process find the session's stack, from a folder without settings."""
    for name, value in stack.env.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command as `openmanus-rl` would, in this process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["openmanus-rl", *arguments])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def demo(stack: Any) -> dict[str, Any]:
    """One short demo, run as a user runs it; many tests look at what it recorded."""
    done = subprocess.run(
        [sys.executable, "-m", "openmanus_rl", "demo", "--steps", "3", "--seed", "1", "--name", "recorded", "--json"],
        env=stack.env,
        cwd=stack.home,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report
