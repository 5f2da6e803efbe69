"""The page of rollouts: found across runs by what is known of them and by what happened in them, and taken along."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

import openmanus_rl

from .conftest import recorded

HOSTILE = '=HYPERLINK("x") <img src=x onerror="document.title=\'taken over\'"> lantern'


def rows_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Rollouts found").get_by_role("row").filter(has=page.get_by_role("checkbox"))


def record_turns(run: Any, task: str, *, status: str = "success", reward: float = 1.0, **turn: Any) -> str:
    rollout = run.rollout(environment=run.environment, task_description=task)
    rollout.log_turn(observation="the door is shut", action="wait")
    rollout.log_turn(observation="the door is open", action="go", **turn)
    rollout.complete(status, total_reward=reward)
    return str(rollout.id)


@pytest.fixture(scope="module")
def run(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A run of its own with three rollouts that differ in every way that the page filters by."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in {**stack.env, "OPENMANUS_RL_HOME": str(tmp_path_factory.mktemp("home"))}.items():
            patch.setenv(key, value)
        patch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
        opened: Any = openmanus_rl.init("find-me", environment="find-house")
        opened.environment = "find-house"
        with recorded(opened):
            record_turns(opened, "take the lamp", thought="a Brass Lantern, perhaps")
            record_turns(opened, "open the vault", status="failed", reward=-2.5)
            failed_call = {"tool_name": "shell", "tool_input": {"cmd": "ls"}, "tool_output": "denied", "success": False}
            record_turns(opened, HOSTILE, status="truncated", reward=0.25, tool_calls=[failed_call])
        yield opened


def test_a_text_is_found_in_the_turns_and_leads_to_its_turn(page: Page, run: Any) -> None:
    page.goto(f"/rollouts?run={run.id}")
    expect(rows_of(page)).to_have_count(3)
    page.get_by_label("Text in turns").fill("brass lantern")
    expect(page.get_by_text("End reached: 1 found.")).to_be_visible()
    hit = rows_of(page).get_by_role("link", name="Turn 1 · thought")
    expect(hit.locator("mark")).to_have_text("Brass Lantern")
    hit.click()
    expect(page).to_have_url(re.compile(r"/rollouts/[0-9a-f-]+\?find=brass\+lantern&turn=1"))


@pytest.mark.parametrize(
    ("query", "task"),
    [
        ("status=failed", "open the vault"),
        ("reward_from=0.5", "take the lamp"),
        ("tool=shell&tool_failed=true", "=HYPERLINK"),
        ("text=LANTERN&status=success&status=failed", "take the lamp"),
    ],
    ids=["status", "reward", "tool", "text-and-two-statuses"],
)
def test_an_address_holds_what_to_find(page: Page, run: Any, query: str, task: str) -> None:
    page.goto(f"/rollouts?run={run.id}&{query}")
    expect(page.get_by_text("End reached: 1 found.")).to_be_visible()
    expect(rows_of(page)).to_contain_text([task])


@pytest.mark.usefixtures("run")
def test_filters_narrow_the_list_are_written_to_the_address_and_can_be_cleared(page: Page) -> None:
    page.goto("/rollouts")
    page.get_by_role("button", name="More filters").click()
    page.get_by_label("Environment").fill("find-house")
    page.get_by_label("Reward to").fill("-1")
    page.get_by_role("combobox", name="Run").click()
    page.get_by_role("combobox", name="Run").fill("find-m")
    page.get_by_role("option", name="find-me").first.click()
    expect(page).to_have_url(re.compile(r"(?=.*env=find-house)(?=.*reward_to=-1)(?=.*run=)"))
    expect(rows_of(page)).to_contain_text(["open the vault"])
    page.get_by_label("Reward to").fill("-100")
    expect(page.get_by_text("No rollout matches")).to_be_visible()
    page.get_by_role("button", name="Clear filters").first.click()
    expect(page).to_have_url(re.compile(r"/rollouts$"))
    expect(rows_of(page).first).to_be_visible()


def test_rewards_order_the_list_within_a_run_only(page: Page, run: Any) -> None:
    page.goto(f"/rollouts?run={run.id}&sort=reward_low")
    expect(rows_of(page)).to_contain_text(["open the vault", "=HYPERLINK", "take the lamp"])
    page.goto("/rollouts?sort=reward_low")
    expect(page.get_by_role("combobox", name="Sort")).to_have_value("Newest")
    expect(rows_of(page).first).to_be_visible()


def test_what_is_listed_is_saved_as_csv_that_spreadsheets_do_not_execute(page: Page, run: Any) -> None:
    page.goto(f"/rollouts?run={run.id}&sort=oldest")
    expect(rows_of(page)).to_have_count(3)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name="All as CSV").click()
    with open(saved.value.path(), encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["task_description"] for line in lines] == ["take the lamp", "open the vault", "'" + HOSTILE]
    # A number stays one, also where it begins as a formula might.
    assert [line["total_reward"] for line in lines] == ["1", "-2.5", "0.25"]
    expect(page.get_by_text("Saved 3 rollouts.")).to_be_visible()


def test_what_is_shown_is_saved_as_json(page: Page, run: Any) -> None:
    page.goto(f"/rollouts?run={run.id}&text=lantern")
    expect(page.get_by_text("End reached: 2 found.")).to_be_visible()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name="Shown as JSON").click()
    with open(saved.value.path(), encoding="utf-8") as file:
        found = json.load(file)
    assert [(row["task_description"], row["match"]["field"]) for row in found] == [
        (HOSTILE, "task_description"),
        ("take the lamp", "thought"),
    ]


def test_two_that_are_selected_can_be_compared(page: Page, run: Any) -> None:
    page.goto(f"/rollouts?run={run.id}")
    for index in (0, 1, 2):
        rows_of(page).nth(index).get_by_role("checkbox").check()
    # The third takes the place of the first.
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    page.get_by_role("region", name="Selected rollouts").get_by_role("link", name="Compare").click()
    expect(page).to_have_url(re.compile(r"/rollouts/[0-9a-f-]+/against/[0-9a-f-]+"))


def test_new_rollouts_come_on_top_but_move_nothing_that_is_read(page: Page, recorder: Callable[..., Any]) -> None:
    opened = recorder("busy", environment="busy-house")
    opened.environment = "busy-house"
    with recorded(opened):
        for number in range(60):
            opened.rollout(environment="busy-house", task_description=f"task {number}").complete(total_reward=0.0)
        assert opened.flush(timeout_seconds=30)
        page.goto("/rollouts?env=busy-house")
        expect(page.get_by_text("50 shown.")).to_be_visible()
        unfinished = opened.rollout(environment="busy-house", task_description="the sixty-first")
        expect(rows_of(page).first).to_contain_text("the sixty-first")
        expect(rows_of(page).first).to_contain_text("running")
        unfinished.complete("success", total_reward=7.0)
        expect(rows_of(page).first).to_contain_text("success")

        rows_of(page).last.scroll_into_view_if_needed()
        expect(page.get_by_text("End reached: 61 found.")).to_be_visible()
        opened.rollout(environment="busy-house", task_description="the sixty-second").complete()
        offer = page.get_by_role("button", name="1 new: show")
        expect(offer).to_be_visible()
        expect(rows_of(page)).to_have_count(61)
        offer.click()
        expect(rows_of(page).first).to_contain_text("the sixty-second")


def test_back_finds_the_list_as_it_was_left(page: Page, recorder: Callable[..., Any]) -> None:
    opened = recorder("long-list", environment="long-house")
    with recorded(opened):
        for number in range(70):
            opened.rollout(environment="long-house", task_description=f"task {number}").complete(total_reward=0.0)
    page.goto("/rollouts?env=long-house")
    expect(page.get_by_text("50 shown.")).to_be_visible()
    rows_of(page).last.scroll_into_view_if_needed()
    expect(page.get_by_text("End reached: 70 found.")).to_be_visible()
    page.get_by_role("link", name="task 3", exact=True).click()
    expect(page).to_have_url(re.compile(r"/rollouts/[0-9a-f-]+$"))
    page.go_back()
    expect(rows_of(page)).to_have_count(70)
    expect(page.get_by_role("link", name="task 3", exact=True)).to_be_in_viewport()


def test_a_search_can_be_stopped_and_goes_on_where_it_was(page: Page) -> None:
    cursors: list[Any] = []
    is_long = True

    def answer(route: Any) -> None:
        # What a database does that has very much to look through.
        asked = route.request.post_data_json
        # The other question is whether there is something new.
        if "created_from" not in asked["filters"]:
            cursors.append(asked["after"])
        more = {"place": len(cursors)} if is_long else None
        route.fulfill(json={"rollouts": [], "next": more, "searched": 1000, "searched_to": "2026-01-02T00:00:00Z"})

    page.route("**/rpc/find_rollouts", answer)
    page.goto("/rollouts?text=nowhere")
    expect(page.get_by_text(re.compile(r"Searched \d+,000 rollouts back to"))).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text(re.compile(r"Stopped\. Searched .* 0 found"))).to_be_visible()
    stopped_at = len(cursors)
    is_long = False
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("No rollout matches")).to_be_visible()
    # The call that was under way when it was stopped is asked again; nothing is left out, nothing is begun anew.
    assert cursors[stopped_at]["place"] in (stopped_at - 1, stopped_at)


def test_agents_text_is_never_interpreted(page: Page, run: Any) -> None:
    page.goto(f"/rollouts?run={run.id}&text=onerror")
    expect(rows_of(page)).to_have_count(1)
    expect(rows_of(page)).to_contain_text("<img src=x")
    expect(rows_of(page).locator("img")).to_have_count(0)
    assert "taken over" not in page.title()


def test_the_page_is_accessible_and_fits_a_phone(
    page: Page, run: Any, axe: Callable[[Page], None], open_context: Callable[..., BrowserContext]
) -> None:
    page.goto(f"/rollouts?run={run.id}&text=lantern&source=training")
    expect(rows_of(page)).to_have_count(2)
    axe(page)
    phone = open_context(phone=True, dark=True).new_page()
    phone.goto(f"/rollouts?run={run.id}&text=lantern")
    expect(rows_of(phone)).to_have_count(2)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    axe(phone)
