"""What the benchmarks share: a stack of their own, repeats, and a table of ratios."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console()
SYNC_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Measurement:
    """How long each repeat of one way took, and how much it did."""

    name: str
    units: int
    seconds: list[float]

    @property
    def rate(self) -> float:
        """Return units per second, of the median repeat."""
        return self.units / statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Return the slowest repeat over the fastest."""
        return max(self.seconds) / min(self.seconds)


class Stack:
    """An embedded stack in a folder, which can be stopped and started again."""

    _setting_names = ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL")

    def __init__(self, home: Path) -> None:
        self.home = home
        self.settings: dict[str, str] = {}

    def start(self) -> None:
        """Start it, on any free port."""
        report = json.loads(self._run("up", "--detach", "--port", "0", "--json"))
        self.settings = {name: str(report[name]) for name in self._setting_names}

    def stop(self) -> None:
        """Stop it; the data stays."""
        self._run("down")

    def env(self) -> dict[str, str]:
        """Return an environment whose only setting is the stack's home: what is started in it finds the stack."""
        ours = ("SUPABASE_", "POSTGRES_", "PG", "OPENMANUS_RL_", "DATABASE_URL")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        # A stack that was stopped on purpose is to stay so.
        return env | {"OPENMANUS_RL_HOME": str(self.home), "OPENMANUS_RL_AUTOSTART": "0"}

    def sync(self) -> None:
        """Deliver what dead processes left in the stack's own spools, or wait for whoever does."""
        deadline = time.monotonic() + SYNC_TIMEOUT_SECONDS
        while True:
            try:
                self._run("sync")
            except subprocess.CalledProcessError:
                # Another delivers some of it, or the database refused some.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def _run(self, *arguments: str) -> bytes:
        command = [sys.executable, "-m", "openmanus_rl", *arguments]
        done = subprocess.run(command, env=self.env(), cwd=self.home, stdout=subprocess.PIPE, check=True)
        return done.stdout


@contextmanager
def running_stack() -> Iterator[Stack]:
    """Start a stack in a temporary home for one benchmark."""
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-bench-", ignore_cleanup_errors=True) as home:
        stack = Stack(Path(home))
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()


@contextmanager
def embedded_stack() -> Iterator[dict[str, str]]:
    """Start a stack for one benchmark, and put its settings in the environment."""
    with running_stack() as stack:
        os.environ.update(stack.settings, OPENMANUS_RL_HOME=str(stack.home))
        yield stack.settings


def repeat(name: str, units: int, times: int, make: Callable[[], Any], run: Callable[[Any], None]) -> Measurement:
    """Time `run` on what `make` makes, which is not timed."""
    seconds = []
    for _ in range(times):
        prepared = make()
        began = time.perf_counter()
        run(prepared)
        seconds.append(time.perf_counter() - began)
    return Measurement(name, units, seconds)


def print_table(title: str, measurements: list[Measurement], *, unit: str, against: str) -> None:
    """Print each way's rate and its ratio to the one named `against`."""
    base = next(measurement for measurement in measurements if measurement.name == against)
    table = Table(title=title)
    for column, justify in [
        ("way", "left"),
        (f"{unit}/s", "right"),
        (f"of {against}", "right"),
        ("slowest/fastest", "right"),
    ]:
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for m in measurements:
        table.add_row(m.name, f"{m.rate:,.0f}", f"{m.rate / base.rate:.3f}", f"{m.spread:.2f}")
    console.print(table)
