"""The TypeScript's own tests and checks, run by the Deno that runs the gateway."""

from __future__ import annotations

import os
import subprocess
import tomllib

from .process import GATEWAY, ROOT, Gateway, deno_binary

LOCAL = GATEWAY.parent
FUNCTIONS = ROOT / "supabase" / "functions"
ENTRY_POINTS = sorted(path.parent.name for path in FUNCTIONS.glob("*/index.ts"))


def deno(*arguments: str) -> None:
    """Run Deno in the gateway's folder; its output is the failure's message."""
    result = subprocess.run(
        [deno_binary(), *arguments],
        cwd=LOCAL,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_units_behave() -> None:
    deno("test", "--quiet", "--allow-env", "--allow-net=127.0.0.1", ".", str(FUNCTIONS))


def test_the_sources_are_typed_linted_and_formatted() -> None:
    deno("check", "gateway.ts")
    deno("lint", "--quiet", ".", str(FUNCTIONS))
    written = (str(path) for path in FUNCTIONS.rglob("*.ts") if path.name != "database.types.ts")
    deno("fmt", "--check", "--quiet", ".", *written)


def test_the_lock_file_is_complete() -> None:
    deno("cache", "--frozen", "gateway.ts")


def test_the_functions_stand_alone_as_they_are_deployed() -> None:
    deno("check", "--no-config", "--no-lock", *(str(FUNCTIONS / name / "index.ts") for name in ENTRY_POINTS))


def test_every_function_checks_its_own_keys_when_deployed() -> None:
    config = tomllib.loads((ROOT / "supabase" / "config.toml").read_text())
    assert config["functions"] == {name: {"verify_jwt": False} for name in ENTRY_POINTS}


def test_supabase_js_is_served_like_supabase_py(gateway: Gateway) -> None:
    script = str(ROOT / "tests" / "integration" / "gateway" / "supabase_js.ts")
    keys = (gateway.settings.publishable_key, gateway.settings.secret_key)
    deno("run", "--no-config", "--no-lock", "--allow-net=127.0.0.1", "--allow-env", script, gateway.url, *keys)
