"""Training in the dashboard: environments, new runs, launching and following them, frames, sweeps and jobs."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect

from openmanus_rl.records.ids import new_id

from .conftest import check
from .training_data import GRID, PPO, TrainingData, curve, picture, row

HOSTILE = "<img src=x onerror=\"document.title='taken over'\"> \u202e42"


def test_a_grid_world_is_drawn_while_it_is_edited_and_its_versions_are_kept(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    page.goto("/environments/new")
    page.get_by_label("Name").fill("drawn maze")
    spec = page.get_by_label("Spec as JSON")
    grid = page.get_by_role("img", name=re.compile("^Grid of"))
    spec.fill('{"map": ["A..", "..?"]}')
    expect(page.get_by_role("status").filter(has_text="One problem")).to_contain_text("map.1")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    spec.fill('{"map": ["A..", "..G"]}')
    expect(grid).to_have_accessible_name(re.compile("3 by 2 cells, 0 of them walls, 1 goal"))
    # While it is no JSON, the last grid stays.
    spec.press_sequentially("x")
    expect(page.get_by_text("as it was before the last edit")).to_be_visible()
    spec.press("Backspace")
    # By pointing at a cell, and by keys.
    box = grid.bounding_box()
    assert box is not None
    grid.click(position={"x": box["width"] / 2, "y": box["height"] / 4})
    expect(spec).to_have_value(re.compile(r"A#\."))
    page.get_by_text("trap", exact=True).click()
    grid.focus()
    grid.press("ArrowRight")
    grid.press("Enter")
    expect(spec).to_have_value(re.compile("A#T"))
    check(page, axe)
    page.get_by_role("button", name="Save").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("drawn maze")
    page.get_by_label("Spec as JSON").fill('{"map": ["A.G"]}')
    page.get_by_role("button", name="Save as version 2").click()
    expect(page.get_by_text("Version 2, the present one")).to_be_visible()
    page.get_by_role("button", name="Version 1", exact=True).click()
    page.get_by_role("button", name="Edit from this version").click()
    expect(page.get_by_label("Spec as JSON")).to_have_value(re.compile("A#T"))
    page.get_by_role("button", name="Undo the edits").click()
    check(page, axe)
    stored = row(data, "select version, spec from public.environments where name = 'drawn maze'")
    assert stored == {"version": 2, "spec": {"map": ["A.G"]}}
    page.get_by_role("link", name="Train in it").click()
    expect(page.get_by_role("combobox", name="Environment")).to_have_value("drawn maze")


def test_environments_are_listed_with_pictures_and_a_draft_is_confirmed(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    name = f"kept {HOSTILE}"
    kept = data.environment(name, "gymnasium", {"id": "CartPole-v1"})
    failed = data.environment("kept broken", "gymnasium", {"id": "Nothing-v1"})
    draft = data.environment("kept draft", "grid", GRID, is_draft=True, source="https://example.com/paper")
    data.preview(kept, 1, png=picture("cart"))
    data.preview(failed, 1, preview_error="it could not be made")
    page.goto("/environments?search=kept")
    cards = page.get_by_role("list", name="Environments").get_by_role("link")
    expect(cards).to_have_count(3)
    expect(cards.filter(has_text="⟨U+202E⟩42").get_by_role("img")).to_be_visible()
    check(page, axe)
    cards.filter(has_text="kept broken").click()
    expect(page.get_by_text("There is no picture: it could not be made")).to_be_visible()
    # The fields are the spec, whichever is edited.
    page.get_by_role("combobox", name="Id").fill("Acrobot-v1")
    page.get_by_label("Wrappers").fill('[{"name": "TimeLimit", "arguments": {"steps": 5}}]')
    expect(page.get_by_role("status").filter(has_text="One problem")).to_contain_text("wrappers.0.arguments")
    page.get_by_label("Wrappers").fill("")
    page.get_by_role("button", name="Save as version 2").click()
    expect(page.get_by_text("No picture of version 2 yet")).to_be_visible()
    assert row(data, "select spec from public.environments where id = %s", failed) == {"spec": {"id": "Acrobot-v1"}}
    # A picture that an orchestrator makes comes by itself.
    data.preview(failed, 2, png=picture("acrobot"))
    expect(page.get_by_role("img", name="kept broken, version 2")).to_be_visible()

    page.goto(f"/environments/{draft}")
    expect(page.get_by_role("note")).to_contain_text("https://example.com/paper")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("link", name="Train in it")).to_be_visible()
    assert row(data, "select is_draft from public.environments where id = %s", draft) == {"is_draft": False}


def test_a_run_is_made_by_the_form_launched_stopped_and_tried_again(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    page.goto("/runs/new")
    page.get_by_role("button", name="Create the run").click()
    expect(page.get_by_text("Mend first: name")).to_be_visible()
    page.get_by_label("Name").fill("formed run")
    page.get_by_text("DQN", exact=True).click()
    page.get_by_label("Timesteps", exact=True).fill("2000")
    page.get_by_label("learning_rate").fill('{"start": 0.001, "end": 0}')
    page.get_by_label("gamma").fill("1.5")
    expect(page.get_by_text("it must be at most 1")).to_be_visible()
    page.get_by_label("gamma").fill("0.9")
    page.get_by_role("button", name=re.compile("further parameters")).click()
    page.get_by_label("max_grad_norm").fill("10")
    page.get_by_role("button", name="Create the run").click()

    dialog = page.get_by_role("dialog", name="Launch")
    yaml = dialog.get_by_label("YAML of the task")
    expect(yaml).to_contain_text("openmanus_rl.training.train")
    expect(dialog.get_by_role("status")).to_contain_text("openmanus-rl orchestrator")
    dialog.get_by_text("SkyPilot", exact=True).click()
    dialog.get_by_label("Accelerator").fill("A10 : 1")
    expect(dialog.get_by_role("alert")).to_contain_text("config.accelerator")
    dialog.get_by_label("Accelerator").fill("A10:1")
    expect(yaml).to_contain_text('accelerators: "A10:1"')
    axe(page)
    dialog.get_by_text("Local", exact=True).click()
    dialog.get_by_label("Restarts").fill("1")
    dialog.get_by_role("button", name="Launch").click()
    bar = page.get_by_role("group", name="Job")
    expect(bar).to_contain_text("waits for an orchestrator")
    made = row(data, "select id, algorithm, config from public.training_runs where name = 'formed run'")
    hyperparameters = {"learning_rate": {"start": 0.001, "end": 0}, "gamma": 0.9}
    # What is the default is not written.
    assert made["config"] == {"total_timesteps": 2000, "hyperparameters": hyperparameters}
    job = row(data, "select config, max_restarts from public.jobs where training_run_id = %s", made["id"])
    assert job == {"config": {"backend": "local", "max_restarts": 1}, "max_restarts": 1}

    bar.get_by_role("button", name="Stop").click()
    expect(bar).to_contain_text("cancelled")
    bar.get_by_role("button", name="Try again").click()
    expect(bar).to_contain_text("attempt 2")
    bar.get_by_role("link", name="Clone").click()
    expect(page.get_by_label("Name")).to_have_value("formed run (copy)")
    expect(page.get_by_label("gamma")).to_have_value("0.9")
    page.get_by_label("Runs with seeds of their own").fill("3")
    page.get_by_role("button", name="Start 3 runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("formed run (copy), 3 seeds")
    expect(page.get_by_text("No orchestrator is alive")).to_be_visible()
    sweep = row(data, "select method, space, max_trials, template from public.sweeps")
    assert (sweep["method"], sweep["space"], sweep["max_trials"]) == ("seeds", {"seed": {"values": [0, 1, 2]}}, 3)
    assert sweep["template"]["config"] == made["config"]


def test_the_log_of_a_job_comes_as_it_is_printed_and_a_long_one_is_read_back(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    run_id = data.run("logged run")
    _, lease = data.launch(run_id, max_restarts=3)
    data.log(lease, 1, f"the first attempt {HOSTILE}\n")
    data.call("restart_job", lease_id=lease, attempt=1, reason="the machine was taken away")
    data.update(lease, status="running", cost_usd=1.25)
    at = 0
    for part in range(3):
        at = data.log(lease, 2, "".join(f"line {part} {n} {'-' * 60}\n" for n in range(8000)), at)
    page.goto(f"/runs/{run_id}?tab=job")
    log = page.get_by_role("region", name="Log of the job")
    expect(log).to_contain_text("line 2 7999")
    assert log.locator("pre").count() < 200
    data.log(lease, 2, "it has just been printed\n", at)
    expect(log).to_contain_text("it has just been printed")
    for fact in ("$1.25", "attempt 2", "1 of 3 restarts", "here"):
        expect(page.get_by_role("group", name="Job")).to_contain_text(fact)
    check(page, axe)
    # Back to the beginning, page by page.
    earlier = page.get_by_role("button", name="Earlier")
    page.get_by_role("switch", name="Follow").uncheck()
    while earlier.is_visible():
        shown = page.get_by_text(re.compile("are shown")).text_content()
        earlier.click()
        expect(page.get_by_text(str(shown), exact=True)).to_have_count(0)
    log.focus()
    log.press("Home")
    expect(log).to_contain_text("line 0 0 ")
    page.get_by_role("combobox", name="Attempt").click()
    page.get_by_role("option", name="Attempt 1").click()
    expect(log).to_contain_text("the first attempt <img")
    expect(log).to_contain_text("⟨U+202E⟩42")


def test_thousands_of_frames_are_a_strip_to_move_along(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    run_id = data.run("filmed run")
    page.goto(f"/runs/{run_id}?tab=frames")
    expect(page.get_by_text("No frames yet")).to_be_visible()
    data.frames(run_id, range(0, 5_000_000, 1000))
    frame = page.get_by_role("img", name=re.compile("Frame at step"))
    expect(frame).to_have_accessible_name("Frame at step 4,999,000")
    # Only those that are looked at are there.
    strip = page.get_by_role("listbox", name="All frames")
    expect(strip.locator("img").first).to_be_visible()
    assert strip.locator("img").count() < 60
    page.get_by_role("button", name="The frame before").click()
    expect(frame).to_have_accessible_name("Frame at step 4,998,000")
    strip.focus()
    strip.press("ArrowLeft")
    expect(frame).to_have_accessible_name("Frame at step 4,997,000")
    strip.press("Home")
    expect(frame).to_have_accessible_name("Frame at step 0")
    expect(page).to_have_url(re.compile("frame=0"))
    slider = page.get_by_role("slider", name="Frame")
    slider.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "step 1,000")
    strip.get_by_role("option", name="Step 3,000", exact=True).click()
    expect(frame).to_have_accessible_name("Frame at step 3,000")
    assert frame.evaluate("image => image.complete && image.naturalWidth") == 160
    check(page, axe)


def test_frames_that_a_rewind_took_back_leave_the_strip_until_they_are_trained_again(
    page: Page, data: TrainingData
) -> None:
    run_id = data.run("rewound film")
    data.frames(run_id, [0, 1000, 2000])
    page.goto(f"/runs/{run_id}?tab=frames")
    frame = page.get_by_role("img", name=re.compile("Frame at step"))
    expect(frame).to_have_accessible_name("Frame at step 2,000")
    before = frame.get_attribute("src")
    data.call("resume_run", run_id=run_id, change_id=new_id(), rewind_to_step=1000)
    expect(frame).to_have_accessible_name("Frame at step 1,000")
    expect(page.get_by_role("listbox", name="All frames").get_by_role("option")).to_have_count(2)
    # Trained again, and seen again as it is now, not as it was.
    data.frames(run_id, [2000], timeline=1)
    expect(frame).to_have_accessible_name("Frame at step 2,000")
    expect(frame).not_to_have_attribute("src", str(before))


RATE = "hyperparameters.learning_rate"


def test_a_sweep_shows_which_parameters_did_well_and_its_trials_as_a_band(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    space = {RATE: {"min": 1e-5, "max": 1e-1, "log": True}, "policy": {"values": ["MlpPolicy", "CnnPolicy"]}}
    sweep_id = data.sweep("searched", space=space, trials=8)
    lease = data.claim_sweep(sweep_id)
    runs = [
        data.trial(lease, n, {RATE: 10.0 ** (n - 5), "policy": ("MlpPolicy", "CnnPolicy")[n % 2]}, curve(best))
        for n, best in enumerate((10, 20, 90, 40, 5))
    ]
    data.trial(lease, 5, {RATE: 0.1, "policy": "MlpPolicy"}, [])
    data.call("update_sweep", lease_id=lease, changes={"importances": {RATE: 0.8, "policy": 0.2}})
    page.goto("/sweeps")
    page.get_by_role("link", name="searched").click()
    expect(page.get_by_role("progressbar", name=f"{RATE}: 80%")).to_be_visible()
    table = page.get_by_role("table", name="Trials")
    best = table.get_by_role("row").filter(has_text="best")
    expect(best.get_by_role("link")).to_have_attribute("href", f"/runs/{runs[2]}")
    # By value; a trial without one is last either way.
    for order in ("ascending", "descending"):
        table.get_by_role("button", name="rollout/ep_rew_mean").click()
        expect(table.get_by_role("columnheader", name="rollout/ep_rew_mean")).to_have_attribute("aria-sort", order)
        expect(table.locator("tbody tr").last).to_contain_text("0.1")
    expect(table.locator("tbody tr").first).to_contain_text("best")
    # A brush, by the name of its axis and keys, filters the table.
    page.get_by_role("button", name="learning_rate", exact=True).and_(page.locator("[title^=hyper]")).first.click()
    thumb = page.get_by_role("slider", name="From")
    for _ in range(45):
        thumb.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(page.get_by_text("4 of 6 trials are kept.")).to_be_visible()
    expect(table.locator("tbody tr")).to_have_count(4)
    page.get_by_role("button", name="Show all").click()
    expect(table.locator("tbody tr")).to_have_count(6)
    for trial in (2, 3):
        page.get_by_role("checkbox", name=f"Select trial {trial}").check()
    chart = page.get_by_role("img", name=re.compile("mean of 2 runs"))
    expect(chart).to_have_accessible_name(re.compile("mean: 20 points"))
    page.get_by_text("± standard deviation").click()
    expect(page).to_have_url(re.compile("spread=deviation"))
    check(page, axe)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("cancelled").first).to_be_visible()
    page.goto(f"/runs/{runs[0]}")
    page.get_by_role("link", name="Trial 0 of a sweep").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("searched")


def test_seeds_are_one_curve_with_a_band(page: Page, data: TrainingData) -> None:
    sweep_id = data.sweep("seeded", method="seeds", space={"seed": {"values": [0, 1, 2]}}, trials=3)
    lease = data.claim_sweep(sweep_id)
    for seed in range(3):
        data.trial(lease, seed, {"seed": seed}, curve(100 + seed))
    page.goto(f"/sweeps/{sweep_id}")
    expect(page.get_by_role("region", name="All seeds as one curve")).to_contain_text("Mean of 3 runs")
    expect(page.get_by_role("img", name=re.compile("mean of 3 runs.*mean: 20 points"))).to_be_visible()


def test_jobs_are_listed_with_the_orchestrators_and_what_no_one_can_launch(
    page: Page, data: TrainingData, axe: Callable[[Page], None]
) -> None:
    page.goto("/jobs")
    expect(page.get_by_text("No job yet")).to_be_visible()
    expect(page.get_by_role("region", name="Orchestrators")).to_contain_text("openmanus-rl orchestrator")
    failed, _ = data.run("listed failed"), data.run("listed waiting")
    _, lease = data.launch(failed)
    data.update(lease, status="failed", message="it ended with exit code 1", exit_code=1)
    data.db.execute("update public.orchestrators set heartbeat_at = now() - interval '5 minutes'")
    data.call("request_job", run_id=data.run("listed gpu"), config={"accelerator": "A10:1"})
    table = page.get_by_role("table", name="Jobs")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table).to_contain_text("it ended with exit code 1")
    expect(page.get_by_role("status").filter(has_text="wait for an orchestrator")).to_contain_text("1 needs skypilot")
    expect(page.get_by_role("table", name="Orchestrators")).to_contain_text("silent")
    check(page, axe)
    page.goto("/jobs?status=failed")
    expect(table.get_by_role("row")).to_have_count(2)
    table.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("No job has such a status")).to_be_visible()


def test_a_visitor_sees_the_job_and_frames_of_a_public_run_and_may_change_nothing(
    open_context: Callable[..., BrowserContext], data: TrainingData
) -> None:
    run_id = data.run("shown run", PPO, visibility="public")
    data.launch(run_id)
    data.frames(run_id, [0, 1000])
    page = open_context(as_visitor=True).new_page()
    # A link from a member: there is nothing to launch for a visitor, and so nothing to refuse.
    page.goto(f"/runs/{run_id}?tab=frames&launch=true")
    expect(page.get_by_role("img", name="Frame at step 1,000")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("group", name="Job").get_by_role("button", name="Stop")).to_have_attribute(
        "aria-disabled", "true"
    )
    page.get_by_role("tab", name="Job").click()
    expect(page.get_by_text("Logs are for members.")).to_be_visible()
    for place in ("/environments", "/sweeps", "/jobs", "/runs/new"):
        page.goto(place)
        expect(page.get_by_text(re.compile("are for members"))).to_be_visible()
