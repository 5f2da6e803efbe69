"""How long until each page of the dashboard can be used: with as much data as there may be, and with 1/100 of it.

python -m benchmarks.dashboard.pages

Makes two embedded stacks of its own, fills them (fill.py, at scale 1 and 0.01), opens every page in Chromium on both,
in turns, and reports the medians and their ratio. A page can be used when what one came for is on the screen:
the rows, the first chart, the turn. The browser's cache is warm, the page's own memory is empty.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import ExitStack
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from benchmarks.dashboard.fill import fill
from benchmarks.measuring import MESSAGES, Measured, Question, Results, ask
from benchmarks.report import print_table
from benchmarks.stack import Stack, running_stack

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
FULL, SMALL = "full", "1/100"
SCALES = {FULL: 1.0, SMALL: 0.01}
WAIT_MS = 60_000
REPEATS = 5

# Each page: its path, with the names of landmarks, and what must be on the screen before it can be used.
VIEWS = {
    "Runs": ("/runs", "tbody tr"),
    "Runs, searched": ("/runs?search=7", "tbody tr"),
    "Run with 1M metric points": ("/runs/{metrics_run}", ".uplot canvas"),
    "Run with 3,000 metrics": ("/runs/{many_metrics_run}", ".uplot canvas"),
    "Run with 300k rollouts: progress": ("/runs/{large_run}?tab=progress", ".uplot canvas"),
    "Step of it": ("/runs/{large_run}/steps/{step}", "tbody tr"),
    "Group of it": ("/groups/{group}", "tbody tr"),
    "Rollouts": ("/rollouts", "tbody tr"),
    "Rollouts, of one run": ("/rollouts?run={large_run}", "tbody tr"),
    "Rollouts, by a rare status": ("/rollouts?status=timeout", "tbody tr"),
    "Rollout of 5,000 turns": ("/rollouts/{long_rollout}", "article"),
    "Its turn 4,321": ("/rollouts/{long_rollout}?turn=4321", "article[aria-label='Turn 4321']"),
    "Rollout with 5 MB of output": ("/rollouts/{big_output_rollout}", "article"),
    "Tasks": ("/tasks", "tbody tr"),
    "Task with many rollouts": ("/tasks/{task}", ".uplot canvas"),
}
# The browser's own clock, which starts with the navigation, read in the frame in which the mark is there.
WHEN_SHOWN = """mark => {
  const shown = document.querySelector(mark)?.getClientRects().length > 0;
  return shown ? performance.now() : null;
}"""


class Site:
    """A dashboard in a browser that is signed in, and where to look."""

    def __init__(self, browser: Browser, stack: Stack, landmarks: dict[str, Any]) -> None:
        self.landmarks = landmarks
        link = json.loads(stack.run("dashboard", "--json"))["dashboard_url"]
        self.context: BrowserContext = browser.new_context(
            base_url=link.split("#")[0], viewport={"width": 1360, "height": 900}
        )
        tab = self.context.new_page()
        tab.goto(link)
        tab.get_by_role("heading", name="Runs", exact=True).wait_for()
        tab.close()

    def open(self, path: str, mark: str) -> Measured:
        """Open a page in a new tab and return how long it took until the mark was on the screen."""
        tab = self.context.new_page()
        try:
            tab.goto(path.format(**self.landmarks), wait_until="commit")
            shown = tab.wait_for_function(WHEN_SHOWN, arg=mark, polling="raf", timeout=WAIT_MS)
            return {"milliseconds": float(shown.json_value())}
        finally:
            tab.close()


def measure() -> Results:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium; on Debian: apt-get install chromium")
    with ExitStack() as stacks, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=FLAGS)
        sites = {}
        for name, scale in SCALES.items():
            stack = stacks.enter_context(running_stack())
            with MESSAGES.status(f"filling, {name}"):
                sites[name] = Site(browser, stack, fill(stack.settings["DATABASE_URL"], scale))

        def questions(times: int) -> list[Question]:
            return [
                Question(name, dict.fromkeys(sites, times), lambda site, _, view=view: sites[site].open(*view))
                for name, view in VIEWS.items()
            ]

        # The first time fills the caches.
        ask(questions(1))
        return ask(questions(REPEATS))


def main() -> None:
    results = measure()
    rows = []
    for name in VIEWS:
        full, small = (results.figure(name, scale, "milliseconds") for scale in SCALES)
        slowest = max(results.values(name, FULL, "milliseconds"))
        ratio = results.ratio(name, "milliseconds", SMALL, base=FULL)
        rows.append([name, f"{full:.0f}", f"{small:.0f}", f"{slowest:.0f}", f"{ratio:.2f}"])
    columns = [f"{FULL} (ms)", f"{SMALL} (ms)", f"slowest, {FULL} (ms)", f"{FULL} : {SMALL}"]
    print_table("Until a page can be used", columns, rows)


if __name__ == "__main__":
    main()
