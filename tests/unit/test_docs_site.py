"""The documentation builds as a site, reads as plain files, and leaves out no command, option or setting."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import openmanus_rl.recorder
import openmanus_rl.utils.supabase_db
from openmanus_rl.cli.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FILES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / folder / "README.md" for folder in ("benchmarks", "supabase/local")),
    *sorted(DOCS.glob("*.md")),
]
_LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
# What a page loads by itself; links that a reader may follow are not in it.
_LOADED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


def build(checkout: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # Not --quiet: what is not told is not counted, and --strict then passes whatever is wrong.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=env, cwd=checkout, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("docs", "scripts/lib"):
        shutil.copytree(ROOT / name, checkout / name)
    for name in (
        "mkdocs.yml",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "benchmarks",
        "supabase",
        "openmanus_rl",
    ):
        (checkout / name).symlink_to(ROOT / name)
    with (checkout / "docs" / "backup.md").open("a") as page:
        page.write("\n[a page](nowhere.md), [a heading](resume.md#nothing), [a file](../LICENSE)\n")

    done = build(checkout, tmp_path / "site")

    assert done.returncode != 0
    assert [text for text in ("nowhere.md", "resume.md#nothing", "../LICENSE") if text not in done.stderr] == []
    assert "3 warnings" in done.stdout + done.stderr


def test_the_site_builds_with_every_page(site: Path) -> None:
    pages = {path.stem for path in site.glob("*.html")}
    assert {path.stem for path in DOCS.glob("*.md")} <= pages
    assert {"index", "changelog", "contributing", "benchmarks", "gateway"} <= pages
    assert "Start a run and return it" in (site / "api.html").read_text()


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    assert {found for page in site.rglob("*.html") for found in _LOADED.findall(page.read_text())} == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_between_files_lead_somewhere_on_a_git_host(file: Path) -> None:
    targets = _LINK.findall(file.read_text())
    assert [target for target in targets if not (file.parent / target).exists()] == []


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for part in command.list_commands(None):
        yield from commands(command.get_command(None, part), f"{name} {part}")


def test_every_command_and_option_is_documented() -> None:
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", (DOCS / "cli.md").read_text(), re.DOTALL | re.MULTILINE))
    missing = [
        f"{name} {option}"
        for name, command in commands(typer.main.get_command(app), "openmanus-rl")
        for param in command.params
        for option in ([*param.opts] if param.param_type_name == "option" else [])
        if not re.search(rf"`{option}[` ]", sections.get(name, ""))
    ]
    assert missing == []


def test_the_page_of_commands_is_what_they_say_of_themselves(tmp_path: Path) -> None:
    written = tmp_path / "cli.md"
    subprocess.run([sys.executable, ROOT / "scripts" / "generate_cli_page.py", written], check=True)
    assert written.read_text() == (DOCS / "cli.md").read_text(), "run scripts/generate_cli_page.py and commit it"


def test_every_setting_is_documented() -> None:
    read = "".join(
        (ROOT / "openmanus_rl" / name).read_text() for name in ("settings.py", "_object_storage.py", "local/upgrade.py")
    )
    names = set(re.findall(r"\b(?:OPENMANUS_RL|SUPABASE|POSTGRES|AWS)_[A-Z_]+[A-Z]\b|\bDATABASE_URL\b", read))
    page = (DOCS / "settings.md").read_text()
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert "OPENMANUS_RL_GRACE_SECONDS" in names


def test_every_public_class_is_in_the_reference() -> None:
    page = (DOCS / "api.md").read_text()
    names = {f"openmanus_rl.utils.supabase_db.{name}" for name in openmanus_rl.utils.supabase_db.__all__}
    names |= {
        f"openmanus_rl.recorder.{name}"
        for name in openmanus_rl.recorder.__all__
        if name not in ("init", "join", "WholeRollout")  # init has a heading of its own, the others are internal
    }
    assert {name for name in names if f"::: {name}\n" not in page} == set()
