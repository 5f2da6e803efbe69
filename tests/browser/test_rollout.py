"""The page of a rollout: its turns, its judgement, the way through it, and another one next to it."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

import openmanus_rl
from openmanus_rl.utils.supabase_db import ValidationManager

from .conftest import recorded

LONG_TURNS = 700
HOSTILE = "<img src=x onerror='window.takenOver=1'> \u202eesrever\u202c zero\u200bwidth \x07bell"


def picture() -> bytes:
    """A small picture, as a screenshot would be."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x20\x80\xd0" * 64 for _ in range(36))
    head = struct.pack(">IIBBBBB", 64, 36, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def record_shopping(group: Any, *, price: str, status: str) -> str:
    """A short rollout; its third turn tells it from others of the group."""
    tokens = [{"token": text} for text in ("put ", "it ", "in")]
    with group.rollout(task_description="buy the red ball", model="small-model", seed=4) as rollout:
        rollout.log_turn(observation="a shop", thought="look around", action="open the door")
        rollout.log_turn(observation="a shelf", action="look at it", reward={"progress": 0.5, "format": 1.0})
        rollout.log_turn(
            observation=f"a red ball for {price}",
            thought="that is cheap",
            action="buy it",
            messages=[{"role": "system", "content": "You are a careful shopper."}],
            tool_calls=[
                {
                    "tool_name": "basket.add",
                    "tool_input": {"item": "ball"},
                    "tool_output": "out of stock",
                    "success": False,
                    "execution_time_ms": 12.0,
                }
            ],
            images=[picture()],
            model_response={"choices": [{"logprobs": {"content": tokens}}]},
            generations=[
                {"completion_ids": [7, 8, 9], "logprobs": [-0.01, -1.0, -6.0], "mask": [1, 1, 0], "advantages": [0.25]}
            ],
        )
        rollout.complete(status=status)
    return str(rollout.id)


def record_walk(run: Any) -> str:
    with run.rollout(task_description="a long walk") as rollout:
        for number in range(LONG_TURNS):
            failed = number in (40, 600)
            calls = [{"tool_name": "step", "tool_output": "gone", "success": not failed}] if number % 20 == 0 else None
            reward = 1.0 if number == 650 else None
            text = f"place {number} " + "along the road " * (number % 40)
            rollout.log_turn(observation=text, action=f"walk {number}", tool_calls=calls, reward=reward)
    return str(rollout.id)


def record_hostile(run: Any) -> str:
    long = [{"tool_name": "cat", "tool_output": "line\n" * 200_000 + "the needle", "success": True}]
    with run.rollout(task_description=HOSTILE) as rollout:
        rollout.log_turn(observation=HOSTILE, thought=HOSTILE, action="x" * 100_000, reward={HOSTILE: 1.0})
        rollout.log_turn(action=HOSTILE, tool_calls=[{"tool_name": HOSTILE, "tool_input": {HOSTILE: HOSTILE}}])
        rollout.log_turn(action="dump", tool_calls=long)
    return str(rollout.id)


@pytest.fixture(scope="module")
def known(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Rollouts that no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in stack.env.items():
            patch.setenv(name, value)
        patch.setenv("OPENMANUS_RL_HOME", str(tmp_path_factory.mktemp("home")))
        with recorded(openmanus_rl.init(name="shopping", environment="shop")) as run:
            with run.step(3) as step, step.group(task="buy the red ball") as group:
                one = record_shopping(group, price="four", status="failed")
                other = record_shopping(group, price="five", status="success")
            made = SimpleNamespace(one=one, other=other, walk=record_walk(run), hostile=record_hostile(run))
        ValidationManager.log_validation(one, "fail", validator_name="exact", expected="4 balls", actual="no ball")
    return made


def turn(page: Page, number: int) -> Locator:
    return page.get_by_role("article", name=f"Turn {number}", exact=True)


def test_a_turn_tells_what_the_agent_saw_thought_did_called_and_got(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.one}")
    expect(page.get_by_role("heading", name="buy the red ball", level=1)).to_be_visible()
    for fact in ("failed", "small-model", "Seed 4"):
        expect(page.get_by_role("main")).to_contain_text(fact)
    expect(page.get_by_role("link", name="Step 3")).to_be_visible()
    expect(page.get_by_role("row", name="progress")).to_contain_text("0.5")
    validation = page.get_by_role("region", name="Validation")
    for said in ("exact", "fail", "4 balls", "no ball"):
        expect(validation).to_contain_text(said)
    expect(turn(page, 1)).to_contain_text("format 1")
    third = turn(page, 2)
    for said in (
        "a red ball for four",
        "that is cheap",
        "buy it",
        "basket.add",
        '{"item":"ball"}',
        "out of stock",
        "12 ms",
    ):
        expect(third).to_contain_text(said)
    image = third.get_by_role("img", name="image of turn 2")
    image.scroll_into_view_if_needed()
    expect(image).to_have_js_property("naturalWidth", 64)
    third.get_by_role("button", name="Enlarge image of turn 2").click()
    expect(page.get_by_role("dialog", name="image of turn 2")).to_be_visible()


def test_chat_tokens_and_raw_json_are_there_on_request(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.one}?turn=2")
    third = turn(page, 2)
    third.get_by_role("button", name="Show chat").click()
    expect(third).to_contain_text("You are a careful shopper.")
    third.get_by_role("button", name="Show tokens").click()
    expect(third.get_by_title(re.compile("logprob -6, probability 0.2%.*masked out"))).to_have_text("in")
    tokens = third.get_by_role("group", name="3 tokens")
    tokens.focus()
    tokens.press("ArrowRight")
    expect(third).to_contain_text("id 7 · logprob -0.01, probability 99.0% · advantage 0.25 · trained on")
    third.get_by_role("button", name="Raw JSON of turn 2").click()
    expect(page.get_by_role("dialog")).to_contain_text('"completion_ids": [')


def test_the_address_names_a_turn_and_keys_go_from_one_to_another(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.walk}?turn=432")
    expect(turn(page, 432)).to_be_in_viewport()
    expect(turn(page, 432)).to_contain_text("place 432")
    for key, number in (("j", 433), ("k", 432), ("e", 600), ("r", 650), ("G", 699), ("g", 0), ("e", 40)):
        # No faster than a person's fingers: the page must know where it is before the next key.
        page.wait_for_timeout(150)
        page.keyboard.press(key)
        expect(turn(page, number)).to_be_focused()
        expect(turn(page, number)).to_be_in_viewport()
        expect(page).to_have_url(re.compile(f"turn={number}$"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("next, previous turn")
    # Only what is looked at is in the page.
    assert page.get_by_role("article").count() < 40


def test_the_map_leads_to_any_place(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.walk}")
    expect(turn(page, 0)).to_contain_text("place 0")
    strip = page.get_by_role("slider", name="Map of the turns")
    box = strip.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(turn(page, 350)).to_be_in_viewport()
    strip.press("End")
    expect(turn(page, 699)).to_contain_text("place 699")
    expect(strip).to_have_attribute("aria-valuemax", "699")


def test_a_search_counts_marks_and_goes_from_match_to_match(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.walk}")
    expect(turn(page, 0)).to_contain_text("place 0")
    page.keyboard.press("/")
    box = page.get_by_role("searchbox", name="Search in this rollout")
    expect(box).to_be_focused()
    page.keyboard.type("PLACE 65")
    expect(page.get_by_text("11 matches")).to_be_visible()
    box.press("Enter")
    box.press("Enter")
    expect(page.get_by_text("2 of 11")).to_be_visible()
    expect(turn(page, 650).locator("mark")).to_have_text("place 65")
    expect(turn(page, 650)).to_be_in_viewport()
    box.press("Shift+Enter")
    expect(turn(page, 65).locator("mark")).to_be_in_viewport()
    expect(page).to_have_url(re.compile("find=PLACE"))
    box.fill("100% nowhere_")
    expect(page.get_by_text("No match")).to_be_visible()


def test_a_match_deep_in_a_long_output_is_shown_in_its_own_words(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.hostile}?find=the+needle")
    expect(page.get_by_text("1 match")).to_be_visible()
    page.keyboard.press("n")
    expect(page.get_by_text("Turn 2, tool output, character 1,000,000:")).to_be_visible()
    expect(page.locator("mark").get_by_text("the needle")).to_be_visible()


def test_hostile_text_is_text(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.hostile}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=")
    expect(turn(page, 0)).to_contain_text("⟨U+202E⟩esrever⟨U+202C⟩ zero⟨U+200B⟩width ⟨U+0007⟩bell")
    expect(turn(page, 0).get_by_role("button", name="Show more of action (100,000 characters)")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(turn(page, 1)).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0
    assert page.evaluate("window.takenOver") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_parts_can_be_left_out_and_the_address_says_which(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.one}?hide=tools")
    third = turn(page, 2)
    expect(third).to_contain_text("that is cheap")
    expect(third).not_to_contain_text("basket.add")
    shown = page.get_by_role("group", name="What is shown of each turn")
    shown.get_by_text("Thought").click()
    expect(third).not_to_contain_text("that is cheap")
    expect(page).to_have_url(re.compile("hide=tools&hide=thought"))
    shown.get_by_text("Tools").click()
    expect(third).to_contain_text("basket.add")


def test_a_person_judges_and_withdraws_with_a_reason(page: Page, recorder: Callable[..., Any]) -> None:
    with (
        recorded(recorder(name="judged", environment="shop")) as run,
        run.rollout(task_description="judge me") as rollout,
    ):
        rollout.log_turn(action="done")
        rollout.complete(status="failed")
    page.goto(f"/rollouts/{rollout.id}")
    page.get_by_role("button", name="Judge by hand").click()
    dialog = page.get_by_role("dialog", name="Judge by hand")
    expect(dialog.get_by_role("button", name="Judge")).to_be_disabled()
    dialog.get_by_role("radio", name="Pass").check()
    dialog.get_by_role("textbox", name="Reason").fill("the ball is in the basket")
    dialog.get_by_role("button", name="Judge").click()
    expect(page.get_by_text("overridden by hand")).to_be_visible()
    validation = page.get_by_role("region", name="Validation")
    expect(validation).to_contain_text("failed → success")
    expect(validation).to_contain_text("the ball is in the basket")
    page.get_by_role("button", name="Judge by hand").click()
    dialog.get_by_role("radio", name="Withdraw").check()
    dialog.get_by_role("textbox", name="Reason").fill("I was wrong")
    dialog.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_text("overridden by hand")).to_have_count(0)
    expect(validation).to_contain_text("success → failed")


def test_the_end_of_a_running_rollout_is_followed(page: Page, recorder: Callable[..., Any]) -> None:
    with recorded(recorder(name="growing")) as run, run.rollout(task_description="grow") as rollout:
        for number in range(6):
            rollout.log_turn(observation=f"ring {number} " + "of a tree " * 100)
        assert run.flush(timeout_seconds=30)
        page.goto(f"/rollouts/{rollout.id}")
        follow = page.get_by_role("switch", name="Follow")
        follow.check(force=True)
        expect(turn(page, 5)).to_be_in_viewport()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        rollout.log_turn(observation="ring 6 " + "of a tree " * 100)
        expect(turn(page, 6)).to_contain_text("ring 6")
        expect(turn(page, 6)).to_be_in_viewport()
        page.mouse.move(700, 600)
        page.mouse.wheel(0, -900)
        expect(follow).not_to_be_checked()
    expect(follow).to_have_count(0)


def test_the_whole_rollout_is_downloaded_with_all_it_holds(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.one}?tab=raw")
    expect(page.get_by_role("region", name="The rollout as it is stored")).to_contain_text(f'"id": "{known.one}"')
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the whole rollout").click()
    held = json.loads(download.value.path().read_text())
    assert [one["step_number"] for one in held["turns"]] == [0, 1, 2]
    assert held["turns"][2]["tool_calls"][0]["tool_output"] == "out of stock"
    assert held["turns"][2]["generations"][0]["completion_ids"] == [7, 8, 9]
    assert len(held["rewards"]) == 2
    assert held["validations"][0]["expected"] == "4 balls"


def test_two_rollouts_of_a_group_show_where_they_part(page: Page, known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.one}")
    page.get_by_role("button", name="Compare with…").click()
    page.get_by_role("dialog").get_by_role("row", name="success").get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"/rollouts/{known.one}/against/{known.other}$"))
    expect(page.get_by_role("region", name="First rollout")).to_contain_text("failed")
    expect(page.get_by_role("region", name="Second rollout")).to_contain_text("success")
    expect(page.get_by_text("Turns 0–1 are the same")).to_be_visible()
    expect(page.get_by_text("1 turn differs")).to_be_visible()
    third = turn(page, 2)
    expect(third.locator("del")).to_have_text("four")
    expect(third.locator("ins")).to_have_text("five")
    expect(third).to_contain_text("Action, the same")
    page.get_by_role("button", name="Show them").click()
    expect(turn(page, 0)).to_contain_text("look around")


def test_a_rollout_that_is_not_there_is_said_to_be_unknown(page: Page) -> None:
    page.goto("/rollouts/00000000-0000-4000-8000-000000000000")
    expect(page.get_by_role("alert")).to_contain_text("There is nothing by this id, or you may not see it")


def test_axe_finds_nothing_serious(page: Page, axe: Callable[[Page], None], known: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{known.one}?turn=2&find=ball")
    turn(page, 2).get_by_role("button", name="Show tokens").click()
    expect(turn(page, 2).get_by_role("group", name="3 tokens")).to_be_visible()
    axe(page)
    page.goto(f"/rollouts/{known.one}/against/{known.other}")
    expect(turn(page, 2).locator("ins")).to_be_visible()
    axe(page)


def test_it_fits_a_phone(open_context: Callable[..., BrowserContext], known: SimpleNamespace) -> None:
    page = open_context(phone=True).new_page()
    for address in (
        f"/rollouts/{known.hostile}",
        f"/rollouts/{known.one}?turn=2",
        f"/rollouts/{known.one}/against/{known.other}",
    ):
        page.goto(address)
        expect(page.get_by_role("article").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
