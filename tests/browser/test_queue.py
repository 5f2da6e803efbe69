"""The queue in the dashboard: asking for rollouts, watching them, the workers, and what came of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import imageio_ffmpeg
import psycopg
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from openmanus_rl.records.ids import new_id
from openmanus_rl.utils.supabase_db import QueueManager, TaskManager
from openmanus_rl.utils.supabase_storage import StorageManager

from .conftest import DESKTOP, PHONE

pytestmark = pytest.mark.usefixtures("settings")

HOSTILE = "<img src=x onerror=\"document.title='taken over'\"> \u202e42"
TURN_SECONDS = 1.5


class Worker:
    """A worker that does what a test says."""

    def __init__(self, name: str, **fields: Any) -> None:
        self.id = QueueManager.register_worker(name=name, **{"providers": ["none"], **fields})
        self.leases: dict[str, str] = {}

    def claim(self, count: int = 1) -> list[str]:
        """Take rollouts from the queue; return their ids."""
        claims = QueueManager.claim(self.id, wanted=count, lease_seconds=600, providers=["none"]).claims
        self.leases |= {claim["rollout"]["id"]: claim["lease_id"] for claim in claims}
        return [claim["rollout"]["id"] for claim in claims]

    def record(self, rollout_id: str, *, turns: int = 0, **fields: Any) -> None:
        """Write turns and columns of a rollout under its lease."""
        states = [
            {
                "id": new_id(),
                "rollout_id": rollout_id,
                "step_number": number,
                "observation": f"page {number}",
                "action": f"click {number}",
                "info": {"video_seconds": number * TURN_SECONDS},
            }
            for number in range(turns)
        ]
        batch = {"agent_states": states, "rollouts": [{"id": rollout_id, **fields}] if fields else []}
        arguments = {"batch": batch, "leases": [self.leases[rollout_id]]}
        assert QueueManager._client().rpc("ingest", arguments)["refused"] == []

    def finish(self, rollout_id: str, *, status: str, **fields: Any) -> None:
        self.record(rollout_id, status="running")
        self.record(rollout_id, status=status, **fields)


@pytest.fixture(autouse=True)
def _empty_queue(stack: Any) -> Iterator[None]:
    """Begin with an empty queue, and leave one to the next test."""
    clear_queue(stack)
    yield
    clear_queue(stack)


def clear_queue(stack: Any) -> None:
    with psycopg.connect(stack.database_url, autocommit=True) as db:
        db.execute("select set_config('openmanus_rl.leases', 'queue', false)")
        db.execute("delete from public.rollouts where request is not null")
        db.execute("delete from public.workers")


def new_tasks(environment: str, count: int, **fields: Any) -> list[str]:
    entries = [{"external_id": str(n), "description": f"task {n} of {environment}", **fields} for n in range(count)]
    TaskManager.import_tasks(entries, environment=environment)
    return [TaskManager.get_by_external_id(str(n), environment=environment)["id"] for n in range(count)]


def card(page: Page, rollout_id: str) -> Locator:
    return page.get_by_role("article", name=f"Rollout {rollout_id[-8:]}")


def fits_a_phone(page: Page) -> bool:
    """Whether nothing of the page is wider than a phone; it is as wide as before afterwards."""
    page.set_viewport_size(PHONE)
    width = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size(DESKTOP)
    return int(width) <= PHONE["width"]


def test_rollouts_of_selected_tasks_are_asked_for_and_watched_until_they_end(
    page: Page, axe: Callable[[Page], None]
) -> None:
    new_tasks("watch-house", 2)
    page.goto("/tasks?environment=watch-house")
    # Nothing is selected yet, and the button says so.
    page.get_by_role("button", name="New rollout").hover()
    expect(page.get_by_role("tooltip")).to_contain_text("Select tasks in the list first")
    page.get_by_role("checkbox", name="Select all tasks").check()
    page.get_by_role("button", name="New rollouts of 2 tasks").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="Agent").fill("no such agent")
    expect(dialog.get_by_text("or an import path such as")).to_be_visible()
    dialog.get_by_role("combobox", name="Agent").fill("noop")
    dialog.get_by_label("Attempts").fill("2")
    expect(dialog.get_by_text("No worker is active now")).to_be_visible()
    axe(page)
    dialog.get_by_role("button", name="Start 4 rollouts").click()

    expect(page.get_by_role("heading", name="4 rollouts requested together")).to_be_visible()
    expect(page.get_by_role("list", name="Rollouts").get_by_role("article")).to_have_count(4)
    worker = Worker("one")
    (rollout_id,) = worker.claim()
    expect(card(page, rollout_id)).to_contain_text("provisioning")
    worker.record(rollout_id, turns=2, status="running")
    expect(card(page, rollout_id)).to_contain_text("running")
    expect(card(page, rollout_id)).to_contain_text("2 turns")
    worker.record(rollout_id, status="success", result=HOSTILE, step_count=2)
    expect(card(page, rollout_id)).to_contain_text("⟨U+202E⟩42")
    expect(page.get_by_text("1 of 1 that were judged")).to_be_visible()
    assert page.title() != "taken over"
    axe(page)
    assert fits_a_phone(page)

    waiting = page.get_by_role("article").filter(has_text="waits for")
    expect(waiting).to_have_count(3)
    waiting.first.get_by_role("button", name="Cancel").click()
    page.get_by_role("article").filter(has_text="cancelled").get_by_role("button", name="Retry").click()
    expect(waiting).to_have_count(3)
    page.get_by_role("button", name="Cancel the rest").click()
    expect(page.get_by_role("article").filter(has_text="cancelled")).to_have_count(3)
    expect(page.get_by_role("button", name="Cancel the rest")).to_have_count(0)


def test_a_request_is_found_again_listed_by_status_and_its_errors_are_retried(page: Page) -> None:
    (task,) = new_tasks("errors-house", 1, expected_answer="42")
    QueueManager.request_rollouts(task, attempts=4, agent="noop")
    worker = Worker("erring")
    lost, wrong, *_ = worker.claim(2)
    worker.finish(lost, status="error", error="the model server answered 503", step_count=0)
    worker.finish(wrong, status="failed", result="41", status_message="the answer is another number", step_count=0)

    # From any of its rollouts there is a way back to the request.
    page.goto(f"/rollouts/{wrong}")
    page.get_by_role("main").get_by_role("link", name="ago").or_(page.get_by_role("link", name="just now")).click()
    expect(page.get_by_role("heading", name="4 rollouts requested together")).to_be_visible()
    expect(card(page, wrong)).to_contain_text("41")
    expect(card(page, wrong)).to_contain_text("the answer is another number")
    page.get_by_role("link", name="failed 1").click()
    listed = page.get_by_role("table").get_by_role("link", name="task 0 of errors-house")
    expect(listed).to_have_count(1)
    expect(listed).to_have_attribute("href", re.compile(wrong))
    page.go_back()
    page.get_by_role("button", name="Retry 1 error").click()
    expect(card(page, lost)).to_contain_text("waiting")
    expect(page.get_by_role("button", name="Retry 1 error")).to_have_count(0)


def test_an_answer_that_is_a_file_is_shown_by_its_beginning_and_read_whole_on_request(page: Page) -> None:
    (task,) = new_tasks("file-house", 1)
    (row,) = QueueManager.request_rollouts(task, agent="noop").rollouts
    rollout_id, worker = str(row["id"]), Worker("verbose")
    worker.claim()
    answer = 'It said "no".\n' + "שלום " * 60_000 + "the end"
    encoded = answer.encode()
    path = f"answers/{rollout_id}.txt"
    StorageManager.upload_bytes("media", path, encoded)
    # As a worker stores it.
    shortened = {"shortened": encoded[:4096].decode("utf-8", "replace"), "size_bytes": len(encoded), "path": path}
    worker.finish(rollout_id, status="completed", result=shortened, step_count=0)

    page.goto(f"/queue/watch?{urlencode({'at': row['created_at']})}")
    expect(card(page, rollout_id)).to_contain_text('It said "no".')
    expect(card(page, rollout_id)).not_to_contain_text("shortened")
    page.goto(f"/rollouts/{rollout_id}")
    shown = page.get_by_role("region", name="Answer", exact=True)
    expect(shown).to_contain_text('It said "no".')
    expect(shown).not_to_contain_text("shortened")
    shown.get_by_role("button", name="Show more of").click()
    expect(shown).to_contain_text(f"of {len(answer):,} characters shown")
    with page.expect_download() as saved:
        shown.get_by_role("button", name="Download").click()
    assert saved.value.path().read_bytes() == encoded


def test_long_and_many_texts_leave_every_column_of_the_tasks_in_sight(page: Page) -> None:
    TaskManager.import_tasks(
        [{"external_id": "1", "name": "N" * 500, "description": "a long task " * 500}], environment="long-house"
    )
    task = TaskManager.get_by_external_id("1", environment="long-house")["id"]
    QueueManager.request_rollouts(task, attempts=2)
    page.goto("/tasks?environment=long-house")
    expect(page.get_by_role("columnheader", name="Last rollout")).to_be_in_viewport()
    assert fits_a_phone(page)
    page.set_viewport_size(PHONE)
    expect(page.get_by_role("columnheader", name="Solved lately")).to_be_in_viewport()
    page.goto("/queue")
    expect(page.get_by_role("columnheader", name="Waits for")).to_be_in_viewport()
    page.set_viewport_size(DESKTOP)
    page.goto(f"/tasks/{task}")
    expect(page.get_by_role("region", name="How it is checked")).to_be_in_viewport()
    expect(page.get_by_role("region", name="In the queue")).to_be_in_viewport()


def test_the_queue_shows_what_waits_what_runs_where_and_how_the_workers_are(
    page: Page, stack: Any, axe: Callable[[Page], None]
) -> None:
    page.goto("/queue")
    expect(page.get_by_text("The queue is empty, and no worker runs")).to_be_visible()
    (task,) = new_tasks("queue-house", 1)
    QueueManager.request_rollouts(task, attempts=3, agent="noop")
    expect(page.get_by_text("No worker takes what waits")).to_be_visible()
    (urgent,) = QueueManager.request_rollouts(task, agent="oracle", priority=5).rollouts
    waiting, running = page.get_by_role("table", name="Waiting"), page.get_by_role("table", name="Running")
    expect(waiting.get_by_role("row")).to_have_count(5)
    expect(waiting.get_by_role("row").nth(1)).to_contain_text("oracle")

    busy, silent = Worker("busy-worker"), Worker("silent-worker")
    assert busy.claim() == [urgent["id"]]
    with psycopg.connect(stack.database_url, autocommit=True) as db:
        db.execute("update public.workers set heartbeat_at = now() - interval '1 hour' where id = %s", [silent.id])
    expect(running).to_contain_text("busy-worker")
    expect(running.get_by_role("row").filter(has_text="oracle")).to_contain_text("provisioning")
    workers = page.get_by_role("table", name="Workers")
    expect(workers.get_by_role("row").nth(1)).to_contain_text("silent")
    expect(workers.get_by_role("row", name=re.compile("busy-worker"))).to_contain_text("1 of 4")
    axe(page)
    assert fits_a_phone(page)

    workers.get_by_role("row", name=re.compile("busy-worker")).get_by_role("button", name="Drain").click()
    expect(workers.get_by_role("row", name=re.compile("busy-worker"))).to_contain_text("draining")
    running.get_by_role("button", name="Cancel").click()
    expect(running).to_contain_text("cancelling")
    assert list(QueueManager.renew(busy.id, busy.leases.values(), lease_seconds=60).held.values()) == [True]
    page.get_by_role("checkbox", name="Select all waiting").check()
    page.get_by_role("region", name="Selected rollouts").get_by_role("button", name="Delete 3").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Nothing waits.")).to_be_visible()


def make_video(folder: Path, seconds: int) -> Path:
    video = folder / "video.webm"
    source = f"testsrc=duration={seconds}:size=160x90:rate=10"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-f", "lavfi", "-i", source, "-c:v", "libvpx"]
    subprocess.run([*command, str(video)], check=True)
    return video


def test_the_video_plays_beside_the_turns_and_each_follows_the_other(
    page: Page, tmp_path: Path, axe: Callable[[Page], None]
) -> None:
    (task,) = new_tasks("film-house", 1)
    (row,) = QueueManager.request_rollouts(task, agent="browser", model="m", limits={"max_steps": 9}).rollouts
    rollout_id, worker = str(row["id"]), Worker("filming")
    worker.claim()
    worker.record(rollout_id, turns=1, status="running")
    QueueManager.release(worker.id, worker.leases.values(), reason="the machine was needed", counts=True)
    worker.claim()
    video, logs = f"film/{rollout_id}/video.webm", f"film/{rollout_id}/logs.txt"
    StorageManager.upload_file("media", video, make_video(tmp_path, 9))
    StorageManager.upload_bytes("media", logs, f"web started\n{HOSTILE}\n".encode())
    files = {"video_path": video, "logs_path": logs, "result": "x" * 1_000_000}
    used = {"input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.05}
    worker.record(rollout_id, turns=5, status="running")
    worker.record(rollout_id, status="failed", step_count=5, **files, **used)

    page.goto(f"/rollouts/{rollout_id}")
    head = page.get_by_role("main")
    for fact in ("browser", "9 steps", "1,200 in, 34 out", "$0.05", "2 of 3", "filming"):
        expect(head).to_contain_text(fact)
    expect(page.get_by_text("3,000 of 1,000,000 characters shown")).to_be_visible()
    shown = page.locator("article[data-current]")
    page.get_by_role("article", name="Turn 2").get_by_role("link", name="Turn 2").click()
    page.wait_for_function(f"document.querySelector('video').currentTime === {2 * TURN_SECONDS}")
    expect(shown).to_have_attribute("aria-label", "Turn 2")
    page.evaluate("document.querySelector('video').play()")
    expect(shown).to_have_attribute("aria-label", "Turn 3")
    page.evaluate("document.querySelector('video').pause()")
    axe(page)
    assert fits_a_phone(page)
    page.get_by_role("region", name="Logs of the environment").get_by_text("Show").click()
    expect(page.get_by_text("⟨U+202E⟩42")).to_be_visible()

    page.get_by_role("link", name="Attempt 1").click()
    expect(page.get_by_role("note")).to_contain_text("set aside")
    expect(page.get_by_text("the machine was needed")).to_be_visible()
    page.get_by_role("note").get_by_role("link").click()
    expect(page.get_by_role("region", name="Earlier attempts")).to_be_visible()


def test_a_task_shows_how_agents_do_and_two_of_its_rollouts_side_by_side(page: Page) -> None:
    (task,) = new_tasks("score-house", 1, expected_answer="42")
    worker = Worker("scoring")
    for agent, statuses in {
        "chat": ("success", "failed", "failed", "failed"),
        "oracle": ("success", "success"),
    }.items():
        QueueManager.request_rollouts(task, agent=agent, model="m", attempts=len(statuses))
        for rollout_id, status in zip(worker.claim(len(statuses)), statuses, strict=True):
            worker.finish(rollout_id, status=status, step_count=0)

    page.goto(f"/tasks/{task}")
    results = page.get_by_role("table", name="By agent and model")
    # Of 4 rollouts, one solved: the chance that 2 of them have it is 1/2.
    expect(results.get_by_role("row", name=re.compile("^m chat"))).to_contain_text(re.compile("25%.*50%.*100%"))
    expect(page.get_by_role("img", name=re.compile("pass@k by agent and model.*oracle"))).to_be_visible()
    boxes = page.get_by_role("table", name="Newest rollouts").get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(5).check()
    page.get_by_role("link", name="Compare").click()
    expect(page).to_have_url(re.compile("/rollouts/.+/against/.+"))

    # An equal rollout that has ended may answer; only what it does not cover is run.
    page.goto(f"/tasks/{task}")
    page.get_by_role("button", name="New rollout").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="Agent").fill("oracle")
    dialog.get_by_role("combobox", name="Model").fill("m")
    dialog.get_by_label("Attempts").fill("3")
    dialog.get_by_role("switch", name="Use earlier results").check()
    dialog.get_by_role("button", name="Start 3 rollouts").click()
    expect(dialog.get_by_role("status")).to_contain_text("2 answered by earlier results")
    dialog.get_by_role("link", name="Watch the new ones").click()
    expect(page.get_by_text("It waits for a worker.")).to_be_visible()


def test_a_viewer_sees_the_queue_and_why_not_to_change_it(
    stack: Any, open_context: Callable[..., BrowserContext]
) -> None:
    (task,) = new_tasks("viewed-house", 1)
    QueueManager.request_rollouts(task)
    head, account = {"apikey": stack.secret_key}, {"email": "viewer@example.org", "password": "a-viewers-password"}
    user = httpx.post(f"{stack.url}/auth/v1/admin/users", headers=head, json=account | {"email_confirm": True}).json()
    member = {"user_id": user["id"], "role": "viewer"}
    httpx.post(f"{stack.url}/rest/v1/members", headers=head, json=member).raise_for_status()
    page = open_context(as_visitor=True).new_page()
    page.goto("/queue")
    expect(page.get_by_text("The queue is for members")).to_be_visible()
    session = httpx.post(f"{stack.url}/auth/v1/token?grant_type=password", headers=head, json=account).json()
    page.evaluate("session => localStorage.setItem('openmanus-rl', JSON.stringify(session))", session)

    page.goto(f"/tasks/{task}")
    asking = page.get_by_role("button", name="New rollout")
    expect(asking).to_have_attribute("aria-disabled", "true")
    asking.focus()
    expect(page.get_by_role("tooltip")).to_contain_text("You are a viewer here")
    asking.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto("/queue")
    expect(page.get_by_role("table", name="Waiting").get_by_role("button", name="Cancel")).to_have_attribute(
        "aria-disabled", "true"
    )
