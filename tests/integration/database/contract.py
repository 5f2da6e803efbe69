"""What the dashboard says of the database's answers, and which of it real answers have shown."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import deno
from jsonschema import Draft202012Validator, FormatChecker

DASHBOARD = Path(__file__).parents[3] / "dashboard"

Schema = dict[str, Any]


@cache
def read_contract() -> dict[str, dict[str, Schema]]:
    """Return the schemas of dashboard/src/api/contract.ts: of results, filters and views, by name."""
    subprocess.run([deno.find_deno_bin(), "install", "--frozen", "--quiet"], cwd=DASHBOARD, check=True)
    script = ["run", "--frozen", "--allow-read", "--allow-env", "scripts/print_contract.ts"]
    printed = subprocess.run([deno.find_deno_bin(), *script], cwd=DASHBOARD, capture_output=True, text=True, check=True)
    return dict(json.loads(printed.stdout))


def problems(schema: Schema, value: Any) -> list[str]:
    """Return where a value is not what the schema says."""
    found = Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(value)
    return [f"{problem.json_path}: {problem.message[:200]}" for problem in found]


def claims(schema: Schema, path: str = "") -> Iterator[str]:
    """Yield what a schema says is possible, each by its place: every alternative, optional field, list and object."""
    if "anyOf" in schema:
        for alternative in schema["anyOf"]:
            yield from claims(alternative, path)
        return
    if "properties" in schema:
        for name, field in schema["properties"].items():
            if name not in schema.get("required", []):
                yield f"{path}.{name}: left out"
            yield from claims(field, f"{path}.{name}")
    elif "items" in schema:
        yield from claims(schema["items"], f"{path}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from claims(schema["additionalProperties"], f"{path}.*")
    else:
        yield f"{path}: {_kind(schema)}"


def shown(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Yield which claims of a schema a value bears out."""
    if "anyOf" in schema:
        for alternative in schema["anyOf"]:
            if not problems(alternative, value):
                yield from shown(alternative, value, path)
        return
    if "properties" in schema:
        for name, field in schema["properties"].items():
            if name in value:
                yield from shown(field, value[name], f"{path}.{name}")
            elif name not in schema.get("required", []):
                yield f"{path}.{name}: left out"
    elif "items" in schema:
        for item in value:
            yield from shown(schema["items"], item, f"{path}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        for item in value.values():
            yield from shown(schema["additionalProperties"], item, f"{path}.*")
    else:
        yield f"{path}: {_kind(schema)}"


def _kind(schema: Schema) -> str:
    return str(schema.get("type", "anything")) + (" from a list" if "enum" in schema else "")
