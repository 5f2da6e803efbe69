"""Calls functions in processes of their own, which can be ended: a function in this process could not be interrupted.

A process serves one call after the other, so that scoring thousands of answers does not start thousands of them. It
ends with this process, and at the time limit of a call, with everything that it started.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from openmanus_rl import _child
from openmanus_rl.sandboxes._commands import Collector, GuardedCommand
from openmanus_rl.sandboxes.base import Address, Sandbox, SandboxError
from openmanus_rl.sandboxes.spec import Resources

__all__ = ["Call", "CallFailed", "Description", "call"]

_CHILD = "openmanus_rl.verification._call_child"
_OUTPUT_BYTES = 64 * 1024
_END_SECONDS = 1.0
_SHOWN_OUTPUT_BYTES = 500
# What a sandbox waits for by itself if it is not told for how long.
_WAITS = {"run": 60.0, "request": 30.0}


class CallFailed(Exception):
    """There is no result: the time limit was exceeded, or the process ended."""


@dataclass(frozen=True)
class Description:
    """What a function can know of a sandbox without asking: it is used through this process."""

    kind: str
    url: str | None
    services: Mapping[str, Address]
    has_episode: bool


@dataclass(frozen=True)
class Call:
    """A call as the process gets it: a function's import path and what it is given."""

    function: str
    answer: Any
    expected_answer: str | None
    task_files: Path | None
    metadata: Mapping[str, Any]
    options: Mapping[str, Any]
    pass_at: float
    sandbox: Description | None
    import_paths: list[str]


def call(request: Call, *, sandbox: Sandbox | None, timeout_seconds: float) -> Any:
    """Return what the process makes of a call; raise `CallFailed` if it makes nothing of it in time."""
    try:
        message = pickle.dumps(request)
    except Exception as error:
        raise CallFailed(f"cannot be called with this answer: {type(error).__name__}: {error}") from error
    process = _free.pop() if _free else _Process()
    try:
        result = process.call(message, sandbox, timeout_seconds)
    except BaseException:
        process.kill()
        raise
    _free.append(process)
    return result


class _Process:
    """A process that calls functions."""

    def __init__(self) -> None:
        self._command = GuardedCommand(
            _child.command(_CHILD),
            folder=Path.cwd(),
            environment=_child.environment(),
            resources=Resources(),
            takes_input=True,
        )
        assert self._command.stdin is not None
        assert self._command.stdout is not None
        assert self._command.stderr is not None
        self._requests = Connection(os.dup(self._command.stdin.fileno()), readable=False)
        self._answers = Connection(os.dup(self._command.stdout.fileno()), writable=False)
        self._command.stdin.close()
        self._command.stdout.close()
        # Read to the end: what prints much would have to wait otherwise.
        self._output = Collector(self._command.stderr, _OUTPUT_BYTES)

    def call(self, message: bytes, sandbox: Sandbox | None, timeout_seconds: float) -> Any:
        """Send a call, and do what the function asks of the sandbox until it has returned."""
        deadline = time.monotonic() + timeout_seconds
        try:
            self._requests.send_bytes(message)
            while True:
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0 or not self._answers.poll(seconds_left):
                    raise CallFailed(f"did not return within {timeout_seconds:g} s")
                kind, *content = pickle.loads(self._answers.recv_bytes())
                if kind == "done":
                    return content[0]
                self._requests.send_bytes(_ask(sandbox, *content, seconds_left=deadline - time.monotonic()))
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise CallFailed(f"ended its process ({self._describe_end()})") from error

    def _describe_end(self) -> str:
        has_ended = self._command.wait(_END_SECONDS)
        output = self._output.content(_END_SECONDS)[-_SHOWN_OUTPUT_BYTES:].decode(errors="replace").strip()
        told = f"exit code {self._command.exit_code}" if has_ended else "it no longer answers"
        return f"{told}: {output}" if output else told

    def kill(self) -> None:
        """End the process and everything that it started."""
        self._command.kill()
        self._requests.close()
        self._answers.close()


def _ask(
    sandbox: Sandbox | None, path: str, arguments: tuple[Any, ...], named: dict[str, Any], *, seconds_left: float
) -> bytes:
    """Return, for the function, what a method of the sandbox or of its episode returned or raised."""
    owner: Any = sandbox
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    if path in _WAITS:
        named["timeout_seconds"] = min(named.get("timeout_seconds", _WAITS[path]), max(seconds_left, 0.001))
    try:
        return pickle.dumps(("returned", getattr(owner, name)(*arguments, **named)))
    except Exception as error:  # noqa: BLE001 - it is the function's to handle
        return _raised(error)


def _raised(error: Exception) -> bytes:
    try:
        message = pickle.dumps(("raised", error))
        pickle.loads(message)
    except Exception:  # noqa: BLE001 - some exceptions cannot be made again from what they pickle
        return pickle.dumps(("raised", SandboxError(f"{type(error).__name__}: {error}")))
    return message


_free: list[_Process] = []
# The pipes of a process are for one side only.
os.register_at_fork(after_in_child=_free.clear)
