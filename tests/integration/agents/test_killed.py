"""A browser does not outlive the process that started it, however that ends."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ...support.agents import LocalSandbox

ROOT = Path(__file__).parents[3]
CODE = """
import sys
from pathlib import Path
from openmanus_rl.agents.base import Limits, Task
from openmanus_rl.agents.recording import LimitedRecorder
from openmanus_rl.agents.registry import make_agent
from tests.support.agents import LocalSandbox, Remembered

class Told(Remembered):
    def log_turn(self, **fields):
        print("turn", flush=True)
        return super().log_turn(**fields)

script = [{"goto": "/"}, {"sleep": float(sys.argv[2])}]
agent = make_agent("scripted", options={"script": script})
agent.run(Task(id="1", description=""), LocalSandbox(Path("."), url=sys.argv[1]), LimitedRecorder(Told(), Limits()))
"""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder for what the browser writes, by which its processes are known; sockets need a short path."""
    folder = Path(tempfile.mkdtemp(prefix="scratch-"))
    yield folder
    for process in _browsers(folder):
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _start(sandbox: LocalSandbox, scratch: Path, *, seconds: float) -> subprocess.Popen[str]:
    env = {**psutil.Process().environ(), "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CODE, str(sandbox.url), str(seconds)]
    return subprocess.Popen(command, env=env, cwd=scratch, stdout=subprocess.PIPE, text=True)


def _browsers(scratch: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(scratch) in part for part in process.info["cmdline"] or []):
            found.append(process)
    return found


def _wait_for_none(scratch: Path) -> None:
    deadline = time.monotonic() + 60
    while left := _browsers(scratch):
        assert time.monotonic() < deadline, [process.cmdline()[:1] for process in left]
        time.sleep(0.1)


def test_a_killed_agent_leaves_no_browser(sandbox: LocalSandbox, scratch: Path) -> None:
    process = _start(sandbox, scratch, seconds=600)
    assert process.stdout is not None
    assert process.stdout.readline() == "turn\n"
    assert _browsers(scratch)
    process.kill()
    process.wait()
    process.stdout.close()
    _wait_for_none(scratch)


def test_an_agent_that_ends_leaves_neither_processes_nor_files(sandbox: LocalSandbox, scratch: Path) -> None:
    process = _start(sandbox, scratch, seconds=0)
    process.communicate()
    assert process.returncode == 0
    _wait_for_none(scratch)
    assert [path.name for path in scratch.iterdir()] == []
