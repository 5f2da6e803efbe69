"""The pages of tasks: how agents do on them, and bringing in a tasks.json."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from openmanus_rl.utils.supabase_db import TaskManager

from .conftest import recorded

HOSTILE = "count <img src=x onerror=\"document.title='taken over'\"> the \u202ered balls"


@pytest.fixture
def tasks_json(tmp_path: Path) -> Callable[[Any], Path]:
    """Return a function that writes a tasks.json."""

    def write(content: Any) -> Path:
        path = tmp_path / "tasks.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def choose(page: Page, path: Path, *, environment: str) -> Any:
    page.goto("/tasks")
    page.get_by_role("button", name="Upload tasks").click()
    dialog = page.get_by_role("dialog", name="Upload tasks")
    dialog.get_by_role("combobox", name="Environment").fill(environment)
    with page.expect_file_chooser() as chooser:
        dialog.get_by_role("button", name="File").click()
    chooser.value.set_files(path)
    return dialog


@pytest.mark.usefixtures("settings")
def test_a_file_is_previewed_uploaded_and_updated_by_a_second_upload(
    page: Page, tasks_json: Callable[[Any], Path]
) -> None:
    entries = [{"id": "a", "task": "find the red ball", "answer": "kitchen"}, {"id": 2, "task": HOSTILE, "answer": 3}]
    dialog = choose(page, tasks_json(entries), environment="upload-house")
    expect(dialog.get_by_role("table", name="Preview")).to_contain_text("find the red ball")
    expect(dialog.get_by_text("2 new, 0 already there")).to_be_visible()
    dialog.get_by_role("button", name="Upload 2 tasks").click()
    expect(dialog.get_by_text("2 written")).to_be_visible()
    page.keyboard.press("Escape")

    page.goto("/tasks?environment=upload-house")
    expect(page.get_by_role("link", name="find the red ball")).to_be_visible()
    expect(page.get_by_text("count <img src=x")).to_be_visible()
    assert "taken over" not in page.title()
    # By the same ids as Python's import: that would find these tasks again.
    assert TaskManager.get_by_external_id("2", environment="upload-house")["expected_answer"] == "3"

    entries[0]["answer"] = "hall"
    dialog = choose(page, tasks_json(entries), environment="upload-house")
    expect(dialog.get_by_text("0 new, 2 already there")).to_be_visible()
    dialog.get_by_role("button", name="Upload 2 tasks").click()
    expect(dialog.get_by_text("2 written")).to_be_visible()
    assert TaskManager.get_by_external_id("a", environment="upload-house")["expected_answer"] == "hall"


def test_each_bad_entry_is_named_with_its_field_and_the_good_ones_go_in(
    page: Page, tasks_json: Callable[[Any], Path]
) -> None:
    entries = [
        "x",
        {"task": "a task without an id"},
        {"id": "e"},
        {"id": "f", "task": " "},
        {"id": "../../x", "task": "t"},
        {"id": "ok", "task": "t"},
        {"id": "ok", "task": "u"},
    ]
    dialog = choose(page, tasks_json("\n".join(json.dumps(entry) for entry in entries[1:])), environment="upload-lines")
    dialog.get_by_role("button", name="Upload 6 tasks").click()
    expect(dialog.get_by_role("list", name="Problems")).to_contain_text("Entry 1: task is required")

    dialog = choose(page, tasks_json(entries), environment="upload-bad")
    dialog.get_by_role("button", name="Upload 7 tasks").click()
    problems = dialog.get_by_role("list", name="Problems")
    for line in (
        "Entry 0: an object is expected",
        "Entry 2: task is required",
        "Entry 3: task must not be empty",
        "Entry 4: id reads as a path to another folder",
        "Entry 6: id entry 5 has the same id",
    ):
        expect(problems).to_contain_text(line)
    dialog.get_by_role("button", name="Upload the other 2 tasks").click()
    expect(dialog.get_by_text("2 written")).to_be_visible()
    page.goto("/tasks?environment=upload-bad")
    expect(page.get_by_role("link", name="a task without an id")).to_be_visible()


@pytest.mark.parametrize(
    ("content", "words"),
    [("[{", "not JSON"), ("{}", "A list is expected"), ("[]", "list is empty")],
    ids=["torn", "object", "empty"],
)
def test_a_file_that_is_no_list_says_what_is_expected(
    page: Page, tasks_json: Callable[[Any], Path], content: str, words: str
) -> None:
    dialog = choose(page, tasks_json(content), environment="")
    expect(dialog.get_by_role("alert")).to_contain_text(words)
    expect(dialog.get_by_role("button", name="Upload", exact=True)).to_be_disabled()


def test_a_task_shows_what_is_asked_how_it_is_checked_and_how_it_goes(
    page: Page, recorder: Callable[..., Any], axe: Callable[[Page], None]
) -> None:
    TaskManager.import_tasks(
        [
            {
                "external_id": "1",
                "description": "open the vault",
                "expected_answer": "1234",
                "validators": [{"kind": "equals", "spec": {"expected": "1234"}}],
            }
        ],
        environment="vault",
    )
    task = TaskManager.get_by_external_id("1", environment="vault")
    with recorded(recorder(name="vault run", environment="vault")) as run:
        for status in ("success", "failed", "success", "success"):
            with run.rollout(task_id=task["id"]) as rollout:
                rollout.complete(status=status, total_reward=1.0 if status == "success" else 0.0)

    page.goto("/tasks?search=vault")
    expect(page.get_by_role("row", name=re.compile("open the vault"))).to_contain_text("75%")
    axe(page)
    page.get_by_role("link", name="open the vault").click()
    expect(page.get_by_role("region", name="How it is checked")).to_contain_text("equals")
    expect(page.get_by_role("region", name="What is asked")).to_contain_text("1234")
    expect(page.get_by_role("table", name="By run")).to_contain_text("vault run")
    expect(page.get_by_role("table", name="Newest rollouts").get_by_role("row")).to_have_count(5)
    axe(page)


def test_who_is_not_signed_in_is_told_that_tasks_are_for_members(visitor: Page) -> None:
    visitor.goto("/tasks")
    expect(visitor.get_by_text("Tasks are for members")).to_be_visible()
    expect(visitor.get_by_role("button", name="Upload tasks")).to_have_count(0)
