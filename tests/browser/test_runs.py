"""The list of runs: found, filtered, sorted, chosen from, live; and runs side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from .conftest import recorded

ODD_NAME = r"""odd, (really) "so" 50%_x\y*z <img src=x onerror="document.title='taken over'">"""
WIDER_THAN_THE_SCREEN = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
DEFAULTS = {"status": "pending", "tags": [], "config": {}, "visibility": "private"}

MakeRuns = Callable[..., list[str]]
ChangeRun = Callable[..., None]


@pytest.fixture
def api(stack: Any) -> httpx.Client:
    return httpx.Client(base_url=f"{stack.url}/rest/v1/", headers={"apikey": stack.secret_key})


@pytest.fixture
def make_runs(api: httpx.Client) -> MakeRuns:
    """Return a function that makes runs of given columns, newest first, and returns their ids."""

    def make(*rows: dict[str, Any]) -> list[str]:
        now = datetime.now(UTC)
        dated = [{"created_at": (now - timedelta(seconds=age)).isoformat(), **row} for age, row in enumerate(rows)]
        # The API gives every row of a batch the same columns.
        columns = {name: DEFAULTS.get(name) for row in dated for name in row}
        made = api.post(
            "training_runs", json=[columns | row for row in dated], headers={"prefer": "return=representation"}
        )
        assert made.is_success, made.text
        by_name = {row["name"]: row["id"] for row in made.json()}
        return [by_name[row["name"]] for row in rows]

    return make


@pytest.fixture
def change_run(api: httpx.Client) -> ChangeRun:
    def change(run_id: str, **columns: Any) -> None:
        changed = api.patch("training_runs", params={"id": f"eq.{run_id}"}, json=columns)
        assert changed.is_success, changed.text

    return change


def names(page: Page) -> Locator:
    return page.get_by_role("region", name="Runs").locator("tbody").get_by_role("link")


def ago(**time: float) -> str:
    return (datetime.now(UTC) - timedelta(**time)).isoformat()


def test_a_search_takes_every_character_as_it_is(page: Page, make_runs: MakeRuns) -> None:
    make_runs(
        {"name": ODD_NAME, "tags": ['a,b "c" {d}']},
        {"name": "odd (really) so 50 xyz", "description": "a-lure-by-description"},
        {"name": "odd 50%ax", "tags": ["odd-tag"]},
    )
    page.goto("/runs")
    search = page.get_by_role("searchbox", name="Search")
    for text, found in (
        ("ODD, (", ODD_NAME),
        ("lure-by-desc", "odd (really) so 50 xyz"),
        ('"so" 50%_x', ODD_NAME),
        ("odd-t", "odd 50%ax"),
        (r"x\y*z <img src", ODD_NAME),
        ("50%a", "odd 50%ax"),
        ('a,b "c" {d}', ODD_NAME),
    ):
        search.fill(text)
        expect(names(page)).to_have_text([found])
    assert page.title() == "Runs · OpenManus-RL"


def test_filters_add_up_live_in_the_url_and_can_be_cleared(page: Page, make_runs: MakeRuns) -> None:
    make_runs(
        {"name": "sieve 1", "algorithm": "sieve-ppo", "environment": "sieve-a", "status": "completed"},
        {"name": "sieve 2", "algorithm": "sieve-ppo", "environment": "sieve-b", "status": "failed"},
        {"name": "sieve 3", "algorithm": "sieve-rloo", "environment": "sieve-a", "status": "failed"},
        {"name": "sieve 4", "algorithm": "sieve-ppo", "status": "failed", "created_at": "2024-05-06T12:00:00Z"},
    )
    page.goto("/runs?search=sieve")
    expect(page.get_by_text("4 runs")).to_be_visible()
    page.get_by_role("combobox", name="Algorithm").click()
    page.get_by_role("option", name="sieve-ppo").click()
    expect(page.get_by_text("3 runs")).to_be_visible()
    page.get_by_role("combobox", name="Status").click()
    page.get_by_role("option", name="failed").click()
    page.keyboard.press("Escape")
    expect(names(page)).to_have_text(["sieve 2", "sieve 4"])
    page.get_by_label("Created to").fill("2024-05-06")
    expect(names(page)).to_have_text(["sieve 4"])
    page.reload()
    expect(names(page)).to_have_text(["sieve 4"])
    page.get_by_label("Created to").fill("2024-05-05")
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(page).to_have_url(re.compile(r"/runs$"))
    expect(page.get_by_role("searchbox", name="Search")).to_have_value("")


def test_a_selection_survives_pages_and_filters_and_is_compared(page: Page, make_runs: MakeRuns) -> None:
    make_runs(*({"name": f"paged {number:02}"} for number in range(60)))
    page.goto("/runs?search=paged")
    expect(page.get_by_text("1 to 50 of 60 runs")).to_be_visible()
    expect(page.get_by_role("button", name="Compare (0)")).to_be_disabled()
    page.get_by_role("checkbox", name="Select paged 00").check()
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_text("51 to 60 of 60 runs")).to_be_visible()
    page.get_by_role("checkbox", name="Select paged 59").check()
    page.reload()
    expect(page.get_by_role("checkbox", name="Select paged 59")).to_be_checked()
    page.get_by_role("searchbox", name="Search").fill("paged 1")
    expect(page.get_by_text("10 runs")).to_be_visible()
    page.get_by_role("link", name="Compare (2)").click()
    figures = page.get_by_role("region", name="Key figures")
    expect(figures.get_by_role("link")).to_have_text(["paged 00", "paged 59"])


def test_the_first_page_stands_in_for_one_beyond_the_end(page: Page, make_runs: MakeRuns) -> None:
    make_runs({"name": "only page"})
    page.goto("/runs?search=only page&page=7")
    expect(names(page)).to_have_text(["only page"])


def test_what_is_unknown_comes_last_in_either_order(page: Page, make_runs: MakeRuns) -> None:
    make_runs({"name": "order ?"}, {"name": "order 2", "progress": 0.2}, {"name": "order 9", "progress": 0.9})
    page.goto("/runs?search=order")
    expect(names(page)).to_have_text(["order ?", "order 2", "order 9"])
    header = page.get_by_role("columnheader", name="Progress")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(names(page)).to_have_text(["order 9", "order 2", "order ?"])
    header.get_by_role("button").press("Enter")
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(names(page)).to_have_text(["order 2", "order 9", "order ?"])


def test_columns_are_chosen_with_the_keyboard_and_kept_in_the_url(page: Page, make_runs: MakeRuns) -> None:
    make_runs({"name": "columns", "tags": ["tag-of-columns"]})
    page.goto("/runs?search=columns")
    expect(names(page)).to_have_count(1)
    expect(page.get_by_text("tag-of-columns")).to_have_count(0)
    page.get_by_role("button", name="Columns").press("Enter")
    item = page.get_by_role("menuitemcheckbox", name="Tags")
    expect(item).to_have_attribute("aria-checked", "false")
    item.press("Enter")
    expect(item).to_have_attribute("aria-checked", "true")
    page.reload()
    expect(page.get_by_text("tag-of-columns")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Tags")).to_be_visible()


def test_progress_time_left_and_a_stopped_heartbeat_are_shown_live(
    page: Page, make_runs: MakeRuns, change_run: ChangeRun
) -> None:
    halfway = {"status": "running", "started_at": ago(minutes=30), "heartbeat_at": ago(), "total_steps": 100}
    going, _ = make_runs(
        {"name": "heart going", **halfway, "current_step": 50},
        {"name": "heart stopped", **halfway, "heartbeat_at": ago(minutes=20)},
    )
    page.goto("/runs?search=heart")
    row = page.get_by_role("row", name="heart going")
    expect(row).to_contain_text(re.compile(r"50% · (29|30) min left"))
    expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")
    stopped = page.get_by_role("row", name="heart stopped")
    expect(stopped).to_contain_text("stalled")
    expect(stopped).not_to_contain_text("left")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    change_run(going, current_step=75, heartbeat_at=ago())
    expect(row).to_contain_text(re.compile(r"75% · (9|10) min left"))
    page.goto("/runs?search=heart&status=stalled")
    expect(names(page)).to_have_text(["heart stopped"])


@pytest.mark.parametrize(
    ("who", "said"),
    [("page", "openmanus-rl demo"), ("visitor", "openmanus-rl dashboard")],
    ids=["member", "visitor"],
)
def test_where_there_is_no_run_it_says_what_to_do(request: pytest.FixtureRequest, who: str, said: str) -> None:
    page: Page = request.getfixturevalue(who)
    nothing = {"body": "[]", "content_type": "application/json", "headers": {"content-range": "*/0"}}
    page.route("**/rest/v1/run_list*", lambda route: route.fulfill(**nothing))
    page.goto("/runs")
    expect(page.get_by_role("main").get_by_text(said)).to_be_visible()
    expect(page.get_by_role("searchbox", name="Search")).to_have_count(0)


def test_runs_are_compared_by_figures_metrics_and_configuration(page: Page, recorder: Callable[..., Any]) -> None:
    ids = []
    for number, rate in enumerate((0.1, 0.2)):
        config = {"optimizer": {"lr": rate, "name": "adam"}, "x.y": 1} | ({"extra": True} if number else {})
        with recorded(recorder(name=f"compared {number}", config=config)) as run:
            run.log({"train/loss": 1.0 - rate, f"only/{number}": 1.0}, step=1)
            ids.append(run.id)
    page.goto(f"/runs/compare?run={ids[0]}")
    page.get_by_role("combobox", name="Add a run").fill("compared 1")
    page.get_by_role("option", name="compared 1").click()
    figures = page.get_by_role("region", name="Key figures")
    expect(figures.get_by_role("link")).to_have_text(["compared 0", "compared 1"])
    for metric in ("train/loss", "only/0", "only/1"):
        expect(page.get_by_text(metric, exact=True).first).to_be_visible()

    page.get_by_role("tab", name="Configuration").click()
    config_table = page.get_by_role("region", name="Configuration by key")
    keys = config_table.get_by_role("rowheader")
    expect(keys).to_have_text(["extra", "optimizer.lr"])
    expect(config_table.get_by_role("img", name="differs")).to_have_count(2)
    page.get_by_role("switch", name="Show keys that are the same").press("Space")
    expect(keys).to_have_text(['"x.y"', "extra", "optimizer.lr", "optimizer.name"])
    page.reload()
    expect(keys).to_have_count(4)
    page.get_by_role("button", name="Remove compared 1").click()
    expect(figures.get_by_role("link")).to_have_text(["compared 0"])


def test_a_compared_run_is_switched_off_and_another_is_not_there(page: Page, make_runs: MakeRuns) -> None:
    (known,) = make_runs({"name": "compared alone"})
    page.goto(f"/runs/compare?run={known}&run=00000000-0000-7000-8000-000000000000&run=nonsense")
    expect(page.get_by_text("There is no such run, or you may not see it.")).to_have_count(2)
    switch = page.get_by_role("switch", name="Show compared alone in the charts")
    expect(switch).to_be_checked()
    switch.press("Space")
    expect(page.get_by_text("No run is shown")).to_be_visible()
    expect(page).to_have_url(re.compile(f"hidden={known}"))


@pytest.mark.parametrize("looks", [{}, {"dark": True, "phone": True}], ids=["light", "dark-phone"])
def test_the_pages_are_accessible_and_fit(
    looks: dict[str, bool],
    open_context: Callable[..., BrowserContext],
    axe: Callable[[Page], None],
    make_runs: MakeRuns,
) -> None:
    word = "axe-" + "-".join(looks)
    running = {"status": "running", "started_at": ago(minutes=9), "heartbeat_at": ago(), "progress": 0.3}
    ids = make_runs(
        {"name": f"{word} {ODD_NAME}", "tags": ["a"], "visibility": "public", "config": {"a": 1}, **running},
        {"name": word + "long" * 60, "description": "words " * 90, "status": "failed", "config": {"a": "b" * 600}},
    )
    page = open_context(**looks).new_page()
    page.goto(f"/runs?search={word}&columns=status&columns=progress&columns=tags&selected={ids[0]}&selected={ids[1]}")
    expect(names(page)).to_have_count(2)
    axe(page)
    assert not page.evaluate(WIDER_THAN_THE_SCREEN)
    page.goto("/runs/compare?tab=config&" + "&".join(f"run={quote(run_id)}" for run_id in ids))
    expect(page.get_by_role("region", name="Configuration by key")).to_be_visible()
    axe(page)
    assert not page.evaluate(WIDER_THAN_THE_SCREEN)
