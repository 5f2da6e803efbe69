"""The snippets of the README and of docs/ run as they stand, and the data model's page is that of the database."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_SNIPPET = re.compile(r"^(?:<!-- not run: (.+?) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Snippet(NamedTuple):
    """A fenced block of a page."""

    page: str
    not_run: str | None
    language: str
    code: str


SNIPPETS = [Snippet(page.name, *found) for page in PAGES for found in _SNIPPET.findall(page.read_text())]


def shown(language: str, *, run: bool = True) -> list[Snippet]:
    return [one for one in SNIPPETS if one.language == language and bool(one.not_run) is not run]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the files that the snippets name."""
    for name in ("path/to/checkpoint.pt", "data/alfworld/train.json", "logs/training.log"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"a": 1}\n')
    (tmp_path / "screenshot.png").write_bytes(b"\x89PNG\r\n\x1a\n and so on")
    return tmp_path


def run(command: list[str], *, stack: Any, cwd: Path) -> str:
    # The stack's own home, not its settings: a newcomer has set nothing.
    env = {name: value for name, value in stack.env.items() if not name.startswith(("SUPABASE_", "DATABASE_URL"))}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_snippet_is_of_a_kind_that_is_run_or_shown() -> None:
    # console: the two commands, which CI runs; text: pictures, and the examples of `--help`.
    assert {one.language for one in SNIPPETS} == {"python", "bash", "console", "text", "json", "sql"}
    assert "".join(one.code for one in shown("console")) == "scripts/start\nscripts/test\n"
    for one in shown("json"):
        json.loads(one.code)


def test_the_snippets_that_are_not_run_are_few_and_name_what_exists() -> None:
    assert [(one.page, one.language) for one in SNIPPETS if one.not_run] == [
        ("README.md", "bash"),
        ("README.md", "bash"),
        ("any-postgres.md", "bash"),
        ("deploying.md", "bash"),
        ("deploying.md", "bash"),
        ("jobs.md", "bash"),
        ("recording.md", "python"),
        ("server.md", "bash"),
        ("server.md", "bash"),
        ("settings.md", "bash"),
        ("skypilot.md", "bash"),
        ("team.md", "bash"),
        ("team.md", "bash"),
        ("team.md", "bash"),
        ("team.md", "bash"),
        ("trainers.md", "python"),
        ("trainers.md", "python"),
        ("trainers.md", "python"),
        ("training.md", "bash"),
        ("training.md", "python"),
        ("workers.md", "bash"),
        ("workers.md", "bash"),
    ]
    for one in shown("python", run=False):
        for node in ast.walk(ast.parse(one.code)):
            if isinstance(node, ast.ImportFrom) and node.module:
                # Read, not imported: that would take longer than all the snippets that run.
                module = (ROOT / node.module.replace(".", "/")).with_suffix(".py").read_text()
                exported = re.search(r"__all__ = \[(.*?)\]", module, re.DOTALL)
                assert exported
                assert [alias.name for alias in node.names if f'"{alias.name}"' not in exported[1]] == []


PRINTED = {
    "README.md": ["Stats(queued=0"],
    "recording.md": ["Stats(queued=0", "did you mean 'success'"],
    "resume.md": ["[1]\n3\n5\n"],
    "tasks.md": ["entry 2: external_id: ", "fail answer.total: 12.5 is expected, not 12.6", "'to': 'pass', 'count': 1"],
    "managers.md": [
        "Find the red ball 10.5",
        "status must be one of pending, provisioning, running, success",
        "cannot go from success to running",
    ],
}


@pytest.mark.parametrize("page", dict.fromkeys(one.page for one in shown("python")))
def test_the_python_snippets_of_a_page_run_one_after_the_other(stack: Any, project: Path, page: str) -> None:
    script = project / "snippets.py"
    script.write_text("\n".join(one.code for one in shown("python") if one.page == page))
    printed = run([sys.executable, str(script)], stack=stack, cwd=project)
    assert [text for text in PRINTED.get(page, []) if text not in printed] == [], printed


@pytest.mark.parametrize("page", dict.fromkeys(one.page for one in shown("bash")))
def test_the_shell_snippets_of_a_page_run(stack: Any, project: Path, page: str) -> None:
    for one in shown("bash"):
        if one.page == page:
            run(["bash", "-euo", "pipefail", "-c", one.code], stack=stack, cwd=project)


def test_the_data_models_page_and_picture_are_those_of_the_database(stack: Any, tmp_path: Path) -> None:
    script = ROOT / "scripts" / "generate_data_model.py"
    subprocess.run([sys.executable, script, tmp_path], env=stack.env, check=True)

    written = ("docs/data-model.md", "docs/images/data-model.svg")
    stale = [name for name in written if (tmp_path / name).read_text() != (ROOT / name).read_text()]
    assert stale == [], "run scripts/generate_data_model.py and commit what it writes"
