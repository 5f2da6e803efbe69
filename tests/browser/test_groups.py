"""The pages of a step and of a group: which groups taught something, and where their rollouts part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

import openmanus_rl

from .conftest import recorded


def record_group(parent: Any, task: str, rewards: list[float], **turn: Any) -> Any:
    group = parent.group(task=task)
    for reward in rewards:
        rollout = group.rollout(environment="group-house", task_description=task)
        rollout.log_turn(observation="a room", action="look")
        rollout.log_turn(observation="a door", action="push" if reward else "pull", thought="which way?", **turn)
        rollout.complete("success" if reward else "failed", total_reward=reward)
    return group


@pytest.fixture(scope="module")
def trained(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A run with a mixed and a flat group at step 2, rollouts alone at steps 1 and 5, and an evaluation at 5."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in {**stack.env, "OPENMANUS_RL_HOME": str(tmp_path_factory.mktemp("home"))}.items():
            patch.setenv(key, value)
        patch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
        opened: Any = openmanus_rl.init("grouped", environment="group-house")
        with recorded(opened):
            opened.rollout(environment="group-house", task_description="alone at one", step=1).complete(
                total_reward=0.5
            )
            with opened.step(2, phase="training") as step:
                opened.mixed = record_group(step, "open the <b>door</b>", [1.0, 0.0, 0.0, 0.0])
                opened.flat = record_group(
                    step,
                    "close the door",
                    [1.0, 1.0],
                    generations={"completion_ids": [1, 2], "advantages": [0.75, 0.25]},
                )
                step.log(loss=0.125, kl=0.01, tokens=1234, metrics={"clip_fraction": 0.07})
            opened.rollout(environment="group-house", task_description="alone at five", step=5).complete(
                total_reward=0.5
            )
            evaluation = opened.evaluation(name="held out", step=5)
            opened.evaluated = record_group(evaluation, "find the key", [0.0, 1.0])
            evaluation.finish()
        yield opened


def test_a_step_shows_its_figures_and_groups_and_flags_those_without_variance(page: Page, trained: Any) -> None:
    page.goto(f"/runs/{trained.id}/steps/2")
    expect(page.get_by_text("0.125")).to_be_visible()
    expect(page.get_by_text("clip_fraction")).to_be_visible()
    groups = page.get_by_role("region", name="Groups of this step")
    mixed, flat = groups.get_by_role("row").nth(1), groups.get_by_role("row").nth(2)
    expect(mixed).to_contain_text("open the <b>door</b>")
    expect(mixed).to_contain_text("1 of 4")
    expect(mixed.get_by_role("img", name="Rewards: ")).to_be_visible()
    expect(mixed.get_by_text("no variance")).to_have_count(0)
    expect(flat.get_by_text("no variance")).to_be_visible()

    page.get_by_text("Flat only").click()
    expect(groups.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("groups=flat"))
    groups.get_by_role("link", name="#1").click()
    expect(page.get_by_role("heading", name="Group #1")).to_be_visible()


def test_keys_lead_from_step_to_step_also_to_those_that_have_only_rollouts(page: Page, trained: Any) -> None:
    page.goto(f"/runs/{trained.id}/steps/2")
    expect(page.get_by_role("link", name="Step 1")).to_be_visible()
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile("/steps/5$"))
    expect(page.get_by_role("link", name="alone at five")).to_be_visible()
    expect(page.get_by_text("held out")).to_be_visible()
    expect(page.get_by_role("link", name="Step 2")).to_be_visible()
    page.keyboard.press("[")
    expect(page).to_have_url(re.compile("/steps/2$"))


def test_a_step_that_is_not_there_says_so_and_names_the_nearest(page: Page, trained: Any) -> None:
    page.goto(f"/runs/{trained.id}/steps/3")
    expect(page.get_by_text("Nothing is recorded of step 3")).to_be_visible()
    nearest = page.get_by_role("main")
    expect(nearest.get_by_role("link", name="step 2", exact=True)).to_be_visible()
    nearest.get_by_role("link", name="step 5", exact=True).click()
    expect(page.get_by_role("heading", name="Step 5")).to_be_visible()


def test_a_groups_rollouts_stand_side_by_side_with_where_they_part(page: Page, trained: Any) -> None:
    page.goto(f"/groups/{trained.mixed.id}?sort=reward_high")
    table = page.get_by_role("region", name="Rollouts side by side")
    expect(table.get_by_role("row", name="Reward", exact=False).first).to_contain_text(
        re.compile(r"Reward\s*1\s*0\s*0\s*0")
    )
    # (1 - 0.25) / 0.433, in the order of the rewards; nothing was recorded.
    expect(table.get_by_role("row", name="Advantage by reward")).to_contain_text(re.compile(r"1\.73\s*-0\.577"))
    expect(table.get_by_role("row", name="Advantage as recorded")).to_have_count(0)
    expect(page.get_by_role("heading", name="Where they part: turn 1")).to_be_visible()
    most = page.get_by_role("article", name="3 of 4 rollouts")
    expect(most).to_contain_text("pull")
    expect(most).to_contain_text("mean reward 0")
    page.get_by_role("article", name="1 of 4 rollouts").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/rollouts/[0-9a-f-]+\?turn=1$"))


def test_a_group_without_variance_says_why_that_matters_and_shows_recorded_advantages(page: Page, trained: Any) -> None:
    page.goto(f"/groups/{trained.flat.id}")
    expect(page.get_by_text("No learning signal: every rollout got the same reward")).to_be_visible()
    expect(page.get_by_text("So far, all saw and did the same.")).to_be_visible()
    expect(page.get_by_role("row", name="Advantage as recorded mean of its turns")).to_contain_text(
        re.compile(r"0\.5\s*0\.5")
    )
    expect(page.get_by_role("row", name="Advantage by reward")).to_have_count(0)


def test_two_of_a_group_can_be_compared(page: Page, trained: Any) -> None:
    page.goto(f"/groups/{trained.evaluated.id}")
    expect(page.get_by_text("Evaluation", exact=True)).to_be_visible()
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page).to_have_url(re.compile(r"/against/"))


def test_a_group_grows_while_one_looks(page: Page, recorder: Callable[..., Any]) -> None:
    opened = recorder("growing", environment="group-house")
    with recorded(opened), opened.step(0) as step:
        group = record_group(step, "grow", [1.0])
        assert opened.flush(timeout_seconds=30)
        page.goto(f"/groups/{group.id}")
        expect(page.get_by_role("checkbox")).to_have_count(1)
        group.rollout(environment="group-house").complete("failed", total_reward=0.0)
        expect(page.get_by_role("checkbox")).to_have_count(2)


def test_a_group_of_64_is_usable_on_a_phone(
    open_context: Callable[..., BrowserContext], recorder: Callable[..., Any], axe: Callable[[Page], None]
) -> None:
    opened = recorder("wide", environment="group-house")
    with recorded(opened), opened.step(0) as step:
        group = record_group(step, "wide", [float(number % 4 == 0) for number in range(64)])
    phone = open_context(phone=True, dark=True).new_page()
    phone.goto(f"/groups/{group.id}")
    table = phone.get_by_role("region", name="Rollouts side by side")
    expect(table.get_by_role("checkbox")).to_have_count(64)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    table.focus()
    phone.keyboard.press("End")
    table.get_by_role("checkbox").last.check()
    expect(phone.get_by_text("Select another to compare")).to_be_visible()
    axe(phone)


def test_the_pages_are_accessible(page: Page, trained: Any, axe: Callable[[Page], None]) -> None:
    page.goto(f"/runs/{trained.id}/steps/2")
    expect(page.get_by_role("region", name="Groups of this step")).to_be_visible()
    axe(page)
    page.goto(f"/groups/{trained.mixed.id}")
    expect(page.get_by_role("region", name="Rollouts side by side")).to_be_visible()
    axe(page)


@pytest.mark.parametrize(
    "path", ["/groups/nothing", "/groups/01a1e3c8-9ba6-7031-bbe4-5bf0aebcf690", "/runs/nothing/steps/1"]
)
def test_what_is_not_there_says_so(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.get_by_text(re.compile("There is no such page|Nothing here"))).to_be_visible()
