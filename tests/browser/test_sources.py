"""The dashboard's sources are typed, linted and formatted, and take nothing from agents as HTML."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import deno

DASHBOARD = Path(__file__).parents[2] / "dashboard"


def run_deno(*arguments: str) -> None:
    command = [deno.find_deno_bin(), *arguments]
    env = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=DASHBOARD, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_sources_are_typed() -> None:
    run_deno("task", "check")


def test_the_sources_are_linted_and_formatted() -> None:
    run_deno("lint", "--quiet", "src")
    run_deno("fmt", "--quiet", "--check")


def test_the_lock_file_is_complete() -> None:
    run_deno("install", "--frozen", "--quiet")


def test_nothing_is_ever_made_into_html() -> None:
    for source in DASHBOARD.glob("src/**/*.ts*"):
        text = source.read_text()
        for way in ("dangerouslySetInnerHTML", "innerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in text, f"{source.name} uses {way}"
