"""The backend `local`: a process of this machine per attempt, started and watched by a runner of its own."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from openmanus_rl import _child
from openmanus_rl._private import append_private, make_private
from openmanus_rl.errors import LaunchError
from openmanus_rl.jobs.backends import _runner
from openmanus_rl.jobs.backends.base import Attempt, Look, State, parse_name
from openmanus_rl.settings import Settings

__all__ = ["LocalBackend", "this_host"]

_START_SECONDS = 30.0
_END_SECONDS = 15.0
_POLL_SECONDS = 0.01
_REMOVED = ".removed-"
# What tells a process which run it records: an orchestrator that was started by one must not pass its own on.
_OTHER_RUN = ("RUN_ID", "OPENMANUS_RL_RUN_ID", "OPENMANUS_RL_OWN_RUN_ID")


class LocalBackend:
    """Runs attempts as processes. Each has a folder below `<home>/jobs`, by which it is found again; see `_runner`."""

    kind = "local"

    def __init__(self, settings: Settings, *, command: Sequence[str] | None = None) -> None:
        self._settings = settings
        self._root = settings.home / "jobs"
        self._command = list(command or _child.command("openmanus_rl.training.train"))
        self._runners: list[subprocess.Popen[bytes]] = []

    def final_yaml(self, attempt: Attempt) -> str | None:  # noqa: ARG002
        """Return None: a process is launched, not a task."""
        return None

    def launch(self, attempt: Attempt) -> None:
        """Start the runner of an attempt; a second one of the same attempt ends at once."""
        folder = self._folder(attempt)
        try:
            make_private(folder)
            runner = self._spawn(folder, attempt)
        except OSError as error:
            raise LaunchError(f"{attempt.name}: its process cannot be started: {error}") from error
        self._wait_for_start(attempt, runner)

    def look(self, attempt: Attempt) -> Look:
        """Tell how an attempt goes, from its folder."""
        self._runners = [runner for runner in self._runners if runner.poll() is None]
        folder = self._folder(attempt)
        if _is_locked(folder):
            return Look(State.RUNNING if (folder / _runner.STARTED).exists() else State.WAITING)
        ended = _runner.read_json(folder / _runner.EXIT)
        if ended is not None and ended["signal"] is not None and not ended["was_stopped"]:
            return Look(State.LOST, reason=f"its runner got signal {ended['signal']}")
        if ended is not None:
            return Look(State.ENDED, exit_code=ended["exit_code"], was_stopped=ended["was_stopped"])
        if (folder / _runner.STARTED).exists():
            return Look(State.LOST, reason="its runner was killed, or the machine was restarted")
        return Look(State.GONE)

    def stop(self, attempt: Attempt, *, grace_seconds: float) -> None:
        """Ask the runner to end its program."""
        with suppress(FileNotFoundError):
            _runner.write_json(self._folder(attempt) / _runner.STOP, {"grace_seconds": grace_seconds})

    def read_log(self, attempt: Attempt, *, start: int, max_bytes: int) -> str:
        """Return what was printed from byte `start` on."""
        try:
            with (self._folder(attempt) / _runner.LOG).open("rb") as log:
                log.seek(start)
                # It is valid UTF-8 but for a last character that was read, or is written, in part.
                return log.read(max_bytes).decode("utf-8", "ignore")
        except FileNotFoundError:
            return ""

    def remove(self, attempt: Attempt) -> None:
        """Kill the program and its runner, and remove the folder."""
        folder = self._folder(attempt)
        if not folder.exists():
            return
        self.stop(attempt, grace_seconds=0)
        with _locked(folder) as is_free:
            if not is_free:
                raise LaunchError(f"{attempt.name}: its runner does not end; see {folder}")
            _kill_left_over(folder, attempt)
            # As a whole: a runner that starts late finds no folder, rather than one without a trace of the first.
            trash = self._root / f"{_REMOVED}{attempt.name}-{secrets.token_hex(4)}"
            with suppress(FileNotFoundError):
                folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)

    def names(self) -> list[str]:
        """Return the attempts that have a folder; remove what is left of folders whose removal was interrupted."""
        if not self._root.exists():
            return []
        for folder in self._root.glob(f"{_REMOVED}*"):
            shutil.rmtree(folder, ignore_errors=True)
        return [folder.name for folder in self._root.iterdir() if parse_name(folder.name) is not None]

    def _folder(self, attempt: Attempt) -> Path:
        return self._root / attempt.name

    def _spawn(self, folder: Path, attempt: Attempt) -> subprocess.Popen[bytes]:
        with append_private(folder / "runner.log") as log:
            runner = subprocess.Popen(
                _child.script(Path(_runner.__file__), str(folder), *self._command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # It outlives the orchestrator, and Ctrl-C in its terminal.
                start_new_session=True,
                env=self._environment(attempt),
            )
        self._runners.append(runner)
        return runner

    def _wait_for_start(self, attempt: Attempt, runner: subprocess.Popen[bytes]) -> None:
        started = self._folder(attempt) / _runner.STARTED
        deadline = time.monotonic() + _START_SECONDS
        while not started.exists():
            if runner.poll() is not None or time.monotonic() > deadline:
                if started.exists():
                    return  # By another runner, which this one left it to.
                try:
                    told = (self._folder(attempt) / "runner.log").read_text(errors="replace").strip()
                except FileNotFoundError:
                    raise LaunchError(f"{attempt.name}: it was removed while it was launched") from None
                raise LaunchError(f"{attempt.name}: its runner did not start: {told[-1000:] or 'it is silent'}")
            time.sleep(_POLL_SECONDS)

    def _environment(self, attempt: Attempt) -> dict[str, str]:
        variables = _child.environment(OPENMANUS_RL_HOME=str(self._settings.home), **self._settings_found())
        for name in _OTHER_RUN:
            variables.pop(name, None)
        variables.setdefault("PYTHONUNBUFFERED", "1")
        given = attempt.task.get("envs", {})
        return variables | {name: str(value) for name, value in given.items() if value is not None}

    def _settings_found(self) -> dict[str, str]:
        """Return the settings of this process, of which some may come from a file that the program does not find."""
        found = {
            "SUPABASE_URL": self._settings.url,
            "SUPABASE_ANON_KEY": self._settings.anon_key,
            "SUPABASE_SERVICE_ROLE_KEY": self._settings.service_role_key,
            "SUPABASE_KEY": self._settings.member_key,
            "DATABASE_URL": self._settings.database_url,
        }
        return {
            name: value if isinstance(value, str) else value.get_secret_value()
            for name, value in found.items()
            if value is not None
        }


def this_host(settings: Settings) -> str:
    """Return the name of this machine and home: local jobs are found only by orchestrators that share both."""
    path = settings.home / "jobs" / "host"
    make_private(path.parent)
    if not path.exists():
        scratch = path.with_name(f".host-{secrets.token_hex(4)}")
        scratch.write_text(secrets.token_hex(4))
        with suppress(FileExistsError):
            os.link(scratch, path)
        scratch.unlink()
    return f"{socket.gethostname()}-{path.read_text()}"


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _runner.LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Take the lock of a runner that was told to end, and kill it if it does not; yield whether the lock was had."""
    try:
        descriptor = os.open(folder / _runner.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # Removed meanwhile.
        yield True
        return
    try:
        yield _wait_for(descriptor, _END_SECONDS) or (_kill_runner(folder) and _wait_for(descriptor, _END_SECONDS))
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _kill_runner(folder: Path) -> bool:
    started = _runner.read_json(folder / _runner.STARTED)
    if started is not None:
        with suppress(psutil.Error):
            process = psutil.Process(started["pid"])
            # Its number may be another's by now.
            if str(folder) in process.cmdline():
                process.kill()
    return True


def _kill_left_over(folder: Path, attempt: Attempt) -> None:
    """Kill what the program of a killed runner left in its session, and nothing that the recorder keeps running."""
    program = _runner.read_json(folder / _runner.PROGRAM)
    if program is None:
        return
    deadline = time.monotonic() + _END_SECONDS
    while found := [process for process in psutil.process_iter() if _is_of(process, program["pid"], attempt)]:
        if time.monotonic() > deadline:
            raise LaunchError(f"{attempt.name}: processes do not end: {[process.pid for process in found]}")
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL_SECONDS)


def _is_of(process: psutil.Process, session: int, attempt: Attempt) -> bool:
    try:
        if os.getsid(process.pid) != session or process.status() == psutil.STATUS_ZOMBIE:
            return False
        # The number may have been given to another session since.
        variables = process.environ()
    except (psutil.Error, OSError):
        return False
    job, number = variables.get("OPENMANUS_RL_JOB_ID"), variables.get("OPENMANUS_RL_JOB_ATTEMPT")
    return (job, number) == (attempt.job_id, str(attempt.number))
