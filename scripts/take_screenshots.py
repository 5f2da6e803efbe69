#!/usr/bin/env python3
"""Take the pictures of the dashboard: a new stack, two demo runs, rollouts on demand, training, a real browser.

Run it with .venv/bin/python once scripts/test has installed what it needs. `take_screenshots.py training` takes those
of training alone; the other groups are `rollouts` and `team`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lib import training_pictures
from playwright.sync_api import Browser, Page, sync_playwright
from rich.progress import track

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "images"
GROUPS = ("rollouts", "training", "team")
IN_THE_DARK = ("run", "rollout")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


COLORS = ("red", "blue", "green", "yellow", "black", "white")
# How often each model of the pictures finds the room.
SKILL = {"policy, step 0": 0.1, "policy, step 100": 0.35, "policy, step 200": 0.7}


class Guesser:
    """An agent for the pictures: it looks around for a while, and then may name the right room."""

    sees_solution = False

    def __init__(self, *, model: str | None = None, options: dict[str, Any] | None = None) -> None:
        self.skill = SKILL[str(model)]
        self.seconds = float((options or {}).get("seconds", 0))

    def run(self, task: Any, environment: Any, recorder: Any) -> str:
        """Return a room."""
        del environment
        for room in ("hall", "bath", "kitchen"):
            recorder.log_turn(observation=f"You are in the {room}.", action="look", thought=task.description)
            recorder.add_usage(input_tokens=400, output_tokens=20, cost_usd=0.0004)
        for _second in range(int(self.seconds)):
            recorder.check_limits()
            time.sleep(1)
        return "kitchen" if random.random() < self.skill else "bath"


def environment_of(home: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SUPABASE_", "DATABASE_URL"))}
    # Environments that are drawn with SDL ask for the last.
    return env | {"OPENMANUS_RL_HOME": str(home), "PYTHONPATH": str(ROOT / "scripts"), "XDG_RUNTIME_DIR": str(home)}


def run_cli(home: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", "openmanus_rl", *arguments, "--json"]
    done = subprocess.run(command, env=environment_of(home), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"`openmanus-rl {' '.join(arguments)}` failed:\n{done.stderr}")
    return json.loads(done.stdout)


@contextmanager
def stack() -> Iterator[Path]:
    """A stack of its own, so that nobody's data is in the pictures."""
    home = Path(tempfile.mkdtemp(prefix="openmanus-rl-pictures-"))
    home.chmod(0o755)
    try:
        run_cli(home, "up", "--detach", "--port", "0")
        yield home
    finally:
        subprocess.run(
            [sys.executable, "-m", "openmanus_rl", "down"],
            env=os.environ | {"OPENMANUS_RL_HOME": str(home)},
            check=False,
            stdout=subprocess.DEVNULL,
        )
        shutil.rmtree(home, ignore_errors=True)


def start_cli(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "openmanus_rl", *arguments]
    return subprocess.Popen(command, env=environment_of(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_worker(home: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    return start_cli(home, "worker", "--name", name, *arguments)


def ask(home: Path, model: str, *arguments: str) -> Any:
    return run_cli(home, "rollouts", "new", "--agent", "take_screenshots:Guesser", "--model", model, *arguments)


@contextmanager
def busy_queue(home: Path) -> Iterator[str]:
    """Rollouts that have ended, run and wait on two workers; yields the id of the task that has a pass@k."""
    tasks = [
        {"id": f"ball-{n}", "task": f"In which room is the {color} ball?", "answer": "kitchen"}
        for n, color in enumerate(COLORS)
    ]
    (home / "tasks.json").write_text(json.dumps(tasks))
    run_cli(home, "tasks", "import", str(home / "tasks.json"), "--environment", "house")
    for model in SKILL:
        rollouts = ask(home, model, "--task", "ball-0", "--attempts", "16", "--environment", "none")
    start_worker(home, "first", "--max-workers", "8", "--until-idle").wait()
    every = [part for n in range(len(COLORS)) for part in ("--task", f"ball-{n}")]
    for model in list(SKILL)[1:]:
        ask(home, model, *every, "--environment", "none", "--option", "seconds=600")
    workers = [start_worker(home, "gpu-1", "--max-workers", "4"), start_worker(home, "gpu-2", "--max-workers", "2")]
    try:
        time.sleep(20)
        yield rollouts["rollouts"][0]["task_id"]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def pages(
    demo: dict[str, Any], other: dict[str, Any], browsing: list[dict[str, Any]], task: str
) -> dict[str, tuple[str, str]]:
    """Return for each picture the page and what must be on it before it is taken."""
    run, rollout = demo["run_id"], demo["example_rollout_id"]
    requested = urlencode({"at": browsing[0]["created_at"]})
    return {
        "runs": ("/runs", "table"),
        "run": (f"/runs/{run}?with={other['run_id']}", ".uplot"),
        "progress": (f"/runs/{run}?tab=progress", ".uplot"),
        "evaluations": (f"/runs/{run}?tab=evaluations", "table"),
        "rollout": (f"/rollouts/{rollout}", "article"),
        "rollouts": ("/rollouts?text=locked", "table"),
        "queue": ("/queue", "table"),
        "watch": (f"/queue/watch?{requested}", "article"),
        "task": (f"/tasks/{task}", ".uplot"),
        "video": (f"/rollouts/{browsing[0]['id']}", "video"),
    }


def take(page: Page, name: str, path: str, mark: str) -> None:
    page.goto(path)
    page.locator(mark).first.wait_for()
    page.get_by_text("Live", exact=True).wait_for()
    page.wait_for_timeout(1_500)
    training_pictures.prepare(page, name)
    if name == "video":
        page.get_by_role("link", name="Turn 2").click()
        page.wait_for_timeout(1_500)
    if name == "task":
        page.locator(mark).first.evaluate("chart => chart.scrollIntoView({ block: 'end' })")
        page.mouse.wheel(0, 60)
        page.wait_for_timeout(500)
    page.screenshot(path=PICTURES / f"{name}.png")


def sign_in(browser: Browser, link: str) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    state = context.storage_state()
    context.close()
    return state


def of_rollouts(home: Path, held: ExitStack) -> dict[str, tuple[str, str]]:
    other = run_cli(home, "demo", "--seed", "7", "--steps", "20", "--name", "fetch things, seed 7")
    demo = run_cli(home, "demo", "--seed", "1", "--steps", "30", "--name", "fetch things, seed 1")
    browsing = run_cli(home, "demo", "--rollouts")["rollouts"]
    return pages(demo, other, browsing, held.enter_context(busy_queue(home)))


def of_training(home: Path, held: ExitStack) -> dict[str, tuple[str, str]]:
    # The managers, which are used here, read their settings from the environment.
    settings = environment_of(home)
    os.environ.clear()
    os.environ.update(settings)
    made = training_pictures.trained(partial(run_cli, home), partial(start_cli, home))
    return training_pictures.pages(held.enter_context(made))


def of_team(home: Path, held: ExitStack) -> dict[str, tuple[str, str]]:
    del held
    for name, role in (("Ada Lovelace", "admin"), ("Grace Hopper", "editor"), ("Alan Turing", "viewer")):
        email = f"{name.split()[0].lower()}@example.org"
        run_cli(home, "members", "add", email, "--role", role, "--display-name", name)
    run_cli(home, "members", "invite", "barbara@example.org", "--role", "editor")
    for machine, member, lasts in (("gpu-1", "grace", "90d"), ("gpu-2", "grace", "30d"), ("reports", "ada", "never")):
        run_cli(home, "keys", "create", machine, "--member", f"{member}@example.org", "--expires", lasts)
    run_cli(home, "members", "set-role", "alan@example.org", "editor")
    return {"members": ("/members", "text=gpu-1"), "audit-log": ("/members/log", "text=member.role_changed")}


def take_all(browser: Browser, link: str, chosen: dict[str, tuple[str, str]]) -> None:
    signed_in = sign_in(browser, link)
    for scheme, names in {"light": [*chosen], "dark": [name for name in chosen if name in IN_THE_DARK]}.items():
        context = browser.new_context(
            base_url=link.split("#")[0],
            viewport={"width": 1280, "height": 800},
            color_scheme=scheme,
            reduced_motion="reduce",
            storage_state=signed_in,
        )
        page = context.new_page()
        for name in track(names, description=f"Pictures, {scheme}"):
            take(page, name if scheme == "light" else f"{name}-dark", *chosen[name])
        context.close()


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium; on Debian: apt-get install chromium")
    wanted = sys.argv[1:] or GROUPS
    if not set(wanted) <= set(GROUPS):
        sys.exit(f"usage: take_screenshots.py [{'|'.join(GROUPS)}]")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for group in wanted:
        # Each on a stack of its own: a list shows what its picture is about.
        with stack() as home, sync_playwright() as play, ExitStack() as held:
            chosen = {"rollouts": of_rollouts, "training": of_training, "team": of_team}[group](home, held)
            browser = play.chromium.launch(executable_path=program, args=FLAGS)
            take_all(browser, run_cli(home, "dashboard")["dashboard_url"], chosen)
            browser.close()
    print(f"The pictures are in {PICTURES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
