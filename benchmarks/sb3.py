"""How fast Stable-Baselines3 trains while it is recorded, as ratios to the same training without any logging.

    .venv/bin/python benchmarks/sb3.py --rounds 5

The environments are fast and the network is small, so that whatever is done each step shows: CartPole, eight at once,
one epoch. Every measurement is a process of its own, the variants take turns, and the clock runs from the first step to
the end of `learn`. On a machine that has other things to do, look at the last column: the CPU time of the training
process, all its threads together, in the best round of each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import Stack, console, running_stack
from rich.table import Table
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from openmanus_rl.integrations.stable_baselines3 import OpenManusCallback

_PLAIN = "no logging"
_ENVIRONMENTS = 8
_SETTLE_SECONDS = 120.0


class Clock(BaseCallback):
    """Measures training from its first step on: the last callback is called after all others."""

    def _on_training_start(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        began, began_cpu = self._began
        self.seconds = time.perf_counter() - began
        self.cpu_seconds = time.process_time() - began_cpu


def _nothing(folder: Path) -> dict[str, Any]:  # noqa: ARG001 - each variant is given one
    return {}


def _tensorboard(folder: Path) -> dict[str, Any]:
    return {"tensorboard_log": str(folder)}


def _wandb(folder: Path) -> dict[str, Any]:
    """W&B as its documentation has it for Stable-Baselines3: its callback, and its copy of what TensorBoard gets."""
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=str(folder))
    os.environ.update(WANDB_CACHE_DIR=str(folder), WANDB_CONFIG_DIR=str(folder))
    import wandb
    from wandb.integration.sb3 import WandbCallback

    wandb.init(project="bench", sync_tensorboard=True)
    return {"tensorboard_log": str(folder), "callbacks": [WandbCallback()]}


def _ours(**options: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda folder: {"callbacks": [OpenManusCallback(name="bench", **options)]}  # noqa: ARG005


_VARIANTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    _PLAIN: _nothing,
    "TensorBoard": _tensorboard,
    "W&B offline": _wandb,
    "ours": _ours(),
    "ours, all turns": _ours(turn_interval_episodes=1),
}


def _train(variant: str, steps: int, folder: Path) -> dict[str, float]:
    """Train once in this process, and return how long it took."""
    torch.set_num_threads(1)
    options = _VARIANTS[variant](folder)
    clock = Clock()
    callbacks = [*options.pop("callbacks", []), clock]
    env = make_vec_env("CartPole-v1", n_envs=_ENVIRONMENTS, seed=1)
    settings: dict[str, Any] = {"n_steps": 256, "batch_size": 2048, "n_epochs": 1, "device": "cpu", "seed": 1}
    PPO("MlpPolicy", env, **settings).learn(4096)
    model = PPO("MlpPolicy", env, **settings, **options)
    model.learn(steps, callback=callbacks)
    return {"seconds": clock.seconds, "cpu_seconds": clock.cpu_seconds}


def _measure(variant: str, steps: int, stack: Stack) -> dict[str, float]:
    """Train once in a process of its own; what it leaves to deliver is delivered before the next one begins."""
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-bench-") as folder:
        command = [sys.executable, __file__, "--train", variant, "--steps", str(steps), "--folder", folder]
        done = subprocess.run(command, env=stack.env(), cwd=folder, stdout=subprocess.PIPE, check=True)
    deadline = time.monotonic() + _SETTLE_SECONDS
    while any(stack.home.glob("spool/*/*/meta.json")) and time.monotonic() < deadline:
        time.sleep(0.2)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _show(found: dict[str, list[dict[str, float]]], steps: int) -> None:
    table = Table(title=f"PPO on CartPole, {_ENVIRONMENTS} environments, {steps:,} steps")
    for column in ("variant", "steps/s", f"speed, of {_PLAIN}", "from … to", f"CPU time, of {_PLAIN}"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    plain = found[_PLAIN]
    for variant, measured in found.items():
        speeds = [one["seconds"] / own["seconds"] for one, own in zip(plain, measured, strict=True)]
        cost = min(one["cpu_seconds"] for one in measured) / min(one["cpu_seconds"] for one in plain)
        rate = steps / statistics.median(one["seconds"] for one in measured)
        span = f"{min(speeds):.2f} … {max(speeds):.2f}"
        table.add_row(variant, f"{rate:,.0f}", f"{statistics.median(speeds):.3f}", span, f"{cost:.3f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--variants", nargs="+", default=list(_VARIANTS), choices=list(_VARIANTS))
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        print(json.dumps(_train(given.train, given.steps, given.folder)))
        return
    variants = [_PLAIN, *(variant for variant in given.variants if variant != _PLAIN)]
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in variants}
    with running_stack() as stack:
        for turn in range(given.rounds):
            # Every other round the other way round: whatever grows or shrinks meanwhile hits all alike.
            for variant in variants[:: 1 if turn % 2 == 0 else -1]:
                found[variant].append(_measure(variant, given.steps, stack))
                console.print(f"round {turn + 1}: {variant}: {found[variant][-1]['seconds']:.2f} s", style="dim")
    _show(found, given.steps)


if __name__ == "__main__":
    main()
