#!/usr/bin/env python3
"""Take the README's pictures of the dashboard: a new stack, two demo runs, a real browser.

Run it with .venv/bin/python once scripts/test has installed what it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from rich.progress import track

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def run_cli(home: Path, *arguments: str) -> Any:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SUPABASE_", "DATABASE_URL"))}
    command = [sys.executable, "-m", "openmanus_rl", *arguments, "--json"]
    done = subprocess.run(
        command, env=env | {"OPENMANUS_RL_HOME": str(home)}, capture_output=True, text=True, check=False
    )
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


def pages(demo: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return for each picture the page and what must be on it before it is taken."""
    run, rollout = demo["run_id"], demo["example_rollout_id"]
    return {
        "runs": ("/runs", "table"),
        "run": (f"/runs/{run}?with={other['run_id']}", ".uplot"),
        "progress": (f"/runs/{run}?tab=progress", ".uplot"),
        "evaluations": (f"/runs/{run}?tab=evaluations", "table"),
        "rollout": (f"/rollouts/{rollout}", "article"),
        "rollouts": ("/rollouts?text=locked", "table"),
    }


def take(page: Page, name: str, path: str, mark: str) -> None:
    page.goto(path)
    page.locator(mark).first.wait_for()
    page.get_by_text("Live", exact=True).wait_for()
    page.wait_for_timeout(1_500)
    page.screenshot(path=PICTURES / f"{name}.png")


def sign_in(browser: Browser, link: str) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    state = context.storage_state()
    context.close()
    return state


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium; on Debian: apt-get install chromium")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with stack() as home, sync_playwright() as play:
        other = run_cli(home, "demo", "--seed", "7", "--steps", "20", "--name", "fetch things, seed 7")
        demo = run_cli(home, "demo", "--seed", "1", "--steps", "30", "--name", "fetch things, seed 1")
        link = run_cli(home, "dashboard")["dashboard_url"]
        browser = play.chromium.launch(executable_path=program, args=FLAGS)
        signed_in = sign_in(browser, link)
        chosen = pages(demo, other)
        for scheme, names in {"light": list(chosen), "dark": ["run", "rollout"]}.items():
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
        browser.close()
    print(f"The pictures are in {PICTURES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
