"""Imports point one way: settings, errors, records <- gateway <- managers <- everything else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "openmanus_rl"
BASE = {"settings", "errors", "_setting_checks", "_child", "_launchers", "_private"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_child": set(),
    "_private": set(),
    "_setting_checks": {"errors"},
    "_launchers": set(),
    "settings": BASE,
    "records": {"errors", "records"},
    "gateway": BASE | {"records", "gateway"},
    "managers": BASE | {"records", "gateway", "managers"},
    "recorder": BASE | {"records", "gateway", "managers", "recorder"},
    "importing": BASE | {"records", "gateway", "managers", "recorder", "importing"},
    "integrations": BASE | {"records", "gateway", "managers", "recorder", "integrations"},
    "export": BASE | {"records", "gateway", "managers", "export"},
}


def imported_parts(path: Path) -> set[str]:
    """Return the parts of the package that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "openmanus_rl":
            names |= {f"openmanus_rl.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.split(".")[1] for name in names if name.startswith("openmanus_rl.")}


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_imports_only_what_lies_below_it(layer: str) -> None:
    files = [PACKAGE / f"{layer}.py"] if (PACKAGE / f"{layer}.py").exists() else list((PACKAGE / layer).rglob("*.py"))

    assert files
    strays = {
        str(path): parts - MAY_IMPORT[layer] for path in files if (parts := imported_parts(path)) - MAY_IMPORT[layer]
    }
    assert strays == {}


def test_utils_only_re_exports() -> None:
    for path in (PACKAGE / "utils").glob("*.py"):
        kinds = {type(node) for node in ast.parse(path.read_text()).body}
        assert kinds <= {ast.Expr, ast.ImportFrom, ast.Assign}, path
