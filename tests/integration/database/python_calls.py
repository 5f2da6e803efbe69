"""Which functions of the database the Python package calls, and with which arguments, read from its sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "openmanus_rl"


@dataclass(frozen=True)
class PythonCall:
    """A call such as `gateway.rpc("heartbeat", {"run_id": …})`."""

    place: str
    function: str
    arguments: frozenset[str]


def python_calls() -> Iterator[PythonCall]:
    """Yield every call; one whose arguments are not written out beside it is an error."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for scope in ast.walk(ast.parse(path.read_text())):
            if isinstance(scope, ast.FunctionDef):
                yield from _calls_in(scope, path)


def _calls_in(scope: ast.FunctionDef, path: Path) -> Iterator[PythonCall]:
    for node in ast.walk(scope):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rpc"):
            continue
        function, *rest = node.args
        if not isinstance(function, ast.Constant):
            continue  # The gateway's own, which hands on what it was given.
        place = f"{path.relative_to(PACKAGE.parent)}:{node.lineno}"
        yield PythonCall(place, str(function.value), _keys(rest[0], scope, place) if rest else frozenset())


def _keys(given: ast.expr, scope: ast.FunctionDef, place: str) -> frozenset[str]:
    if isinstance(given, ast.Name):
        for node in ast.walk(scope):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            value = getattr(node, "value", None)
            if any(isinstance(each, ast.Name) and each.id == given.id for each in targets) and value is not None:
                return _keys(value, scope, place)
    assert isinstance(given, ast.Dict), f"{place}: write the arguments out, so that they can be checked"
    return frozenset(str(key.value) for key in given.keys if isinstance(key, ast.Constant))
