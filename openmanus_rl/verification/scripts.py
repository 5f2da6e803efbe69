"""The validator `script`: runs a script of the task's files in the sandbox and reads the reward that it wrote."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from openmanus_rl.sandboxes.base import CommandResult, Sandbox, SandboxError
from openmanus_rl.verification.base import Case, Finding
from openmanus_rl.verification.specs import ScriptSpec
from openmanus_rl.verification.values import NotJson, is_number, parse_json, shown

__all__ = ["verify_script"]

_REWARD_BYTES = 64 * 1024
_OUTPUT_CHARACTERS = 4000
_PREPARE_SECONDS = 60.0
_NUMBER = re.compile(r"(?a:[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)")


class _NoReward(Exception):
    """The script left no reward that can be used."""


def verify_script(spec: ScriptSpec, case: Case) -> Finding:
    """Run the tests of a task in its sandbox."""
    if case.sandbox is None:
        return Finding("error", message="the environment is gone, in which the script would run")
    tests = None if case.task_files is None else case.task_files / "tests"
    if tests is None or not (tests / "test.sh").is_file():
        return Finding("error", message="the task's files have no tests/test.sh")
    _put_tests(spec, case.sandbox, tests)
    result = case.sandbox.run(
        [f"{spec.tests_folder}/test.sh"],
        service=spec.service,
        timeout_seconds=spec.timeout_seconds,
        environment=spec.environment or None,
    )
    details = _told(result)
    if result.timed_out:
        message = f"the script did not end within {spec.timeout_seconds:g} s"
        return Finding("error", message=message, details=details)
    try:
        reward, rewards = _read_reward(spec, case.sandbox)
    except _NoReward as error:
        return Finding("error", message=str(error), details=details)
    passes = reward >= spec.pass_at
    return Finding(
        "pass" if passes else "fail",
        score=reward,
        expected=f"a reward of at least {spec.pass_at:g}",
        actual=f"{reward:g}",
        message=None if passes else f"the reward is {reward:g}",
        details=details | {"rewards": rewards},
    )


def _put_tests(spec: ScriptSpec, sandbox: Sandbox, tests: Path) -> None:
    """Put the tests in place, without anything that the agent left there, such as a reward of its own."""
    rewards = [f"{spec.logs_folder}/{name}" for name in ("reward.txt", "reward.json")]
    _run(sandbox, spec, "rm", "-rf", "--", spec.tests_folder, *rewards)
    _run(sandbox, spec, "mkdir", "-p", "--", spec.logs_folder)
    sandbox.put_folder(tests, spec.tests_folder, service=spec.service)
    _run(sandbox, spec, "chmod", "+x", f"{spec.tests_folder}/test.sh")


def _run(sandbox: Sandbox, spec: ScriptSpec, *command: str) -> None:
    result = sandbox.run(command, service=spec.service, timeout_seconds=_PREPARE_SECONDS)
    if result.exit_code != 0:
        raise SandboxError(f"{' '.join(command)} failed in the sandbox: {_tail(result.stderr)}")


def _read_reward(spec: ScriptSpec, sandbox: Sandbox) -> tuple[float, dict[str, Any]]:
    """Return the reward, and all rewards by name."""
    text = _read(sandbox, f"{spec.logs_folder}/reward.txt", spec)
    # A number that is asked for by name is in reward.json.
    if text is not None and spec.reward is None:
        reward = _finite("reward.txt", float(text) if _NUMBER.fullmatch(text.strip()) else math.nan)
        return reward, {"reward": reward}
    text = _read(sandbox, f"{spec.logs_folder}/reward.json", spec)
    if text is None:
        raise _NoReward(f"the script wrote no reward to {spec.logs_folder}")
    return _from_json(text, spec)


def _from_json(text: str, spec: ScriptSpec) -> tuple[float, dict[str, Any]]:
    try:
        found = parse_json(text)
    except NotJson as error:
        raise _NoReward(f"reward.json is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _NoReward("reward.json is not an object of numbers")
    rewards = {name: _finite("reward.json", value) for name, value in found.items() if is_number(value)}
    name = spec.reward or "reward"
    if name in rewards:
        return rewards[name], rewards
    if spec.reward is not None or not rewards:
        raise _NoReward(f"reward.json has no number {name!r}" if rewards else "reward.json has no numbers")
    # Several, and none is said to be the one: all must be reached.
    return min(rewards.values()), rewards


def _finite(file: str, value: Any) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _NoReward(f"the reward in {file} is not a finite number")
    return number


def _read(sandbox: Sandbox, path: str, spec: ScriptSpec) -> str | None:
    try:
        return sandbox.read_file(path, service=spec.service, limit_bytes=_REWARD_BYTES).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise _NoReward(f"{path} is not text") from None


def _told(result: CommandResult) -> dict[str, Any]:
    return {"exit_code": result.exit_code, "stdout": _tail(result.stdout), "stderr": _tail(result.stderr)}


def _tail(output: bytes) -> str:
    text = output[-4 * _OUTPUT_CHARACTERS :].decode(errors="replace")
    return shown(text[-_OUTPUT_CHARACTERS:], limit=_OUTPUT_CHARACTERS)
