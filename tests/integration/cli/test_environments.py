"""Environments on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from openmanus_rl.utils.supabase_db import EnvironmentManager

from ..conftest import Command


@pytest.fixture
def name() -> str:
    return f"maze-{uuid4()}"


def saved(cli: Command, name: str, folder: Path, *rows: str) -> None:
    file = folder / "maze.json"
    file.write_text(json.dumps({"kind": "grid", "map": rows}))
    assert cli("environments", "save", name, str(file)).code == 0


def test_versions_are_listed_and_shown(cli: Command, name: str, tmp_path: Path) -> None:
    saved(cli, name, tmp_path, "A..G")
    saved(cli, name, tmp_path, "A.G")

    listed = cli("environments", "versions", name, "--json").json["versions"]
    assert [row["version"] for row in listed] == [2, 1]
    assert "A..G" in cli("environments", "versions", name).out
    assert "A..G" in cli("environments", "show", name, "--version", "1").out
    assert "A..G" not in cli("environments", "show", name).out
    recent = cli("environments", "list", "--recent", "--limit", "1", "--json").json["environments"]
    assert [row["name"] for row in recent] == [name]


def test_a_wrong_spec_names_its_field(cli: Command, name: str, tmp_path: Path) -> None:
    (tmp_path / "maze.json").write_text(json.dumps({"kind": "grid", "map": ["A.G", "A"]}))

    done = cli("environments", "save", name, str(tmp_path / "maze.json"))

    assert done.code == 1
    assert "map.1" in done.message
    assert EnvironmentManager.find_environment(name) is None


def test_a_picture_is_written_and_kept(cli: Command, name: str, tmp_path: Path) -> None:
    saved(cli, name, tmp_path, "A..G")
    saved(cli, name, tmp_path, "A.G")

    cli("environments", "preview", name, "--version", "1", "--out", str(tmp_path / "maze.png"), "--upload")

    assert (tmp_path / "maze.png").read_bytes().startswith(b"\x89PNG")
    assert EnvironmentManager.get_version(name, 1)["preview"] is not None
    assert EnvironmentManager.get_version(name, 2)["preview"] is None


def test_why_there_is_no_picture_is_kept_too(cli: Command, name: str) -> None:
    EnvironmentManager.save_environment(name, kind="gymnasium", spec={"id": "Nothing-v0"})

    done = cli("environments", "preview", name, "--upload")

    assert "Nothing-v0 could not be made" in done.message
    assert "Nothing-v0 could not be made" in str(EnvironmentManager.get_version(name, 1)["preview_error"])


def test_a_draft_is_shown_as_one_until_it_is_confirmed(cli: Command, name: str) -> None:
    EnvironmentManager.save_environment(
        name, kind="grid", spec={"map": ["AG"]}, is_draft=True, source="https://a.example/"
    )

    assert f"environments confirm {name}" in " ".join(cli("environments", "show", name).out.split())
    cli("environments", "confirm", name)
    assert "confirm" not in cli("environments", "show", name).out
