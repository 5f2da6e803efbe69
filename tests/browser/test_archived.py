"""An archived run is listed with its figures, and shows its curves and turns again on request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import openmanus_rl
from openmanus_rl.archiving import Archiver

from .conftest import recorded


@pytest.fixture(scope="module")
def archived(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A public run that was recorded and then archived."""
    with pytest.MonkeyPatch.context() as patch:
        home = str(tmp_path_factory.mktemp("archived") / "home")
        for name, value in {**stack.env, "OPENMANUS_RL_HOME": home}.items():
            patch.setenv(name, value)
        patch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
        with recorded(openmanus_rl.init(name="old run", algorithm="grpo", environment="house")) as run:
            for number in range(8):
                run.log({"train/loss": 1 / (number + 1)}, step=number)
            with (
                run.step(0) as step,
                step.group(task="fetch") as group,
                group.rollout(task_description="fetch") as rollout,
            ):
                for number in range(3):
                    rollout.log_turn(observation=f"room {number}", action="go north", reward=0.5)
                rollout.complete(status="success")
        with Archiver(stack.database_url) as archiver:
            archiver.archive(run.id)
        yield SimpleNamespace(id=run.id, rollout_id=rollout.id)


def test_an_archived_run_is_listed_with_its_figures_and_its_curves_are_loaded_on_request(
    page: Page, archived: SimpleNamespace, axe: Callable[[Page], None]
) -> None:
    page.goto("/runs")
    row = page.get_by_role("row").filter(has_text="old run")
    expect(row).to_contain_text("archived")
    expect(row).to_contain_text("100")

    page.goto(f"/runs/{archived.id}")
    expect(page.get_by_text("The metric points are in the archive")).to_be_visible()
    axe(page)
    page.get_by_role("button", name="Load from archive").click()
    expect(page.get_by_role("figure").or_(page.locator("canvas")).first).to_be_visible()
    expect(page.get_by_text("loss").first).to_be_visible()
    expect(page.get_by_text("The metric points are in the archive")).to_be_hidden()


def test_the_turns_of_an_archived_rollout_are_loaded_on_request(page: Page, archived: SimpleNamespace) -> None:
    page.goto(f"/rollouts/{archived.rollout_id}")
    expect(page.get_by_text("The turns are in the archive")).to_be_visible()
    page.get_by_role("button", name="Load from archive").click()
    expect(page.get_by_text("room 0", exact=True).first).to_be_visible()
    expect(page.get_by_text(re.compile("room 2")).first).to_be_visible()
    page.reload()
    expect(page.get_by_text("room 0", exact=True).first).to_be_visible()
