"""What the pictures of training show: environments, a run and its job, and sweeps, all trained for real."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page

Cli = Callable[..., Any]
Start = Callable[..., subprocess.Popen[bytes]]

MAZE = {
    "map": [
        "##########",
        "#A...#...#",
        "#.##.#.#.#",
        "#.#....#.#",
        "#.#.##.#T#",
        "#...#o...#",
        "#.#.#.##.#",
        "#.#...#.G#",
        "##########",
    ],
    "rewards": {"step": -0.01},
}
CARTPOLE = {"total_timesteps": 5_000, "hyperparameters": {"n_steps": 256}}
RATE, EPOCHS, GAMMA = (f"hyperparameters.{name}" for name in ("learning_rate", "n_epochs", "gamma"))
SPACE = {
    RATE: {"min": 1e-5, "max": 1e-2, "log": True},
    EPOCHS: {"values": [5, 10, 20]},
    GAMMA: {"min": 0.9, "max": 0.999},
}
ACTIVE = ("pending", "launching", "queued", "running")
_LIMIT_SECONDS = 1800


@contextmanager
def trained(cli: Cli, start: Start) -> Iterator[dict[str, str]]:
    """Train what is shown; yields its ids by name. The settings in the environment name the stack."""
    from openmanus_rl.utils.supabase_db import EnvironmentManager, SweepManager, TrainingRunManager

    maze = EnvironmentManager.save_environment("two rooms", kind="grid", spec=MAZE)
    for name in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0"):
        EnvironmentManager.save_environment(name.split("-")[0].lower(), kind="gymnasium", spec={"id": name})

    def new_run(name: str, **fields: Any) -> str:
        made = {"algorithm": "ppo", "environment": "CartPole-v1", "config": CARTPOLE, **fields}
        return str(TrainingRunManager.create_run(name, status="pending", **made)["id"])

    def new_sweep(name: str, **fields: Any) -> str:
        template = {"name": "cartpole", "algorithm": "ppo", "environment": "CartPole-v1", "config": CARTPOLE}
        return SweepManager.request_sweep(name, template=template, metric="rollout/ep_rew_mean", **fields)["id"]

    orchestrator = start("orchestrator", "--name", "trainer", "--max-jobs", "4")
    try:
        run = new_run("cartpole", config=CARTPOLE | {"total_timesteps": 20_000})
        job = cli("jobs", "launch", run, "--set", "frame_interval=100")["job"]
        _wait(lambda: cli("jobs", "show", job["id"])["status"], "succeeded")
        sweep = new_sweep("learning rates", method="random", space=SPACE, max_trials=10, max_concurrent=4)
        seeds = new_sweep(
            "cartpole, 5 seeds", method="seeds", space={"seed": {"values": [*range(5)]}}, max_concurrent=4
        )
        for each in (sweep, seeds):
            _wait(lambda each=each: SweepManager.sweep_overview(each)["sweep"]["status"], "completed")
        longer = new_run("cartpole, longer", config=CARTPOLE | {"total_timesteps": 5_000_000})
        cli("jobs", "launch", longer)
        _wait(lambda: str(TrainingRunManager.get_run(longer)["status"]), "running")
        yield {"maze": maze["id"], "run": run, "waiting": new_run("cartpole, waiting"), "sweep": sweep, "seeds": seeds}
    finally:
        _stop_jobs(cli)
        orchestrator.terminate()
        orchestrator.wait()


def _stop_jobs(cli: Cli) -> None:
    """Local jobs outlive their orchestrator, and would outlive the stack."""
    while active := [each["id"] for each in cli("jobs", "list") if each["status"] in ACTIVE]:
        cli("jobs", "stop", *active)
        time.sleep(2)


def _wait(look: Callable[[], str], wanted: str) -> None:
    began = time.monotonic()
    while (status := look()) != wanted:
        if status in ("failed", "cancelled", "interrupted") or time.monotonic() - began > _LIMIT_SECONDS:
            raise SystemExit(f"it is {status}, not {wanted}")
        time.sleep(2)


def pages(of: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return for each picture the page and what must be on it before it is taken."""
    return {
        "environments": ("/environments", "img[alt]"),
        "environment": (f"/environments/{of['maze']}", "[role=img]"),
        "new-run": ("/runs/new", "form"),
        "launch": (f"/runs/{of['waiting']}?launch=true", "[aria-label='YAML of the task']"),
        "job": (f"/runs/{of['run']}?tab=job", "[aria-label='Log of the job'] pre"),
        "frames": (f"/runs/{of['run']}?tab=frames&frame=6000", "[aria-label='All frames'] img"),
        "jobs": ("/jobs", "table"),
        "sweep": (f"/sweeps/{of['sweep']}", "canvas"),
        "seeds": (f"/sweeps/{of['seeds']}", ".uplot"),
        "new-sweep": (f"/sweeps/new?from={of['sweep']}", "text=It makes 10 runs"),
    }


# Which machine took the pictures is of no interest.
_RENAME = """([name, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(name, shown);
}"""


def prepare(page: Page, name: str) -> None:
    """Bring a page into the state that its picture shows."""
    page.evaluate(_RENAME, [socket.gethostname(), "gpu-1"])
    if name == "frames":
        page.get_by_role("listbox", name="All frames").evaluate("strip => strip.scrollIntoView({ block: 'end' })")
        page.mouse.wheel(0, 60)
        page.wait_for_timeout(1_000)
    if name == "new-run":
        page.get_by_label("Name").fill("cartpole, slower")
        page.get_by_label("learning_rate").fill("1e-4")
