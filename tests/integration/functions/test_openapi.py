"""The OpenAPI document: valid, up to date, served, and true of its own examples."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import deno  # type: ignore[import-untyped]
import httpx
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

FUNCTIONS = Path(__file__).resolve().parents[3] / "supabase" / "functions"
DOCUMENT: dict[str, Any] = json.loads((FUNCTIONS / "openapi.json").read_text())


def test_the_document_is_what_the_schemas_say() -> None:
    command = [deno.find_deno_bin(), "run", "--no-config", "--no-lock", "--allow-read", "--allow-env"]
    checked = subprocess.run(
        [*command, str(FUNCTIONS / "_openapi" / "generate.ts"), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_function_is_described() -> None:
    folders = {folder.name for folder in FUNCTIONS.iterdir() if (folder / "index.ts").exists()}
    assert {path.lstrip("/") for path in DOCUMENT["paths"]} == folders


def test_the_examples_are_valid() -> None:
    def check(media: dict[str, Any]) -> None:
        for content in media.values():
            Draft202012Validator(content["schema"]).validate(content["example"])

    for path in DOCUMENT["paths"].values():
        for operation in path.values():
            check(operation["responses"]["200"]["content"])
            if "requestBody" in operation:
                check(operation["requestBody"]["content"])


def test_the_document_is_served_to_anyone(http: httpx.Client) -> None:
    response = http.get("/functions/v1/openapi")
    assert response.status_code == 200
    assert response.json() == DOCUMENT
