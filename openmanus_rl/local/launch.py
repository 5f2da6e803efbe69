"""Start, find and stop the stack of a home, however many processes try at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil

from openmanus_rl.errors import StackError
from openmanus_rl.local.health import check_health
from openmanus_rl.local.home import Home
from openmanus_rl.local.postgres import stop_left_over
from openmanus_rl.local.processes import wait_for_end
from openmanus_rl.local.progress import Progress, read_events
from openmanus_rl.local.stack_file import StackInfo, held_lock, read_stack, supervisor_pid

# Longer than a first start on a slow machine that downloads packages; a start that failed is noticed at once.
WAIT_SECONDS = 600.0
_STOP_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.1


def find_running(home: Home) -> StackInfo | None:
    """Return the stack that runs in a home and has told how to reach it."""
    pid = supervisor_pid(home)
    info = read_stack(home)
    return info if pid is not None and info is not None and info.pid == pid else None


def start_detached(home: Home, *, port: int | None, progress: Progress) -> tuple[StackInfo, bool]:
    """Make sure that a stack runs and outlives us; return it and whether this call started it."""
    home.prepare()
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        running = wait_for_other(home, progress=progress, deadline=deadline)
        if running is not None:
            return require_same_port(running, port), False
        if _spawn_supervisor(home, port=port, progress=progress):
            started = find_running(home)
            if started is not None:
                return started, True
    raise StackError(f"no stack came up in {home.root} within {WAIT_SECONDS:.0f} s (log: {home.supervisor_log})")


def wait_for_other(home: Home, *, progress: Progress, deadline: float) -> StackInfo | None:
    """Wait until the stack that another process runs or starts is well; None when there is none."""
    told = False
    while (pid := supervisor_pid(home)) is not None:
        running = find_running(home)
        if running is not None and check_health(running.url).ok:
            return running
        if time.monotonic() >= deadline:
            raise StackError(
                f"the stack of {home.root}, pid {pid}, does not become well; "
                f"see {home.supervisor_log}, or run `openmanus-rl down`"
            )
        if not told:
            progress.phase(f"Waiting for the stack that process {pid} starts")
            told = True
        time.sleep(_POLL_SECONDS)
    return None


def stop(home: Home) -> bool:
    """Stop the stack of a home and wait for its end; False when nothing ran."""
    if not os.path.exists(home.root):  # Unlike Path.exists, also False where we may not look.
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
        wait_for_end(supervisor, timeout_seconds=5.0)  # It holds nothing any more; this is for tidiness alone.
    return _clear_left_over(home) or stopped


def _clear_left_over(home: Home) -> bool:
    with held_lock(home) as acquired:
        if not acquired:  # Someone starts a new one already: theirs to tend.
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


def _spawn_supervisor(home: Home, *, port: int | None, progress: Progress) -> bool:
    """Start a detached supervisor and follow its start; False when another one was quicker."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "openmanus_rl.local", "--home", str(home.root), "--progress-fd", str(writer)]
    command += ["--port", str(port)] if port is not None else []
    with open(home.supervisor_log, "ab") as log:
        # An uncaught error of the interpreter itself has nowhere else to go than the log.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(writer,),
        )
    os.close(writer)
    try:
        started = _follow(reader, progress, home)
    except KeyboardInterrupt:
        process.terminate()
        raise
    except StackError:
        process.wait()  # It has said its last word; whoever sees the error may count on its end.
        raise
    if not started:
        process.wait()
    else:
        process.returncode = 0  # It lives on without us: no warning about a child that nobody waited for.
    return started


def _follow(reader: int, progress: Progress, home: Home) -> bool:
    for event in read_events(reader):
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
    raise StackError(f"the supervisor ended while the stack was starting; see {home.supervisor_log}")
