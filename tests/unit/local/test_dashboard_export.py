"""The dashboard's files for a web server of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from openmanus_rl.cli import dashboard as command
from openmanus_rl.errors import ConflictError, SettingsError, StackError
from openmanus_rl.local.assets import Assets
from openmanus_rl.local.dashboard_export import export_dashboard

CONFIG = {"supabaseUrl": "https://abc.supabase.co", "publishableKey": "sb_publishable_x", "embedded": False}


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A built dashboard."""
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<head><base href="/" /><script src="assets/app-1.js"></script></head>')
    (folder / "assets" / "app-1.js").write_text("export {}")
    return folder


def export(built: Path, target: Path, *, base: str = "/", force: bool = False) -> None:
    export_dashboard(built, target, config=CONFIG, base=base, force=force)


def test_an_export_holds_the_files_the_project_and_a_page_for_every_path(built: Path, tmp_path: Path) -> None:
    site = tmp_path / "a" / "site"
    export(built, site, base="/open&manus/")
    assert json.loads((site / "config.json").read_text()) == CONFIG
    assert (site / "assets" / "app-1.js").exists()
    page = (site / "index.html").read_text()
    assert '<base href="/open&amp;manus/">' in page
    assert (site / "404.html").read_text() == page


def test_an_earlier_export_is_replaced_without_its_old_assets(built: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    export(built, site)
    (site / "CNAME").write_text("runs.example.org")
    (built / "assets" / "app-1.js").rename(built / "assets" / "app-2.js")
    export(built, site)
    assert [path.name for path in (site / "assets").iterdir()] == ["app-2.js"]
    assert (site / "CNAME").exists(), "what the host itself needs stays"


def test_a_folder_of_something_else_is_left_alone_unless_forced(built: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "assets").mkdir(parents=True)
    (site / "assets" / "mine.txt").write_text("mine")
    (site / "config.json").write_text('{"of": "another program"}')
    with pytest.raises(ConflictError, match="no exported dashboard"):
        export(built, site)
    assert not (site / "index.html").exists()
    export(built, site, force=True)
    assert (site / "index.html").exists()
    assert (site / "assets" / "mine.txt").read_text() == "mine"


def test_a_page_that_cannot_be_moved_is_refused(built: Path, tmp_path: Path) -> None:
    (built / "index.html").write_text("<head></head>")
    with pytest.raises(StackError, match="can't be moved"):
        export(built, tmp_path / "site", base="/sub/")
    export(built, tmp_path / "site")


@pytest.fixture
def run(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command with a built dashboard and the settings of a hosted project."""
    assets = Assets(gateway=tmp_path, migrations=tmp_path, dashboard=built, bundled=True)
    monkeypatch.setattr(command, "find_assets", lambda: assets)
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(command.dashboard)
    settings = {
        "SUPABASE_URL": "https://abcdefghijklmnopqrst.supabase.co",
        "SUPABASE_ANON_KEY": "sb_publishable_abcdefghijklmnopqrstuv",
        "SUPABASE_SERVICE_ROLE_KEY": "sb_secret_placeholder",
    }

    def call(*arguments: str, **changed: str) -> Any:
        return CliRunner().invoke(app, ["--export", "site", *arguments], env=settings | changed)

    return call


def test_the_command_writes_the_projects_address_and_no_secret(run: Any, tmp_path: Path) -> None:
    done = run("--base", "/runs/")
    assert done.exit_code == 0, done.output
    config = json.loads((tmp_path / "site" / "config.json").read_text())
    assert config["supabaseUrl"] == "https://abcdefghijklmnopqrst.supabase.co"
    assert config["embedded"] is False
    assert config.keys() == {"supabaseUrl", "publishableKey", "embedded", "version"}
    for path in (tmp_path / "site").rglob("*.*"):
        assert "sb_secret_" not in path.read_text()


def test_a_secret_key_is_never_written(run: Any, tmp_path: Path) -> None:
    done = run(SUPABASE_ANON_KEY="sb_secret_placeholder")
    assert isinstance(done.exception, SettingsError)
    assert not (tmp_path / "site").exists()


def test_a_missing_publishable_key_is_named(run: Any, tmp_path: Path) -> None:
    done = run(SUPABASE_ANON_KEY="")
    assert isinstance(done.exception, SettingsError)
    assert "SUPABASE_ANON_KEY" in str(done.exception)
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("base", ["runs/", "/runs", ""], ids=["no-first", "no-last", "empty"])
def test_a_base_without_its_slashes_is_refused(run: Any, base: str) -> None:
    assert run("--base", base).exit_code == 2
