"""What holds for every page: readable in the dark and on a phone, usable by keys and by a screen reader."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from openmanus_rl.utils.supabase_db import RolloutManager

from .conftest import PHONE

PAGES = {
    "runs": ("/runs", "Runs"),
    "run": ("/runs/{run}", "everywhere"),
    "compare": ("/runs/compare?run={run}", "Compare"),
    "step": ("/runs/{run}/steps/1", "Step 1"),
    "group": ("/groups/{group}", "Group"),
    "rollouts": ("/rollouts", "Rollouts"),
    "rollout": ("/rollouts/{rollout}", ""),
    "tasks": ("/tasks", "Tasks"),
    "task": ("/tasks/{task}", ""),
    "queue": ("/queue", "Queue"),
    "new run": ("/runs/new", "New run"),
    "clone": ("/runs/new?from={run}", "Clone"),
    "environments": ("/environments", "Environments"),
    "new environment": ("/environments/new", "New environment"),
    "sweeps": ("/sweeps", "Sweeps"),
    "jobs": ("/jobs", "Jobs"),
}


@pytest.fixture(scope="module")
def demo(stack: Any, cli: Callable[..., Any]) -> dict[str, str]:
    """One recorded run that every page shows something of."""
    done = cli("demo", "--steps", "2", "--seed", "3", "--name", "everywhere", "--json", env=stack.env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return {"run": report["run_id"], "rollout": report["example_rollout_id"]}


@pytest.fixture
def places(demo: dict[str, str], stack: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the ids that the pages' paths name."""
    for name, value in stack.env.items():
        monkeypatch.setenv(name, value)
    rollout = RolloutManager.get_rollout(demo["rollout"])
    return demo | {"group": rollout["group_id"], "task": rollout["task_id"]}


def opened(context: BrowserContext, name: str, places: dict[str, str]) -> Page:
    path, heading = PAGES[name]
    page = context.new_page()
    page.goto(path.format(**places))
    expect(page.get_by_role("heading", level=1, name=re.compile(heading))).to_be_visible()
    page.get_by_role("status", name="Loading").first.wait_for(state="detached")
    return page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_the_dark_fits_a_phone_and_has_no_serious_barrier(
    open_context: Callable[..., BrowserContext], places: dict[str, str], axe: Callable[[Page], None], name: str
) -> None:
    page = opened(open_context(phone=True, dark=True), name, places)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    axe(page)


def test_the_menu_and_the_content_are_reached_by_keys(page: Page) -> None:
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_an_unknown_page_and_an_unknown_thing_say_what_to_do(page: Page) -> None:
    page.goto("/runs")
    expect(page).to_have_title("Runs · OpenManus-RL")
    page.goto("/nowhere")
    expect(page.get_by_text("There is no such page")).to_be_visible()
    expect(page).to_have_title("No such page · OpenManus-RL")
    page.get_by_role("link", name="All runs").click()
    expect(page).to_have_title("Runs · OpenManus-RL")
    unknown = "00000000-0000-7000-8000-000000000000"
    training = (f"/environments/{unknown}", f"/sweeps/{unknown}", f"/runs/new?from={unknown}")
    for path in (f"/runs/{unknown}", f"/rollouts/{unknown}", f"/groups/{unknown}", f"/tasks/{unknown}", *training):
        page.goto(path)
        expect(page.get_by_role("alert").filter(has_text="Nothing here").first).to_be_visible()
