"""The parent of a local command: it lives as long as what the command started, and ends it all when told to.

Run by its path, with nothing of the package: a service is started in milliseconds. The guard adopts every process
below it, also those that left their session, so that none is missed. It ends them on SIGTERM, which the kernel sends as
well when the process that started the guard dies, by `kill -9` too.

Its argument is JSON: `command`, `limits` (by the names of `resource`), `parent` and `status`, the file descriptor that
the exit code of the command is written to.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import Any

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_IS_LINUX = sys.platform == "linux"


def main() -> None:
    """Start the command, tell its exit code, and stay until its last process has ended."""
    request = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for asked in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(asked, lambda *_: end())
    if _IS_LINUX:
        libc = ctypes.CDLL(None)
        libc.prctl(_SET_CHILD_SUBREAPER, 1)
        libc.prctl(_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != request["parent"]:
        sys.exit(1)  # It died before the kernel knew that we ask.
    child = start(request)
    for descriptor in (0, 1, 2):
        # The command's pipes end with the command, not with its guard.
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == child:
            with suppress(OSError):
                os.write(request["status"], b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(request["status"])


def start(request: dict[str, Any]) -> int:
    """Return the process id of the command, which has its own session and limits."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        for handled in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(handled, signal.SIG_DFL)
        if _IS_LINUX:
            ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for name, limit in request["limits"].items():
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (value, value))
        os.close(request["status"])
        os.execvp(request["command"][0], request["command"])
    except OSError as error:
        os.write(2, f"{request['command'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def end() -> None:
    """Kill everything below this process, and end."""
    stopped: set[int] = set()
    while True:
        found = descendants()
        if not found:
            os._exit(143)
        # Stop them first: else each could start another while it is looked for.
        signal_all(found - stopped, signal.SIGSTOP)
        if found <= stopped:
            signal_all(found, signal.SIGKILL)
            stopped = set()
            reap()
        else:
            stopped |= found


def signal_all(pids: set[int], number: int) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def reap() -> None:
    """Wait for those that have ended, so that they are no longer listed."""
    time.sleep(0.001)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants() -> set[int]:
    """Return the processes below this one, but not those that only wait to be reaped."""
    children: dict[int, list[int]] = {}
    ended = set()
    for pid, parent, state in processes():
        children.setdefault(parent, []).append(pid)
        if state == "Z":
            ended.add(pid)
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found - ended


def processes() -> list[tuple[int, int, str]]:
    """Return the id, parent and state of every process."""
    if not _IS_LINUX:
        lines = os.popen("ps -axo pid=,ppid=,stat=").read().splitlines()
        return [(int(pid), int(parent), state[:1]) for pid, parent, state in (line.split(None, 2) for line in lines)]
    rows = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The name in parentheses may hold anything, blanks and parentheses too.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                rows.append((int(name), int(parent), state.decode()))
    return rows


if __name__ == "__main__":
    main()
