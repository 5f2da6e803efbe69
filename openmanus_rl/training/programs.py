"""Runs a program of the user's own for a run: a function or a script, as a child that is handed its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from openmanus_rl import _child
from openmanus_rl.errors import ConflictError, OpenManusError
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.recorder import init
from openmanus_rl.recorder.membership import OWN_RUN_ID_VARIABLE, REWINDS_VARIABLE, RUN_ID_VARIABLE
from openmanus_rl.settings import Settings, read_variables
from openmanus_rl.training.code import fetch_code, find_script, make_python
from openmanus_rl.training.config import ProgramConfig
from openmanus_rl.training.delivery import wait_for_delivery
from openmanus_rl.training.patience import patiently
from openmanus_rl.training.stopping import Stop

__all__ = ["run_program"]

_LAST_LINES = 20
_KEPT_BYTES = 64 * 1024
_LINE_CHARACTERS = 500
_POLL_SECONDS = 0.1
_SETTING_PREFIXES = ("SUPABASE_", "POSTGRES_", "DATABASE_URL", "OPENMANUS_RL_")
# Of this process, not of the program.
_NOT_PASSED_ON = (RUN_ID_VARIABLE, REWINDS_VARIABLE, "OPENMANUS_RL_JOB_ID", "OPENMANUS_RL_JOB_ATTEMPT")


def run_program(settings: Settings, row: Mapping[str, Any], config: ProgramConfig, stop: Stop) -> int:
    """Run the program to its end or a stop, and return the exit code."""
    run_id, entry_point = row["id"], config.entry_point
    with TemporaryDirectory(prefix="openmanus-rl-program-", ignore_cleanup_errors=True) as place:
        folder = Path.cwd()
        if entry_point.git is not None or entry_point.archive is not None:
            folder = Path(place) / "code"
            commit = patiently(lambda: fetch_code(entry_point, folder), stop)
            if commit is not None:
                patiently(lambda: TrainingRunManager.update_run(run_id, metadata={"commit": commit}), stop)
        python = make_python(Path(place) / "venv", config.requirements)
        if entry_point.script is not None:
            command = [python, str(find_script(folder, entry_point.script)), *config.arguments]
        else:
            command = [python, str(Path(__file__).with_name("_call.py")), str(entry_point.module), *config.arguments]
        if stop.is_set:
            return stop.exit_code
        stop.watch(run_id, known=row["stop_requested_at"])
        program = _Program(command, folder, _variables(settings, run_id))
        code = program.wait(stop, grace_seconds=settings.grace_seconds)
        _settle(settings, row, stop, code, program)
    if stop.is_set:
        return stop.exit_code
    return code if code >= 0 else 128 - code


class _Program:
    """The child: its output is passed through, and the end of its stderr is kept."""

    def __init__(self, command: list[str], folder: Path, variables: Mapping[str, str]) -> None:
        bound = _child.script(Path(__file__).with_name("_bound.py"), str(os.getpid()), *command)
        # In a session of its own: a Ctrl-C in the terminal reaches it once, through this process.
        self._process = subprocess.Popen(
            bound,
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._last = b""
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._pass_through, args=(self._process.stderr,), daemon=True)
        self._reader.start()

    @property
    def last_lines(self) -> str:
        """The end of its stderr."""
        # Of a progress bar, which goes back to the beginning of its line, what was shown last.
        shown = (line.rstrip().rpartition(b"\r")[2] for line in self._last.split(b"\n"))
        lines = [line.decode(errors="replace")[:_LINE_CHARACTERS] for line in shown if line]
        return "\n".join(lines[-_LAST_LINES:])

    def wait(self, stop: Stop, *, grace_seconds: float) -> int:
        """Return the exit code; once a stop is asked for, the program gets SIGTERM, and is killed if it stays."""
        while not stop.is_set:
            with suppress(subprocess.TimeoutExpired):
                return self._finish(self._process.wait(_POLL_SECONDS))
        self._signal(signal.SIGTERM)
        try:
            code = self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            code = self._process.wait()
        return self._finish(code)

    def _finish(self, code: int) -> int:
        # A grandchild may hold the pipe open for long.
        self._reader.join(timeout=2)
        return code

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _pass_through(self, pipe: IO[bytes]) -> None:
        # Not by lines: a progress bar may not end its line for hours.
        while printed := os.read(pipe.fileno(), _KEPT_BYTES):
            self._last = (self._last + printed)[-_KEPT_BYTES:]
            with suppress(OSError, ValueError):
                sys.stderr.buffer.write(printed)
                sys.stderr.buffer.flush()


def _variables(settings: Settings, run_id: str) -> dict[str, str]:
    """Return the program's environment: ours, with the settings that may come from a file, and its run."""
    found = {name: value for name, value in read_variables().items() if name.startswith(_SETTING_PREFIXES)}
    variables = {**os.environ, **found, "OPENMANUS_RL_HOME": str(settings.home)}
    for name in _NOT_PASSED_ON:
        variables.pop(name, None)
    return variables | {OWN_RUN_ID_VARIABLE: run_id, "RUN_ID": run_id, "PYTHONUNBUFFERED": "1"}


def _settle(settings: Settings, before: Mapping[str, Any], stop: Stop, code: int, program: _Program) -> None:
    """See that the run has ended as the program did, also if the program did not say so itself."""
    run_id = before["id"]
    with suppress(OpenManusError):
        has_begun = TrainingRunManager.get_run(run_id)["status_change_id"] != before["status_change_id"]
        if not has_begun:
            _end_unrecorded(run_id, stop, code, program)
        elif stop.is_set:
            # It may have said itself how it ended; that is on its way.
            if code != -signal.SIGTERM:
                wait_for_delivery(settings, run_id)
            # It has ended meanwhile.
            with suppress(ConflictError):
                TrainingRunManager.update_status(run_id, "interrupted", message=stop.message)


def _end_unrecorded(run_id: str, stop: Stop, code: int, program: _Program) -> None:
    run = init(run_id=run_id)
    if stop.is_set:
        run.finish("interrupted", message=stop.message)
    elif code == 0:
        run.finish(message="the program recorded nothing")
    else:
        ended = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        run.finish("failed", message=f"the program ended with {ended}: {program.last_lines}"[:8000])
