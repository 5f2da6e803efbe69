"""The OpenAPI document: valid, up to date, served, and true of its own examples."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import deno  # type: ignore[import-untyped]
import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

FUNCTIONS = Path(__file__).resolve().parents[3] / "supabase" / "functions"
DOCUMENT: dict[str, Any] = json.loads((FUNCTIONS / "openapi.json").read_text())


def generate(functions: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the generator of a `functions` folder."""
    command = [deno.find_deno_bin(), "run", "--no-config", "--no-lock", "--allow-read", "--allow-write", "--allow-env"]
    script = str(functions / "_openapi" / "generate.ts")
    return subprocess.run([*command, script, *options], capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the functions, with what is generated from them, to change."""
    shutil.copytree(FUNCTIONS, tmp_path / "functions")
    (tmp_path / "local").mkdir()
    for name in ("config.toml", "local/functions.ts"):
        shutil.copy(FUNCTIONS.parent / name, tmp_path / name)
    return tmp_path / "functions"


def test_the_document_and_the_gateways_list_are_what_the_functions_say() -> None:
    checked = generate(FUNCTIONS, "--check")
    assert checked.returncode == 0, checked.stderr


def test_a_function_is_its_folder_and_its_entry_in_the_configuration(copy: Path) -> None:
    shutil.copytree(copy / "metrics", copy / "more-metrics")
    missing = generate(copy, "--check")
    assert missing.returncode != 0
    assert "config.toml has no [functions.more-metrics]" in missing.stderr

    config = copy.parent / "config.toml"
    config.write_text(config.read_text() + "\n[functions.more-metrics]\nverify_jwt = false\n")
    assert "openapi.json is stale" in generate(copy, "--check").stderr
    written = generate(copy)
    assert written.returncode == 0, written.stderr
    assert generate(copy, "--check").returncode == 0
    assert "/more-metrics" in json.loads((copy / "openapi.json").read_text())["paths"]
    assert '"more-metrics": moreMetrics,' in (copy.parent / "local" / "functions.ts").read_text()


def test_an_entry_without_its_folder_is_told(copy: Path) -> None:
    shutil.rmtree(copy / "metrics")
    checked = generate(copy, "--check")
    assert checked.returncode != 0
    assert "functions/metrics is not there" in checked.stderr


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_function_is_described() -> None:
    folders = {folder.name for folder in FUNCTIONS.iterdir() if (folder / "index.ts").exists()}
    assert {path.split("/")[1] for path in DOCUMENT["paths"]} == folders


def test_the_examples_are_valid() -> None:
    def check(media: dict[str, Any]) -> None:
        for content in media.values():
            Draft202012Validator(content["schema"]).validate(content["example"])

    for path in DOCUMENT["paths"].values():
        for operation in path.values():
            check(operation["responses"]["200"]["content"])
            check(operation["responses"].get("202", {}).get("content", {}))
            if "requestBody" in operation:
                check(operation["requestBody"]["content"])


def test_the_document_is_served_to_anyone(http: httpx.Client) -> None:
    response = http.get("/functions/v1/openapi")
    assert response.status_code == 200
    assert response.json() == DOCUMENT
