"""How long until each page of the dashboard can be used: with as much data as there may be, and with 1/100 of it.

python -m benchmarks.dashboard.pages [--repeats 5] [--results FILE]

Makes two embedded stacks of its own, fills them (fill.py, at scale 1 and 0.01), opens every page in Chromium on both,
turn by turn, and reports the medians and their ratio. A page can be used when what one came for is on the screen:
the rows, the first chart, the turn. The browser's cache is warm, the page's own memory is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.dashboard.fill import fill

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
SCALES = {"full": 1.0, "1/100": 0.01}
WAIT_MS = 60_000


@dataclass(frozen=True)
class View:
    """A page, and what must be on the screen before it can be used."""

    # With the names of landmarks in it.
    path: str
    mark: str


VIEWS: dict[str, View] = {
    "Runs": View("/runs", "tbody tr"),
    "Runs, searched": View("/runs?search=7", "tbody tr"),
    "Run with 1M metric points": View("/runs/{metrics_run}", ".uplot canvas"),
    "Run with 3,000 metrics": View("/runs/{many_metrics_run}", ".uplot canvas"),
    "Run with 300k rollouts: progress": View("/runs/{large_run}?tab=progress", ".uplot canvas"),
    "Step of it": View("/runs/{large_run}/steps/{step}", "tbody tr"),
    "Group of it": View("/groups/{group}", "tbody tr"),
    "Rollouts": View("/rollouts", "tbody tr"),
    "Rollouts, of one run": View("/rollouts?run={large_run}", "tbody tr"),
    "Rollouts, by a rare status": View("/rollouts?status=timeout", "tbody tr"),
    "Rollout of 5,000 turns": View("/rollouts/{long_rollout}", "article"),
    "Its turn 4,321": View("/rollouts/{long_rollout}?turn=4321", "article[aria-label='Turn 4321']"),
    "Rollout with 5 MB of output": View("/rollouts/{big_output_rollout}", "article"),
    "Tasks": View("/tasks", "tbody tr"),
    "Task with many rollouts": View("/tasks/{task}", ".uplot canvas"),
}


def run_cli(home: Path, *arguments: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SUPABASE_", "DATABASE_URL"))}
    done = subprocess.run(
        [sys.executable, "-m", "openmanus_rl", *arguments],
        env=env | {"OPENMANUS_RL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"`openmanus-rl {' '.join(arguments)}` failed:\n{done.stderr}")
    return done.stdout


@contextmanager
def filled_stack(scale: float, given: Path | None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A running stack with that much in it, and where to look; a given home is used as it is and kept."""
    if given is not None:
        yield given, json.loads((given / "landmarks.json").read_text())
        return
    home = Path(tempfile.mkdtemp(prefix="openmanus-rl-pages-"))
    home.chmod(0o755)
    try:
        started = json.loads(run_cli(home, "up", "--detach", "--port", "0", "--json"))
        yield home, fill(started["DATABASE_URL"], scale=scale, small=False)
    finally:
        run_cli(home, "down")
        shutil.rmtree(home, ignore_errors=True)


def signed_in(browser: Browser, home: Path) -> BrowserContext:
    link = json.loads(run_cli(home, "dashboard", "--json"))["dashboard_url"]
    context = browser.new_context(base_url=link.split("#")[0], viewport={"width": 1360, "height": 900})
    page = context.new_page()
    page.goto(link)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    page.close()
    return context


# The browser's own clock, which starts with the navigation, read in the frame in which the mark is there.
WHEN_SHOWN = """mark => {
  const shown = document.querySelector(mark)?.getClientRects().length > 0;
  return shown ? performance.now() : null;
}"""


def milliseconds_to_usable(context: BrowserContext, view: View, landmarks: dict[str, Any]) -> float:
    page: Page = context.new_page()
    try:
        page.goto(view.path.format(**landmarks), wait_until="commit")
        shown = page.wait_for_function(WHEN_SHOWN, arg=view.mark, polling="raf", timeout=WAIT_MS)
        return float(shown.json_value())
    finally:
        page.close()


def measure(homes: dict[str, Path | None], repeats: int) -> dict[str, dict[str, list[float]]]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium; on Debian: apt-get install chromium")
    times: dict[str, dict[str, list[float]]] = {name: {scale: [] for scale in SCALES} for name in VIEWS}
    with ExitStack() as stacks, sync_playwright() as play, Progress(console=Console(stderr=True)) as progress:
        sites = {}
        filling = progress.add_task("Filling", total=len(SCALES))
        for name, scale in SCALES.items():
            sites[name] = stacks.enter_context(filled_stack(scale, homes[name]))
            progress.advance(filling)
        browser = play.chromium.launch(executable_path=program, args=FLAGS)
        contexts = {name: signed_in(browser, home) for name, (home, _) in sites.items()}
        opening = progress.add_task("Opening pages", total=(repeats + 1) * len(VIEWS) * len(SCALES))
        for turn in range(repeats + 1):
            for view_name, view in VIEWS.items():
                for scale, (_, landmarks) in sites.items():
                    taken = milliseconds_to_usable(contexts[scale], view, landmarks)
                    # The first time round fills the caches.
                    if turn > 0:
                        times[view_name][scale].append(taken)
                    progress.advance(opening)
        browser.close()
    return times


def report(times: dict[str, dict[str, list[float]]]) -> Table:
    table = Table("page", *(f"{scale} (ms)" for scale in SCALES), "slowest, full (ms)", "full : 1/100")
    for name, by_scale in times.items():
        full, small = (statistics.median(by_scale[scale]) for scale in SCALES)
        table.add_row(name, f"{full:.0f}", f"{small:.0f}", f"{max(by_scale['full']):.0f}", f"{full / small:.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="how often each page is opened (default 5)")
    parser.add_argument("--results", type=Path, help="write every time as JSON")
    parser.add_argument(
        "--full-home", type=Path, help="a running, filled stack with landmarks.json, instead of a new one"
    )
    parser.add_argument("--small-home", type=Path, help="the same, at 1/100")
    given = parser.parse_args()
    times = measure({"full": given.full_home, "1/100": given.small_home}, given.repeats)
    if given.results is not None:
        given.results.write_text(json.dumps(times, indent=1))
    Console().print(report(times))


if __name__ == "__main__":
    main()
