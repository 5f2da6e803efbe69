"""How fast Stable-Baselines3 trains while it is recorded, as ratios to the same training without any logging.

    scripts/benchmark sb3 --rounds 5

CartPole in eight environments at once, with the settings of PPO that Stable-Baselines3 has by default. With `--harsh`
there is one epoch of large batches, so that the network hardly learns: episodes stay at 20 steps, hundreds end each
second, and whatever is done for each of them shows. The clock runs from the first step to the end of `learn`. On a
machine that has other things to do, look at the last column: the CPU time of the training process, all its threads
together, in the best round of each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.measuring import Measured, Question, Results, ask
from benchmarks.report import print_table
from benchmarks.stack import Stack, run_json, running_stack, temporary_folder
from benchmarks.writers.lines import keep_offline
from openmanus_rl.integrations.stable_baselines3 import OpenManusCallback
from openmanus_rl.training.callbacks import Metrics

_PLAIN = "no logging"
_ENVIRONMENTS = 8


class Clock(BaseCallback):
    """Measures training from its first step on: the last callback is called after all others."""

    def _on_training_start(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        began, began_cpu = self._began
        self.measured = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - began_cpu}


def _wandb(folder: Path) -> dict[str, Any]:
    """W&B as its documentation has it for Stable-Baselines3: its callback, and its copy of what TensorBoard gets."""
    keep_offline(folder)
    import wandb
    from wandb.integration.sb3 import WandbCallback

    wandb.init(project="bench", sync_tensorboard=True)
    return {"tensorboard_log": str(folder), "callbacks": [WandbCallback()]}


_VARIANTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    _PLAIN: lambda _: {},
    "TensorBoard": lambda folder: {"tensorboard_log": str(folder)},
    "W&B offline": _wandb,
    "ours": lambda _: {"callbacks": [OpenManusCallback(name="bench")]},
    "ours, training service": lambda _: {
        "callbacks": [Metrics(100), OpenManusCallback(name="bench")],
        "log_interval": None,
    },
    "ours, all turns": lambda _: {"callbacks": [OpenManusCallback(name="bench", turn_interval_episodes=1)]},
}


def _train(variant: str, steps: int, folder: Path, *, harsh: bool) -> Measured:
    """Train once in this process, and return how long it took."""
    torch.set_num_threads(1)
    options = _VARIANTS[variant](folder)
    clock = Clock()
    callbacks = [*options.pop("callbacks", []), clock]
    schedule = {"log_interval": options.pop("log_interval")} if "log_interval" in options else {}
    env = make_vec_env("CartPole-v1", n_envs=_ENVIRONMENTS, seed=1)
    settings: dict[str, Any] = {"n_steps": 256, "device": "cpu", "seed": 1}
    if harsh:
        settings |= {"batch_size": 2048, "n_epochs": 1}
    PPO("MlpPolicy", env, **settings).learn(4096)
    PPO("MlpPolicy", env, **settings, **options).learn(steps, callback=callbacks, **schedule)
    return clock.measured


def _measure(variant: str, steps: int, stack: Stack, *, harsh: bool) -> Measured:
    """Train once in a process of its own; wait until what it recorded is delivered before the next one begins."""
    with temporary_folder() as folder:
        command = [__file__, "--train", variant, "--steps", str(steps), "--folder", str(folder)]
        command += ["--harsh"] if harsh else []
        measured = run_json(command, env=stack.env())
    stack.sync()
    return measured


def _print(results: Results, steps: int, variants: list[str]) -> None:
    rows = []
    for variant in variants:
        (plain_seconds, seconds), (plain_cpu, cpu) = (
            [results.values("sb3", name, figure) for name in (_PLAIN, variant)] for figure in ("seconds", "cpu_seconds")
        )
        speeds = [without / own for without, own in zip(plain_seconds, seconds, strict=True)]
        rows.append([
            variant, f"{steps / statistics.median(seconds):,.0f}", f"{statistics.median(speeds):.3f}",
            f"{min(speeds):.2f} to {max(speeds):.2f}", f"{min(cpu) / min(plain_cpu):.3f}",
        ])  # fmt: skip
    title = f"PPO on CartPole, {_ENVIRONMENTS} environments, {steps:,} steps; ratios to {_PLAIN}"
    print_table(title, ["steps/s", "speed", "range", "CPU time"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--harsh", action="store_true", help="hardly any learning and very short episodes")
    parser.add_argument("--only", nargs="+", choices=list(_VARIANTS), help="variants to measure beside no logging")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        print("\n" + json.dumps(_train(given.train, given.steps, given.folder, harsh=given.harsh)))
        return
    with running_stack() as stack:
        variants = [name for name in _VARIANTS if name == _PLAIN or name in (given.only or _VARIANTS)]
        repeats = dict.fromkeys(variants, given.rounds)
        question = Question("sb3", repeats, lambda name, _: _measure(name, given.steps, stack, harsh=given.harsh))
        _print(ask([question]), given.steps, variants)


if __name__ == "__main__":
    main()
