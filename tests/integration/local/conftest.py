"""Homes of their own for tests that start, break and stop stacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from openmanus_rl.local.health import check_health

from ...support.postgres_server import Server

PROGRAM = [sys.executable, "-m", "openmanus_rl"]


class HomeUnderTest:
    """A folder for one embedded stack, and the command line that works on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        names = ("SUPABASE_", "POSTGRES_", "PG", "OPENMANUS_RL_", "DATABASE_URL")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        self.env["OPENMANUS_RL_HOME"] = str(root)

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            [*PROGRAM, *arguments],
            env=self.env | env,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def python(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program that uses the stack."""
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, env=self.env, cwd="/", capture_output=True, text=True, check=False)

    def spawn(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start one command and leave it running."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*PROGRAM, *arguments],
            env=self.env | env,
            cwd="/",
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **pipes,
        )

    def up(self, *arguments: str) -> dict[str, Any]:
        """Start a detached stack on any port and return what it says about itself."""
        port = () if "--port" in arguments else ("--port", "0")
        done = self.run("up", "--detach", "--json", *port, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def status(self) -> dict[str, Any]:
        """Return `status --json`."""
        report: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return report

    def superuser_url(self) -> str:
        """Return the address for what only the start-up does."""
        password = json.loads((self.root / "keys.json").read_text())["superuser_password"]
        port = json.loads((self.root / "stack.json").read_text())["postgres_port"]
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"

    def wait_until(self, condition: Callable[[], bool], *, what: str, seconds: float = 60.0) -> None:
        """Wait for something that must happen."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not happen; {self.supervisor_log()}"
            time.sleep(0.1)

    def wait_until_healthy(self) -> None:
        url = json.loads((self.root / "stack.json").read_text())["url"]
        self.wait_until(lambda: check_health(url).ok, what="health")

    def supervisor_log(self) -> str:
        path = self.root / "logs" / "supervisor.log"
        return path.read_text() if path.exists() else "no log"

    def postgres_pid(self) -> int:
        return int((self.root / "postgres" / "postmaster.pid").read_text().split()[0])

    def gateway_pid(self) -> int:
        return next(process.pid for process in self.processes() if process.name() == "deno")

    def processes(self) -> list[psutil.Process]:
        """Return every process that works in this home."""
        found = []
        for process in psutil.process_iter(["cwd"]):  # Each part changes to a folder of the home when it starts.
            folder = process.info["cwd"]
            if folder and Path(folder).is_relative_to(self.root):
                found.append(process)
        return found


@pytest.fixture(scope="session")
def external_server(
    postgres_programs: Callable[[int], Path], one_at_a_time: Callable[[], AbstractContextManager[None]]
) -> Iterator[Callable[[int], Server]]:
    """Return a function that starts a Postgres of a major version, once; tests make databases of their own on it."""
    with ExitStack() as opened:

        @cache
        def start(major: int) -> Server:
            with one_at_a_time():
                return opened.enter_context(Server(postgres_programs(major)))

        yield start


@pytest.fixture(scope="session")
def template(homes: Path, one_at_a_time: Callable[[], AbstractContextManager[None]]) -> Path:
    """A home that was started and stopped once: copies of it start sooner than new ones."""
    home = HomeUnderTest(homes / "template")
    with one_at_a_time():
        home.up()
    assert home.run("down").returncode == 0
    return home.root


@pytest.fixture
def new_home(template: Path, homes: Path) -> Iterator[Callable[..., HomeUnderTest]]:
    """Return a function that makes homes; whatever runs in them is stopped at the end."""
    base = homes / os.urandom(4).hex()
    base.mkdir()
    made: list[HomeUnderTest] = []

    def make(name: str = "home", *, fresh: bool = False) -> HomeUnderTest:
        root = base / name
        if not fresh:
            root.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", str(template), str(root)], check=True)  # As root it keeps Postgres's owner.
        made.append(HomeUnderTest(root))
        return made[-1]

    yield make
    for home in made:
        if home.processes():
            home.run("down")
        left = home.processes()
        for process in left:
            process.kill()
        assert not left, f"processes outlived `down`: {left}"
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="module")
def running(template: Path, homes: Path) -> Iterator[HomeUnderTest]:
    """One running stack for the tests of a file that only look at it."""
    root = homes / f"running-{os.urandom(4).hex()}"
    subprocess.run(["cp", "-a", str(template), str(root)], check=True)
    home = HomeUnderTest(root)
    home.up()
    yield home
    assert home.run("down").returncode == 0


@pytest.fixture
def home(new_home: Callable[..., HomeUnderTest]) -> HomeUnderTest:
    """One home that was used before and in which nothing runs."""
    return new_home()


@pytest.fixture
def fresh_home(new_home: Callable[..., HomeUnderTest]) -> HomeUnderTest:
    """One home that does not exist yet."""
    return new_home(fresh=True)
