"""Imports point one way, in every package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "openmanus_rl"
BASE = {"settings", "errors", "_object_storage", "_setting_checks", "_child", "_launchers", "_private", "__version__"}
# From the bottom up: each may import what stands in its own line.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_child": set(),
    "_private": set(),
    "_launchers": set(),
    "_object_storage": {"errors"},
    "_setting_checks": {"errors"},
    "settings": BASE,
    "records": {"errors", "records"},
    "environments": {"errors", "environments"},
    "transport": BASE | {"records", "transport"},
    "local": BASE | {"records", "transport", "local"},
    "connections": BASE | {"transport", "local"},
    "spool": BASE | {"records", "spool"},
    # local, transport: the keys of the stack of this machine, and whether other machines can reach it.
    "skypilot": BASE | {"transport", "local", "skypilot"},
}
_LOWER = BASE | {"records", "transport", "local", "connections"}
MAY_IMPORT |= {
    "managers": _LOWER | {"environments", "managers"},
    "media": BASE | {"records", "transport", "managers", "media"},
    "delivery": _LOWER | {"managers", "media", "spool", "delivery"},
    "recorder": _LOWER | {"media", "spool", "delivery", "recorder"},
    "export": _LOWER | {"managers", "export"},
    # export: it writes Parquet.
    "archiving": _LOWER | {"managers", "export", "archiving"},
    "importing": _LOWER | {"managers", "spool", "delivery", "recorder", "importing"},
    "integrations": BASE | {"records", "managers", "spool", "recorder", "integrations"},
    "sandboxes": BASE | {"records", "environments", "sandboxes"},
    # transport: SQL validators query the environment's own Postgres.
    "verification": BASE | {"records", "transport", "sandboxes", "verification"},
    # transport for how retries are paced; the agents' own HTTP is to model servers, not to Supabase.
    "agents": BASE | {"records", "transport", "sandboxes", "agents"},
    # sandboxes, verification: specs of environments and validators are checked when tasks are read.
    "tasks": _LOWER | {"managers", "sandboxes", "verification", "tasks"},
    "workers": _LOWER
    | {"managers", "media", "spool", "delivery", "recorder", "sandboxes", "verification", "agents", "tasks", "workers"}
    | {"skypilot"},
    # tasks: its archives hold code too. delivery, spool: what an ended process left is waited for.
    "training": _LOWER
    | {"managers", "media", "spool", "delivery", "recorder", "integrations", "environments", "tasks", "training"},
    "jobs": _LOWER | {"managers", "jobs", "skypilot", "environments"},
    "demo": _LOWER | {"managers", "recorder", "workers", "demo", "utils"},
    "utils": {"connections", "managers"},
    "cli": {path.stem for path in PACKAGE.iterdir()} - {"__main__", "utils", "integrations"} | BASE,
    "__main__": {"cli"},
    "__init__": {"recorder"},
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


def test_every_package_has_its_place() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts == set(MAY_IMPORT)


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
