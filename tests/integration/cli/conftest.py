"""The command line on the running stack, in this process where that will do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ..conftest import Command


@pytest.fixture(autouse=True)
def _settings(_stack_settings: None) -> None:
    """Every command and manager here is about the session's stack."""


@pytest.fixture
def cli(command: Command) -> Command:
    """Run a command as `openmanus-rl` would, in this process."""
    return command


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
