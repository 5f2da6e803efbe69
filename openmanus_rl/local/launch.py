"""Find, start and stop the stack of a home; safe to call from several processes at once."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import psutil

from openmanus_rl import _child
from openmanus_rl._private import append_private
from openmanus_rl.errors import StackError
from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.health import check_health
from openmanus_rl.local.home import Home
from openmanus_rl.local.postgres import stop_left_over
from openmanus_rl.local.processes import wait_for_end
from openmanus_rl.local.progress import Progress, SilentProgress, read_events
from openmanus_rl.local.stack_file import StackInfo, held_lock, read_stack, supervisor_pid

# A start reports its progress. After this long without a report, it hangs or is recovering a large database.
SILENCE_SECONDS = 90.0
# A supervisor restarts the parts of an unhealthy stack within about half a minute.
_RECOVERY_SECONDS = 45.0
_STOP_TIMEOUT_SECONDS = 120.0
_START_ATTEMPTS = 5
_POLL_SECONDS = 0.1


def find_running(home: Home) -> StackInfo | None:
    """Return the stack that runs in a home and has published its URL."""
    pid = supervisor_pid(home)
    info = read_stack(home)
    return info if pid is not None and info is not None and info.pid == pid else None


def find_crashed(home: Home) -> StackInfo | None:
    """Return the stack of a home whose supervisor was killed and has not been replaced."""
    return read_stack(home) if supervisor_pid(home) is None else None


def find_or_replace(home: Home) -> StackInfo | None:
    """Return the stack that runs in a home; restart it if its supervisor was killed. None if it was stopped."""
    running = find_running(home)
    if running is None and supervisor_pid(home) is not None:
        # Another command is starting it, perhaps to replace a killed one.
        running = wait_for_other(home, progress=SilentProgress())
    if running is None and (crashed := find_crashed(home)) is not None:
        if crashed.public_url is not None:
            # Not replaced by a stack that only this machine could reach.
            raise StackError(
                f"the server of {home.root}, process {crashed.pid}, was killed",
                hint="start it again: `systemctl restart openmanus-rl`, or `openmanus-rl serve` with its options",
            )
        running, _ = start_detached(home, port=None, progress=SilentProgress(), database=_database_of(crashed))
    return running


def starting_pid(home: Home) -> int | None:
    """Return the process that is starting or stopping the stack of a home."""
    return supervisor_pid(home) if find_running(home) is None else None


def _database_of(stack: StackInfo) -> ExternalDatabase | None:
    return ExternalDatabase(stack.database_url) if stack.external else None


def start_detached(
    home: Home, *, port: int | None, progress: Progress, database: ExternalDatabase | None = None
) -> tuple[StackInfo, bool]:
    """Ensure that a stack runs in the background; return it and whether this call started it."""
    home.prepare()
    for _ in range(_START_ATTEMPTS):
        running = wait_for_other(home, progress=progress)
        if running is not None:
            return require_same_port(running, port), False
        if _spawn_supervisor(home, port=port, progress=progress, database=database):
            started = find_running(home)
            if started is not None:
                return started, True
    raise StackError(
        f"the stack of {home.root} was stopped each time after it had started; is another program running "
        f"`openmanus-rl down`? (log: {home.supervisor_log})"
    )


def wait_for_other(home: Home, *, progress: Progress) -> StackInfo | None:
    """Wait until the stack that another process runs or starts is healthy; None if there is none."""
    told: int | None = None
    since = time.monotonic()
    while (pid := supervisor_pid(home)) is not None:
        running = find_running(home)
        health = check_health(running.url) if running is not None else None
        if health is not None and health.ok:
            return running
        if pid != told:
            progress.phase(f"Waiting for the stack of process {pid}")
            told, since = pid, time.monotonic()
        waited = time.monotonic() - since
        if health is not None and waited >= _RECOVERY_SECONDS:
            raise StackError(
                f"the stack of {home.root}, pid {pid}, runs but is not healthy: {health.detail}; "
                f"see {home.supervisor_log}; restart it with `openmanus-rl down` and `openmanus-rl up`"
            )
        if health is None and waited >= SILENCE_SECONDS:
            raise _still_starting(home, pid)
        time.sleep(_POLL_SECONDS)
    return None


def _still_starting(home: Home, pid: int) -> StackError:
    return StackError(
        f"the stack of {home.root} is still starting after {SILENCE_SECONDS:.0f} s; process {pid} continues in the "
        f"background; see {home.supervisor_log} and {home.postgres_log}; `openmanus-rl status` shows when it is ready, "
        "`openmanus-rl down` stops it"
    )


def stop(home: Home) -> bool:
    """Stop the stack of a home and wait for its end; return False if nothing ran."""
    if not os.path.exists(home.root):  # Unlike Path.exists, returns False without permission.
        return False
    deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
    pid = supervisor_pid(home)
    stopped = pid is not None
    supervisor = psutil.Process(pid) if pid is not None and psutil.pid_exists(pid) else None
    while pid is not None:
        if pid > 0:
            _terminate(pid)
        if time.monotonic() >= deadline:
            raise StackError(
                f"process {pid} did not stop within {_STOP_TIMEOUT_SECONDS:.0f} s; see {home.supervisor_log}"
            )
        _wait_released(home, pid, seconds=5.0)
        pid = supervisor_pid(home)
    if supervisor is not None:
        wait_for_end(supervisor, timeout_seconds=5.0)  # It has released everything; only its exit is left.
    return _clear_left_over(home) or stopped


def _clear_left_over(home: Home) -> bool:
    with held_lock(home) as acquired:
        if not acquired:  # Another process is starting a new stack.
            return False
        home.stack.unlink(missing_ok=True)
        return stop_left_over(home)


def _wait_released(home: Home, pid: int, *, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and supervisor_pid(home) == pid:
        time.sleep(_POLL_SECONDS)


def _terminate(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # A suspended process handles signals only after SIGCONT.
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise StackError(
            f"no permission to stop process {pid}; run `openmanus-rl down` as the user who started it"
        ) from error


def require_same_port(running: StackInfo, port: int | None) -> StackInfo:
    if port and running.port != port:
        raise StackError(
            f"a stack already runs at {running.url}, not on port {port}; use it, or run `openmanus-rl down` first"
        )
    return running


def _spawn_supervisor(home: Home, *, port: int | None, progress: Progress, database: ExternalDatabase | None) -> bool:
    """Start a detached supervisor and report its progress; return False if another one started first."""
    reader, writer = os.pipe()
    command = _child.command("openmanus_rl.local", "--home", str(home.root), "--progress-fd", str(writer))
    command += ["--port", str(port)] if port is not None else []
    variables = {}
    if database is not None:
        command += ["--external", *(["--migrate"] if database.migrate else [])]
        variables["DATABASE_URL"] = database.url
    with append_private(home.supervisor_log) as log:
        # The log also receives uncaught errors of the interpreter.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(writer,),
            env=_child.environment(**variables),
        )
    os.close(writer)
    try:
        started = _follow(reader, progress, home)
    except TimeoutError as error:
        process.returncode = 0  # It continues in the background.
        raise _still_starting(home, process.pid) from error
    except KeyboardInterrupt:
        process.terminate()
        raise
    except StackError:
        process.wait()  # It reported the failure; callers may rely on its end.
        raise
    if not started:
        process.wait()
    else:
        process.returncode = 0  # It continues in the background; prevent a ResourceWarning about an unawaited child.
    return started


def _follow(reader: int, progress: Progress, home: Home) -> bool:
    for event in read_events(reader, silence_seconds=SILENCE_SECONDS):
        match event["event"]:
            case "phase":
                progress.phase(event["text"])
            case "note":
                progress.note(event["text"])
            case "ready":
                return True
            case "busy":
                return False
            case "failed":
                raise StackError(event["text"])
    raise StackError(f"the supervisor ended while it was starting the stack of {home.root}; see {home.supervisor_log}")
