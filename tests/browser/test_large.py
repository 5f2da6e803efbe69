"""Far too much data: every page opens, shows what one came for, and never as much as could stop it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.dashboard.fill import fill

from .conftest import DESKTOP, embedded_env

MANY_NODES = 20_000


@pytest.fixture(scope="module")
def filled(
    homes: Path, stack: Any, cli: Callable[..., Any], one_at_a_time: Callable[[], AbstractContextManager[None]]
) -> Iterator[dict[str, Any]]:
    """A stack of its own that holds much, as nobody else's tests should; says where to look."""
    home = homes / "large"
    home.mkdir()
    env = embedded_env(stack) | {"OPENMANUS_RL_HOME": str(home), "DATABASE_URL": ""}
    with one_at_a_time():
        started = cli("up", "--detach", "--port", "0", "--json", env=env)
    try:
        assert started.returncode == 0, started.stderr
        landmarks = fill(json.loads(started.stdout)["DATABASE_URL"], 0.01)
        link = json.loads(cli("dashboard", "--json", env=env).stdout)["dashboard_url"]
        yield landmarks | {"link": link}
    finally:
        cli("down", env=env)


@pytest.fixture(scope="module")
def large(browser: Browser, filled: dict[str, Any]) -> Iterator[Page]:
    """A signed-in page on it."""
    context = browser.new_context(base_url=filled["link"].split("#")[0], viewport=DESKTOP, reduced_motion="reduce")
    page = context.new_page()
    page.goto(filled["link"])
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    yield page
    context.close()


def nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        ("/runs", "tbody tr"),
        ("/runs/{large_run}?tab=progress", ".uplot canvas"),
        ("/runs/{metrics_run}", ".uplot canvas"),
        ("/runs/{many_metrics_run}", ".uplot canvas"),
        ("/runs/{large_run}/steps/{step}", "tbody tr"),
        ("/rollouts", "tbody tr"),
        ("/rollouts?run={large_run}", "tbody tr"),
        ("/tasks", "tbody tr"),
        ("/tasks/{task}", ".uplot canvas"),
    ],
    ids=["runs", "progress", "many-points", "many-metrics", "step", "rollouts", "of-a-run", "tasks", "task"],
)
def test_a_page_shows_what_one_came_for_and_no_more_than_it_can_hold(
    large: Page, filled: dict[str, Any], path: str, mark: str
) -> None:
    large.goto(path.format(**filled))
    expect(large.locator(mark).first).to_be_visible()
    assert nodes(large) < MANY_NODES


def test_five_thousand_turns_are_scrolled_from_the_first_to_the_last(large: Page, filled: dict[str, Any]) -> None:
    large.goto(f"/rollouts/{filled['long_rollout']}")
    expect(large.get_by_role("article", name="Turn 0", exact=True)).to_be_visible()
    large.keyboard.press("Shift+G")
    expect(large.get_by_role("article", name="Turn 4999", exact=True)).to_be_visible()
    assert nodes(large) < MANY_NODES
    large.goto(f"/rollouts/{filled['long_rollout']}?turn=4321")
    expect(large.get_by_role("article", name="Turn 4321", exact=True)).to_be_in_viewport()


def test_an_output_of_five_megabytes_is_cut_and_read_on_request(large: Page, filled: dict[str, Any]) -> None:
    large.goto(f"/rollouts/{filled['big_output_rollout']}?turn=1")
    large.get_by_role("button", name=re.compile("Show more of.*5,000,000")).click()
    expect(large.get_by_text("of 5,000,000 characters shown")).to_be_visible()
    shown = large.locator("[data-agent-text]")
    assert max(len(text) for text in shown.all_inner_texts()) < 20_000
    large.get_by_role("button", name="Show more of 4.8 MB").click()
    expect(large.get_by_text(re.compile(r"10\d,\d{3} of 5,000,000"))).to_be_visible()
    assert max(len(text) for text in shown.all_inner_texts()) < 200_000


def test_hostile_texts_are_shown_and_do_nothing(large: Page, filled: dict[str, Any]) -> None:
    dialogs: list[str] = []
    asked: list[str] = []
    large.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    large.on("request", lambda request: asked.append(request.url))
    for path in ("/rollouts/{hostile_rollout}", "/runs/{hostile_run}", "/tasks/{hostile_task}"):
        large.goto(path.format(**filled))
        expect(large.get_by_text("<img src=x").first).to_be_visible()
    assert dialogs == []
    origin = filled["link"].split("#")[0]
    assert [url for url in asked if not url.startswith((origin, "data:", "blob:"))] == []
    # Characters that would reorder or hide text are shown by name.
    large.goto(f"/rollouts/{filled['hostile_rollout']}")
    expect(large.get_by_text("⟨U+202E⟩").first).to_be_visible()
