"""Processes that the package starts run its own code, and nothing of the working directory."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import openmanus_rl
from openmanus_rl import _child

PACKAGE = Path(openmanus_rl.__file__).parent
_PLANT = "open('planted', 'a').write(__name__ + '\\n')\nraise SystemExit('planted code ran')\n"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A working directory with modules of the names that started processes import."""
    for name in ("psutil", "psycopg", "httpx", "json", "logging", "sitecustomize", "usercustomize", "typer", "deno"):
        (tmp_path / f"{name}.py").write_text(_PLANT)
    for package in ("openmanus_rl", "openmanus_rl/local", "openmanus_rl/delivery", "openmanus_rl/cli"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(_PLANT)
        (tmp_path / package / "__main__.py").write_text(_PLANT)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("openmanus_rl", ["--version"]), ("openmanus_rl.local", ["--help"]), ("openmanus_rl.delivery", ["empty"])],
)
def test_nothing_of_the_working_directory_is_run(
    planted: Path, monkeypatch: pytest.MonkeyPatch, module: str, arguments: list[str]
) -> None:
    (planted / "empty").mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep + "/nowhere")  # The empty entry is the working directory.
    done = subprocess.run(
        _child.command(module, *arguments),
        env=_child.environment(),
        cwd=planted,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert not (planted / "planted").exists(), done.stderr
    assert done.returncode == 0, done.stderr


def test_the_package_that_starts_a_process_is_the_one_that_runs(tmp_path: Path) -> None:
    """Another installation comes first on the import path; the copy that starts the process is the copy that runs."""
    copy = tmp_path / "copy" / "openmanus_rl"
    (copy / "told").mkdir(parents=True)
    (copy / "__init__.py").write_text("origin = __file__\n")
    (copy / "told" / "__init__.py").write_text("")
    (copy / "told" / "__main__.py").write_text("import openmanus_rl, sys\nprint(openmanus_rl.origin, sys.argv[1:])\n")
    (copy / "_child.py").write_text((PACKAGE / "_child.py").read_text())
    done = subprocess.run(
        [sys.executable, "-P", str(copy / "_child.py"), "openmanus_rl.told", "one"],
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(copy / "__init__.py"), "['one']"]


def test_paths_that_were_chosen_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "/one", ".", "two"]))
    assert _child.environment(MORE="x")["PYTHONPATH"] == os.pathsep.join(["/one", "two"])
    assert _child.environment(MORE="x")["MORE"] == "x"


def test_there_is_one_way_to_start_python() -> None:
    strays = [
        str(path)
        for path in PACKAGE.rglob("*.py")
        if path.name != "_child.py"
        and any(
            isinstance(node, ast.Attribute) and node.attr == "executable" and getattr(node.value, "id", "") == "sys"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert strays == []
