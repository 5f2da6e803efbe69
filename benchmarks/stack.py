"""An embedded stack of its own for each benchmark, and processes that use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measuring import Measured

SYNC_TIMEOUT_SECONDS = 30.0


class Stack:
    """An embedded stack in a folder, which can be stopped and started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.settings: dict[str, str] = {}

    def start(self) -> None:
        """Start it on any free port, and keep its URLs and keys as `settings`."""
        self.settings = json.loads(self.run("up", "--detach", "--port", "0", "--json"))

    def stop(self) -> None:
        """Stop it; the data stays."""
        self.run("down")

    def env(self) -> dict[str, str]:
        """Return an environment whose only setting is the stack's home, through which a process finds the stack."""
        ours = ("SUPABASE_", "POSTGRES_", "PG", "OPENMANUS_RL_", "DATABASE_URL")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        # A stack that was stopped on purpose must stay stopped.
        return env | {"OPENMANUS_RL_HOME": str(self.home), "OPENMANUS_RL_AUTOSTART": "0"}

    def sync(self) -> None:
        """Deliver what killed processes left in their spools; retry while another process delivers it."""
        deadline = time.monotonic() + SYNC_TIMEOUT_SECONDS
        while True:
            try:
                self.run("sync")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def run(self, *arguments: str) -> bytes:
        """Run `openmanus-rl` on this stack and return what it prints."""
        command = [sys.executable, "-m", "openmanus_rl", *arguments]
        return subprocess.run(command, env=self.env(), cwd=self.home, stdout=subprocess.PIPE, check=True).stdout


@contextmanager
def running_stack() -> Iterator[Stack]:
    """Start a stack in a temporary folder, and stop it at the end."""
    with temporary_folder() as home:
        stack = Stack(home)
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for one measurement, or for a stack."""
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run_json(arguments: Sequence[str], *, env: dict[str, str]) -> Measured:
    """Run a Python program in a process of its own and return the JSON object on its last line."""
    # Write out what the process before left in the page cache.
    os.sync()
    # In a folder that stays: the recorder's courier may outlive the process.
    options: dict[str, Any] = {"env": env, "cwd": env["OPENMANUS_RL_HOME"], "stdin": subprocess.DEVNULL}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed\n{done.stdout}\n{done.stderr}")
    # Libraries may print something after it.
    measured: Measured = json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{")))
    return measured
