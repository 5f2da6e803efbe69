"""Starting sweeps and jobs in the dashboard: the form of a search, odd values, two tabs, and who may not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from .conftest import check
from .training_data import PPO, TrainingData, row

RATE = "hyperparameters.learning_rate"
STEPS = "hyperparameters.n_steps"


def add(page: Page, path: str) -> Locator:
    """Choose a parameter by keys; return its fields."""
    picker = page.get_by_role("combobox", name="Add a parameter")
    picker.fill(path)
    page.get_by_role("option").filter(has_text=path).first.wait_for()
    picker.press("ArrowDown")
    picker.press("Enter")
    return page.get_by_role("group", name=path, exact=True)


def test_a_search_over_a_runs_parameters_is_started_by_a_form_once(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    run_id = data.run("searched run")
    page.goto(f"/runs/{run_id}")
    page.get_by_role("group", name="Job").get_by_role("link", name="Sweep").click()
    start = page.get_by_role("button", name=re.compile("^Start"))
    expect(start).to_be_disabled()
    expect(page.get_by_text("Add a parameter to vary first.")).to_be_visible()

    rate = add(page, RATE)
    expect(rate).to_contain_text("In the run: 0.0003, the default")
    # Whoever types goes on in what was added.
    lowest = rate.get_by_label("Lowest")
    expect(lowest).to_be_focused()
    lowest.fill("1")
    expect(rate).to_contain_text("it is above max")
    expect(page.get_by_role("status").filter(has_text="Mend first")).to_contain_text(f"space.{RATE}.min")
    lowest.fill("1e-5")
    steps = add(page, STEPS)
    expect(steps.get_by_label("Values of")).to_have_value("1024, 2048, 4096")
    expect(steps).to_contain_text("3 values")
    page.get_by_role("textbox", name="Trials", exact=True).fill("12")
    page.get_by_label("At most at once").fill("3")
    expect(page.get_by_text("It makes 12 runs, at most 3 at once.")).to_be_visible()
    page.get_by_text("Grid", exact=True).click()
    expect(rate).to_contain_text("a grid needs values")
    rate.get_by_text("Values", exact=True).click()
    rate.get_by_label("Values of").fill("1e-3, 1e-4")
    expect(page.get_by_text("It makes 6 runs: all combinations, at most 3 at once.")).to_be_visible()
    page.get_by_text("Bayesian", exact=True).click()
    rate.get_by_text("Range", exact=True).click()
    page.get_by_role("switch", name="Stop bad trials early").check()
    page.get_by_label("Not before step").fill("500")
    page.get_by_text("Minimize", exact=True).click()
    expect(start).to_have_text("Start 12 runs")
    check(page, axe)
    start.dblclick()

    expect(page.get_by_role("heading", level=1)).to_have_text("Sweep of searched run")
    made = data.db.execute("select * from public.sweeps").fetchall()
    assert len(made) == 1
    assert {name: made[0][name] for name in ("method", "space", "direction", "max_trials", "max_concurrent")} == {
        "method": "bayesian",
        "space": {RATE: {"min": 1e-5, "max": 0.003, "log": True}, STEPS: {"values": [1024, 2048, 4096]}},
        "direction": "minimize",
        "max_trials": 12,
        "max_concurrent": 3,
    }
    assert made[0]["template"]["config"] == PPO
    assert made[0]["early_stopping"] == {"after_steps": 500}
    # Again, from the sweep.
    page.get_by_role("link", name="Clone").click()
    expect(page.get_by_label("Highest of")).to_have_value("0.003")
    expect(start).to_have_text("Start 12 runs")


def test_odd_names_and_values_are_kept_as_they_are_or_refused_at_their_field(page: Page, data: TrainingData) -> None:
    name = "<img src=x onerror=\"document.title='taken over'\"> 'λ"
    config = {"entry_point": {"module": "a:b"}, "extra": {"deep": 1}, "x" * 200: 0.5}
    run_id = data.run("odd run", config, algorithm=None, environment=None)
    page.goto("/sweeps/new")
    page.get_by_role("combobox", name="Choose a run").fill("odd run")
    page.get_by_role("option", name=re.compile("^odd run")).click()
    expect(page).to_have_url(re.compile(run_id))
    start = page.get_by_role("button", name=re.compile("^Start"))
    fields = add(page, name)
    values = fields.get_by_label("Values of")
    values.fill("1")
    expect(page.get_by_text("the name of the metric that decides is expected")).to_be_visible()
    page.get_by_role("combobox", name="Metric that decides").fill("loss")
    for text, told in {
        "1, 1e-400": "1e-400: it cannot be stored as it is typed",
        "NaN": "NaN: it cannot be stored",
        "12345678901234567890": "it cannot be stored",
        "": "a list of at least one value is expected",
        "1, 1.0": "a value is there twice",
    }.items():
        values.fill(text)
        expect(fields).to_contain_text(told)
        expect(start).to_be_disabled()
    values.fill('"", "NaN", 1e21, {"a": [1, 2]}, null')
    expect(fields).to_contain_text("5 values")
    fields.get_by_text("Range", exact=True).click()
    for low in ("1e-400", "1e400", "NaN", "", "one"):
        fields.get_by_label("Lowest").fill(low)
        expect(fields).to_contain_text("a number is expected")
    fields.get_by_text("Values", exact=True).click()
    inside = add(page, "extra.deep.er")
    inside.get_by_label("Values of").fill("1")
    expect(inside).to_contain_text("extra.deep is not an object in the configuration")
    inside.get_by_role("button", name="Do not vary extra.deep.er").click()
    page.get_by_role("textbox", name="Trials", exact=True).fill("99999999999999999999")
    expect(page.get_by_text("a whole number from 1 to 10000 is expected")).to_be_visible()
    page.get_by_role("textbox", name="Trials", exact=True).fill("2")
    start.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sweep of odd run")
    made = row(data, "select space, template from public.sweeps")
    assert made["space"] == {name: {"values": ["", "NaN", 1e21, {"a": [1, 2]}, None]}}
    assert made["template"]["config"] == config


def test_one_press_or_two_and_one_tab_or_two_launch_one_job(
    page: Page, data: TrainingData, open_context: Callable[..., BrowserContext]
) -> None:
    run_id, gone = data.run("launched once"), data.run("deleted meanwhile")
    other = open_context().new_page()
    dialogs = []
    for each in (page, other):
        each.goto(f"/runs/{run_id}?launch=true")
        dialog = each.get_by_role("dialog", name="Launch")
        expect(dialog.get_by_label("YAML of the task")).to_be_visible()
        dialogs.append(dialog)
    dialogs[0].get_by_role("button", name="Launch").dblclick()
    expect(dialogs[0]).to_have_count(0)
    dialogs[1].get_by_role("button", name="Launch").click()
    expect(dialogs[1].get_by_role("alert")).to_contain_text("is active; stop it first")
    assert row(data, "select count(*) as jobs from public.jobs") == {"jobs": 1}

    page.goto(f"/runs/{gone}?launch=true")
    dialog = page.get_by_role("dialog", name="Launch")
    expect(dialog.get_by_label("YAML of the task")).to_be_visible()
    other.goto(f"/sweeps/new?run={gone}")
    add(other, RATE)

    def delete_first(route: Route) -> None:
        data.db.execute("delete from public.training_runs where id = %s", [gone])
        route.continue_()

    # Between the press and the server: earlier, the dialog may have heard of it, and could not be pressed.
    page.route("**/rpc/request_job", delete_first)
    dialog.get_by_role("button", name="Launch").click()
    expect(dialog.get_by_role("alert")).to_contain_text("unknown id")
    # The form has all that a sweep needs of the run.
    other.get_by_role("button", name="Start 20 runs").click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Sweep of deleted meanwhile")


@pytest.fixture
def viewer(stack: Any, open_context: Callable[..., BrowserContext]) -> Page:
    """A page of a member who may change nothing."""
    head, account = {"apikey": stack.secret_key}, {"email": "onlooker@example.org", "password": "a-viewers-password"}
    user = httpx.post(f"{stack.url}/auth/v1/admin/users", headers=head, json=account | {"email_confirm": True}).json()
    member = {"user_id": user["id"], "role": "viewer"}
    httpx.post(f"{stack.url}/rest/v1/members", headers=head, json=member).raise_for_status()
    session = httpx.post(f"{stack.url}/auth/v1/token?grant_type=password", headers=head, json=account).json()
    page = open_context(as_visitor=True).new_page()
    page.goto("/runs")
    page.evaluate("session => localStorage.setItem('openmanus-rl', JSON.stringify(session))", session)
    return page


def test_a_viewer_reads_everything_of_training_and_is_told_why_nothing_can_be_started(
    viewer: Page, data: TrainingData
) -> None:
    run_id = data.run("viewed run")
    sweep_id = data.sweep("viewed sweep", space={RATE: {"values": [0.1]}}, trials=1)
    viewer.goto(f"/sweeps/new?run={run_id}")
    add(viewer, RATE)
    # It counts, and goes no further.
    expect(viewer.get_by_role("button", name="Start 20 runs")).to_be_disabled()
    viewer.get_by_role("group", name=RATE).get_by_label("Lowest").press("Enter")
    expect(
        viewer.get_by_role("status").get_by_text("You are a viewer here: ask an admin to make you an editor.")
    ).to_be_visible()
    viewer.goto("/runs/new")
    viewer.get_by_label("Name").fill("not made")
    viewer.get_by_label("Name").press("Enter")
    expect(
        viewer.get_by_role("status").get_by_text("You are a viewer here: ask an admin to make you an editor.")
    ).to_be_visible()
    for place, button in ((f"/runs/{run_id}", "Launch"), (f"/sweeps/{sweep_id}", "Stop")):
        viewer.goto(place)
        expect(viewer.get_by_role("button", name=button)).to_have_attribute("aria-disabled", "true")
    viewer.goto(f"/runs/{run_id}?launch=true")
    launch = viewer.get_by_role("dialog", name="Launch").get_by_role("button", name="Launch")
    expect(launch).to_have_attribute("aria-disabled", "true")
    assert row(data, "select count(*) as made from public.training_runs where name = 'not made'") == {"made": 0}
    assert row(data, "select count(*) as made from public.sweeps") == {"made": 1}
