"""An embedded stack of its own for each benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def run(self, *arguments: str) -> bytes:
        """Run `openmanus-rl` on this stack and return what it prints."""
        command = [sys.executable, "-m", "openmanus_rl", *arguments]
        return subprocess.run(command, env=self.env(), cwd=self.home, stdout=subprocess.PIPE, check=True).stdout


@contextmanager
def running_stack() -> Iterator[Stack]:
    """Start a stack in a temporary folder, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-bench-", ignore_cleanup_errors=True) as home:
        stack = Stack(Path(home))
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()
