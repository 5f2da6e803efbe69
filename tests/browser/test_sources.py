"""The dashboard's sources are typed, linted and formatted, do what their own tests say, and take nothing as HTML."""

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


def test_the_units_behave() -> None:
    run_deno("task", "test")


def test_the_sources_are_typed() -> None:
    run_deno("task", "check")
    run_deno("check", "--quiet", "scripts")


def test_the_sources_are_linted_and_formatted() -> None:
    run_deno("lint", "--quiet", "src", "scripts")
    run_deno("fmt", "--quiet", "--check")


def test_the_lock_file_is_complete() -> None:
    run_deno("install", "--frozen", "--quiet")


def test_functions_are_called_by_the_typed_helper_alone() -> None:
    for source in DASHBOARD.glob("src/**/*.ts*"):
        assert ".rpc(" not in source.read_text() or source.name == "supabase.ts", f"{source.name} calls on its own"


def test_what_only_tests_use_is_not_in_the_build() -> None:
    built = [path.read_text() for path in DASHBOARD.glob("dist/assets/*.js")]
    assert built
    # The schemas of the contract bring valibot with them, whose objects have this name.
    assert not any("strict_object" in text or "FakeServer" in text for text in built)


def test_nothing_is_ever_made_into_html() -> None:
    for source in DASHBOARD.glob("src/**/*.ts*"):
        text = source.read_text()
        for way in ("dangerouslySetInnerHTML", "innerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in text, f"{source.name} uses {way}"
