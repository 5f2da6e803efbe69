"""What the benchmarks share: a stack of their own, made-up rollouts, repeats, and a table of ratios."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from openmanus_rl.records.ids import new_id

console = Console()


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


@contextmanager
def embedded_stack() -> Iterator[dict[str, str]]:
    """Start a stack in a temporary home for one benchmark, and put its settings in the environment."""
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-bench-") as home:
        env = {**os.environ, "OPENMANUS_RL_HOME": home}
        command = [sys.executable, "-m", "openmanus_rl"]
        started = subprocess.run(
            [*command, "up", "--detach", "--port", "0", "--json"], env=env, stdout=subprocess.PIPE, check=True
        )
        report = json.loads(started.stdout)
        names = ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL")
        settings = {name: str(report[name]) for name in names}
        os.environ.update(settings, OPENMANUS_RL_HOME=home)
        try:
            yield settings
        finally:
            subprocess.run([*command, "down"], env=env, stdout=subprocess.DEVNULL, check=True)


def repeat(name: str, units: int, times: int, make: Callable[[], Any], run: Callable[[Any], None]) -> Measurement:
    """Time `run` on what `make` makes, which is not timed."""
    seconds = []
    for _ in range(times):
        prepared = make()
        began = time.perf_counter()
        run(prepared)
        seconds.append(time.perf_counter() - began)
    return Measurement(name, units, seconds)


_words = ["".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=7)) for seed in range(2000)]


def text(size: int, chance: random.Random) -> str:
    """Return about `size` characters of words that compress as prose does."""
    return " ".join(chance.choices(_words, k=max(1, size // 8)))


def make_batch(run_id: str, *, rollouts: int, turns: int, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Return rollouts of about 36 KB for 20 turns: each turn with a tool call and a reward."""
    chance = random.Random(seed)
    batch: dict[str, list[dict[str, Any]]] = {"rollouts": [], "agent_states": []}
    for episode in range(rollouts):
        rollout_id = new_id()
        batch["rollouts"].append({
            "id": rollout_id, "training_run_id": run_id, "environment": "bench", "episode_number": episode,
            "task_description": text(80, chance), "status": "success", "total_reward": chance.random(),
            "step_count": turns,
        })  # fmt: skip
        for number in range(turns):
            batch["agent_states"].append({
                "id": new_id(), "rollout_id": rollout_id, "step_number": number, "observation": text(900, chance),
                "action": text(160, chance), "thought": text(240, chance),
                "tool_calls": [{"id": new_id(), "tool_name": "search", "tool_input": {"query": text(40, chance)},
                                "tool_output": text(200, chance), "success": True, "execution_time_ms": 12.5}],
                "rewards": [{"id": new_id(), "reward": chance.random()}],
            })  # fmt: skip
    return batch


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
