"""The page of a run: its charts, how it comes along, its evaluations, and what was kept of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

import openmanus_rl
from openmanus_rl.utils.supabase_storage import StorageManager

from .conftest import recorded

STEPS = 12
HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
TABS = ["Charts", "Progress", "Rollouts", "Evaluations", "Checkpoints", "Files", "Configuration", "History", "Log"]
WIDER_THAN_THE_SCREEN = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def rich(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A run with something on every tab, and another to compare it with."""
    folder = tmp_path_factory.mktemp("rich")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**stack.env, "OPENMANUS_RL_HOME": str(folder / "home")}.items():
            patch.setenv(name, value)
        patch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
        config = {"learning_rate": 1e-5, "model": {"name": HOSTILE, "layers": 4}, "seed": 1}
        with recorded(openmanus_rl.init(name="rich run", algorithm="grpo", environment="house", config=config)) as run:
            _train(run)
            baseline = _evaluate(run, step=0, solved="old", kind="baseline", name="before")
            _evaluate(run, step=STEPS, solved="new", name="after")
            _keep_files(run, folder)
        config = {"learning_rate": 2e-5, "model": {"name": HOSTILE}, "batch": 8}
        with recorded(openmanus_rl.init(name="other rich run", environment="house", config=config)) as other:
            other.log({"train/loss": 0.5}, step=0)
            other.log({"train/loss": 0.4, "only/there": 1.0}, step=STEPS)
        yield SimpleNamespace(id=run.id, other_id=other.id, baseline_id=baseline)


def _train(run: Any) -> None:
    for number in range(STEPS):
        loss = float("nan") if number == 3 else 1 / (number + 1)
        run.log({"train/loss": loss, "train/kl": 0.1 * number, "eval/score": 1.0, HOSTILE: 1.0}, step=number)
        with run.step(number) as step, step.group(task="fetch") as group:
            for place in range(2):
                with group.rollout(task_description="fetch it", policy_version=number) as rollout:
                    call = {"tool_name": "search", "tool_input": {}, "tool_output": "none", "success": place == 0}
                    rollout.log_turn(observation="a room", action="go", reward=1.0, tool_calls=[call])
                    rollout.complete(status="success" if place else "truncated")


def _evaluate(run: Any, *, step: int, solved: str, **fields: Any) -> str:
    with run.evaluation(step=step, **fields) as evaluation:
        for task in ("old task", "new task"):
            with evaluation.group(task=task) as group, group.rollout(task_description=task) as rollout:
                rollout.log_turn(observation="a room", action="go")
                rollout.complete(status="success" if task.startswith(solved) else "failed")
    return str(evaluation.id)


def _keep_files(run: Any, folder: Path) -> None:
    weights = folder / "weights.bin"
    weights.write_bytes(b"weights")
    run.log_checkpoint(1, step=STEPS, file=weights, metrics={"accuracy": 0.75})
    log = folder / "train.log"
    log.write_text("".join(f"line {number}\n" for number in range(20_000)) + f"the end {HOSTILE}\n")
    StorageManager.upload_log(run.id, "train", log)


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("img", name=f"{name}. ")


def drag(page: Page, plot: Locator, start: float, end: float) -> None:
    """Drag from one place of a chart's width to another."""
    plot.scroll_into_view_if_needed()
    box = plot.locator(".u-over").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * start, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, box["y"] + 60, steps=4)
    page.mouse.up()


def test_all_metrics_are_charted_by_prefix_and_found_by_name(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}")
    expect(page.get_by_text("4 metrics")).to_be_visible()
    expect(chart(page, "train/loss")).to_have_attribute("aria-label", re.compile(f"{STEPS} points"))
    expect(page.get_by_role("article", name="train/loss")).to_contain_text("1 NaN")
    expect(page.get_by_role("heading", name=HOSTILE).first).to_be_visible()

    page.get_by_label("Filter metrics by name").fill("/^train|score$/")
    expect(page.get_by_text("3 of 4 metrics")).to_be_visible()
    page.get_by_role("button", name="train 2").click()
    expect(chart(page, "train/loss")).to_have_count(0)
    page.reload()
    expect(chart(page, "eval/score")).to_be_visible()
    expect(chart(page, "train/loss")).to_have_count(0)
    assert page.title() != "taken over"


def test_a_zoom_holds_for_all_charts_and_for_the_address(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}")
    expect(chart(page, "train/kl")).to_be_visible()
    with page.expect_request(lambda request: '"from_step":2' in (request.post_data or "")):
        drag(page, chart(page, "train/loss"), 0.4, 0.7)
    expect(page).to_have_url(re.compile(r"from=4\.\d+&to=7\.\d+"))
    expect(chart(page, "train/kl")).to_have_attribute("aria-label", re.compile(r"kl. .*: (?!12)\d+ points"))
    page.reload()
    page.get_by_role("button", name="Reset zoom").click()
    expect(chart(page, "train/kl")).to_have_attribute("aria-label", re.compile("12 points"))
    assert "from=" not in page.url


@pytest.mark.parametrize("by", ["mouse", "keys"])
def test_a_point_of_a_chart_opens_its_step(page: Page, rich: SimpleNamespace, by: str) -> None:
    page.goto(f"/runs/{rich.id}?metric=train/kl")
    plot = chart(page, "train/kl")
    expect(plot).to_be_visible()
    if by == "mouse":
        plot.locator(".u-over").click(position={"x": 1, "y": 60})
    else:
        open_by_keys(page, plot, "ArrowRight")
    expect(page).to_have_url(re.compile(f"/runs/{rich.id}/steps/0$"))


def open_by_keys(page: Page, plot: Locator, arrow: str) -> None:
    """Go to a point of a chart and open it; a chart is drawn only once it is in sight."""
    plot.scroll_into_view_if_needed()
    expect(plot.locator(".u-over")).to_be_visible()
    plot.focus()
    page.keyboard.press(arrow)
    # No faster than fingers do.
    page.wait_for_timeout(150)
    page.keyboard.press("Enter")


def test_points_appear_while_one_looks_and_the_zoom_stays(page: Page, recorder: Callable[..., Any]) -> None:
    with recorded(recorder(name="still going")) as run:
        for number in range(3):
            run.log({"train/loss": 1.0}, step=number)
        run.flush(timeout_seconds=30)
        page.goto(f"/runs/{run.id}?from=0&to=5")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        expect(chart(page, "train/loss")).to_have_attribute("aria-label", re.compile("3 points, last 1"))
        run.log({"train/loss": 0.25, "train/new": 1.0}, step=3)
        expect(chart(page, "train/loss")).to_have_attribute("aria-label", re.compile("4 points, last 0.25"))
        expect(chart(page, "train/new")).to_be_visible()
        assert "from=0&to=5" in page.url


def test_another_run_is_laid_over_and_taken_away(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}?metric={quote('/loss|there/')}")
    page.get_by_role("combobox", name="Compare with…").fill("other rich")
    page.get_by_role("option", name="other rich run").click()
    expect(chart(page, "train/loss")).to_have_attribute("aria-label", re.compile("other rich run: 2 points, last 0.4"))
    expect(page).to_have_url(re.compile(f"with={rich.other_id}"))
    expect(chart(page, "only/there")).to_be_visible()
    page.get_by_role("button", name="Do not compare with other rich run").click()
    expect(chart(page, "only/there")).to_have_count(0)


def test_what_is_charted_can_be_saved(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download train/loss as CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "run,metric,step,value,time"
    assert len(lines) == STEPS + 1
    assert lines[4].startswith("rich run,train/loss,3,NaN,")


def test_health_and_progress_show_what_went_wrong(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}?tab=progress")
    health = page.get_by_role("list", name="Health of the newest rollouts")
    expect(health).to_contain_text("No-variance groups100%")
    expect(health).to_contain_text("Tool errors50.0%")
    expect(page.get_by_role("img", name=re.compile("^Success rate.*last 0.5"))).to_be_visible()
    rewards = page.get_by_role("img", name=re.compile("^Reward distribution.*median: 12 points, last 1;"))
    open_by_keys(page, rewards, "ArrowLeft")
    expect(page).to_have_url(re.compile(f"/runs/{rich.id}/steps/{STEPS - 1}$"))


def test_the_help_of_a_health_figure_leaves_the_runs_name_to_be_read(page: Page, rich: SimpleNamespace) -> None:
    page.set_viewport_size({"width": 1280, "height": 420})
    page.goto(f"/runs/{rich.id}")
    figures = page.get_by_role("list", name="Health of the newest rollouts").get_by_role("note")
    expect(figures.first).to_be_visible()
    name = page.get_by_role("heading", level=1).bounding_box()
    help_text = page.get_by_role("tooltip")
    for figure in figures.all():
        # First away from the last one, whose help fades: a box of it would be none, or another's.
        page.mouse.move(0, 0)
        expect(help_text).to_have_count(0)
        figure.hover()
        expect(help_text).to_be_visible()
        figure_box, help_box = figure.bounding_box(), help_text.bounding_box()
        assert name is not None
        assert figure_box is not None
        assert help_box is not None
        assert help_box["y"] >= figure_box["y"] + figure_box["height"] > name["y"] + name["height"]


def test_newest_rollouts_and_steps_are_listed_with_links(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}?tab=rollouts")
    newest = page.get_by_role("region", name="Newest rollouts").last
    expect(newest.get_by_role("link")).to_have_count(2 * STEPS + 4)
    expect(newest.get_by_role("link").first).to_have_attribute("href", re.compile("/rollouts/[0-9a-f-]{36}$"))
    expect(page.get_by_role("link", name="Search all rollouts")).to_have_attribute(
        "href", re.compile(f"/rollouts\\?run={rich.id}")
    )
    page.get_by_text("Steps", exact=True).click()
    page.get_by_role("region", name="Steps of the run").get_by_role("link", name="Step 11").click()
    expect(page).to_have_url(re.compile(f"/runs/{rich.id}/steps/11$"))


def test_an_evaluation_is_compared_with_the_pinned_baseline(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}?tab=evaluations")
    baseline = page.get_by_role("group", name="Baseline")
    expect(baseline).to_contain_text("not pinned")
    baseline.get_by_role("button", name="Pin it").click()
    expect(baseline).to_contain_text("· pinned")
    solved = page.get_by_role("region", name="Newly solved")
    expect(solved.get_by_role("link", name="new task")).to_have_attribute("href", re.compile("/rollouts\\?run="))
    expect(page.get_by_role("region", name="Newly broken").get_by_role("link", name="old task")).to_be_visible()
    baseline.get_by_role("button", name="Unpin").click()
    expect(baseline).to_contain_text("not pinned")


def test_a_configuration_shows_what_differs_from_another_run(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}?tab=configuration")
    expect(page.get_by_role("row", name="model.layers 4")).to_be_visible()
    page.get_by_role("combobox", name="Difference to…").fill("other rich")
    page.get_by_role("option", name="other rich run").click()
    expect(page.get_by_role("row", name="≠ changed learning_rate 0.00001 0.00002")).to_be_visible()
    expect(page.get_by_role("row", name="+ only here seed 1")).to_be_visible()
    expect(page.get_by_role("row", name="− only there batch")).to_be_visible()
    expect(page.get_by_role("row", name="model.name")).to_have_count(0)
    expect(page).to_have_url(re.compile(f"diff={rich.other_id}"))


def test_the_end_of_a_log_and_kept_files_can_be_read(page: Page, rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}?tab=log")
    tail = page.get_by_role("region", name="End of the log")
    expect(tail).to_contain_text(f"the end {HOSTILE}")
    expect(tail).not_to_contain_text("line 42 line 43")
    expect(page.get_by_text("The last 64.0 KB of")).to_be_visible()
    page.get_by_role("tab", name="Checkpoints").click()
    expect(page.get_by_role("row", name="accuracy 0.75")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download checkpoint 1").click()
    assert Path(download.value.path()).read_bytes() == b"weights"
    assert page.title() != "taken over"


def test_the_history_tells_of_statuses_and_rewinds(page: Page, recorder: Callable[..., Any]) -> None:
    for further in ({}, {"rewind_to_step": 0}):
        with recorded(recorder(name="gone back", run_name="gone-back", **further)) as run:
            for number in range(run.next_step, 3):
                with run.step(number):
                    run.log({"loss": 1.0}, step=number)
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_text("Rewound once")).to_be_visible()
    page.get_by_role("link", name="See when and to which step").click()
    expect(page.get_by_role("region", name="Rewinds").last.get_by_role("row", name="step 0")).to_be_visible()
    history = page.get_by_role("region", name="Status history").last
    expect(history.get_by_role("row", name="completed running")).to_be_visible()


def test_a_visitor_sees_a_public_run_and_changes_nothing(visitor: Page, stack: Any, rich: SimpleNamespace) -> None:
    visitor.goto(f"/runs/{rich.id}")
    expect(visitor.get_by_text("There is nothing by this id")).to_be_visible()

    def show_to(whom: str) -> None:
        httpx.patch(
            f"{stack.url}/rest/v1/training_runs",
            params={"id": f"eq.{rich.id}"},
            headers={"apikey": stack.secret_key},
            json={"visibility": whom},
        ).raise_for_status()

    show_to("public")
    try:
        visitor.goto(f"/runs/{rich.id}?tab=evaluations")
        expect(visitor.get_by_role("group", name="Baseline")).to_contain_text("before at step 0")
        expect(visitor.get_by_role("button", name=re.compile("[Pp]in"))).to_have_count(0)
    finally:
        show_to("private")


def test_a_run_without_anything_says_what_to_do(page: Page, recorder: Callable[..., Any]) -> None:
    with recorded(recorder(name="nothing yet")) as run:
        pass
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_text("No metrics yet")).to_be_visible()
    for tab, said in {
        "Progress": "No training rollouts yet",
        "Evaluations": "No evaluations yet",
        "Log": "No logs",
    }.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_text(said)).to_be_visible()
    page.goto("/runs/none")
    expect(page.get_by_text("This is not the id of a run")).to_be_visible()


def test_every_tab_is_accessible(page: Page, axe: Callable[[Page], None], rich: SimpleNamespace) -> None:
    page.goto(f"/runs/{rich.id}?with={rich.other_id}")
    expect(chart(page, "eval/score")).to_be_visible()
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel").get_by_role("status", name=re.compile("Reading"))).to_have_count(0)
        axe(page)


def test_no_tab_is_wider_than_a_phone(open_context: Callable[..., BrowserContext], rich: SimpleNamespace) -> None:
    page = open_context(phone=True).new_page()
    page.goto(f"/runs/{rich.id}")
    expect(page.get_by_text("4 metrics")).to_be_visible()
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel").get_by_role("status", name=re.compile("Reading"))).to_have_count(0)
        assert not page.evaluate(WIDER_THAN_THE_SCREEN), tab
