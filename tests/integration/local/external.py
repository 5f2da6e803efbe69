"""Machines on a Postgres of somebody else's, for the tests of `DATABASE_URL` alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from openmanus_rl.settings import load_settings

from .conftest import HomeUnderTest


class Machine(HomeUnderTest):
    """A machine whose settings name a database and nothing else."""

    def __init__(self, root: Path, database_url: str) -> None:
        super().__init__(root)
        root.mkdir(parents=True, exist_ok=True)
        self.env |= {"DATABASE_URL": database_url, "OPENMANUS_RL_ASK_TIMEOUT_SECONDS": "30"}
        self.stack = load_settings(environ=self.env, directory=Path("/")).stack_home

    def python(self, script: str) -> Any:
        """Run a script that prints one JSON document, as somebody's training program."""
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=self.env,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def info(self) -> dict[str, Any]:
        """Return what the running stack says of itself to programs of this user."""
        content: dict[str, Any] = json.loads((self.stack / "stack.json").read_text())
        return content

    def down(self) -> None:
        """Stop what runs, and see that nothing is left."""
        for process in self.processes():
            if "openmanus_rl.delivery" in process.cmdline():
                process.kill()
        assert self.run("down").returncode == 0
        left = [process for process in self.processes() if process.status() != psutil.STATUS_ZOMBIE]
        for process in left:
            process.kill()
        assert not left, f"processes outlived `down`: {left}"
