"""The Postgres process: starts it, waits until it is ready, and stops it without losing commits."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from openmanus_rl._private import append_private
from openmanus_rl.errors import StackError
from openmanus_rl.local import cluster, ports
from openmanus_rl.local.account import Account, allow_traversal
from openmanus_rl.local.cluster import Binaries
from openmanus_rl.local.home import Home
from openmanus_rl.local.processes import end_at_once, processes_in, wait_for_end

_logger = logging.getLogger(__name__)

# Crash recovery replays up to max_wal_size, which takes a while on a slow disk.
_START_TIMEOUT_SECONDS = 300.0
_FAST_STOP_TIMEOUT_SECONDS = 60.0
_IMMEDIATE_STOP_TIMEOUT_SECONDS = 15.0
_PORT_ATTEMPTS = 5


class PostgresProcess:
    """The Postgres server of a home."""

    def __init__(self, *, home: Home, binaries: Binaries, account: Account, port: int) -> None:
        self._home = home
        self._binaries = binaries
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        # Once clients know the port, a restart must not change it.
        self._port_is_known = False
        self._ready = False
        self.port = port

    @property
    def serving_pid(self) -> int | None:
        """The pid of the server; None if it does not run or is still starting."""
        process = self._process
        return process.pid if process is not None and self._ready and process.poll() is None else None

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        self._ready = False
        _end_orphans(self._home)
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            if not ports.is_free(self.port):
                self._choose_another_port()
            log_start = _size(self._home.postgres_log)
            self._spawn()
            if self._wait_ready():
                self._port_is_known = self._ready = True
                return
            said = _tail(self._home.postgres_log, since=log_start)
            self._process = None
            # Another program may have taken the port after it was chosen.
            if "could not bind" not in said or attempt == _PORT_ATTEMPTS:
                raise StackError(f"Postgres did not start: {_explain(said)} (log: {self._home.postgres_log})")
            self._choose_another_port()

    def exit_code(self) -> int | None:
        """Return the exit code of the server; None while it runs."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """Disconnect all clients, write everything to disk, and stop."""
        if self._process is None:
            return
        stop_postmaster(psutil.Process(self._process.pid) if self._process.poll() is None else None)
        self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Stop a server that hangs immediately; crash recovery at the next start restores all commits."""
        if self._process is not None and self._process.poll() is None:
            end_at_once(psutil.Process(self._process.pid), how=signal.SIGQUIT)
            self._process.wait(_IMMEDIATE_STOP_TIMEOUT_SECONDS)

    def _choose_another_port(self) -> None:
        if self._port_is_known:
            raise StackError(f"Postgres lost port {self.port}: it is {ports.describe_holder(self.port)}")
        self.port = ports.free_port()

    def _spawn(self) -> None:
        allow_traversal(self._home.postgres, self._account)
        command = [self._binaries["postgres"], "-D", str(self._home.postgres)]
        for name, value in self._fixed_settings().items():
            command += ["-c", f"{name}={value}"]
        with append_private(self._home.postgres_log) as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=cluster.postgres_environment(),
                # Ctrl-C signals the whole foreground process group; only the supervisor decides what stops when.
                start_new_session=True,
                **self._account.popen_options,  # type: ignore[call-overload]
            )

    def _fixed_settings(self) -> dict[str, str]:
        return {
            "listen_addresses": ports.HOST,
            "port": str(self.port),
            # The path of a Unix socket could be too long; all clients use TCP and a password.
            "unix_socket_directories": "",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "password_encryption": "scram-sha-256",
            # For live changes of tables.
            "wal_level": "logical",
            # Errors are reported to the client; the values of failed statements do not belong in the log.
            "log_min_messages": "log",
            "log_min_error_statement": "panic",
            "log_error_verbosity": "terse",
        }

    def _wait_ready(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        pid_file = self._home.postgres / "postmaster.pid"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if _says_ready(pid_file, self._process.pid):
                return True
            time.sleep(0.05)
        self.stop()
        raise StackError(
            f"Postgres was not ready within {_START_TIMEOUT_SECONDS:.0f} s (log: {self._home.postgres_log})"
        )


def stop_postmaster(process: psutil.Process | None) -> None:
    """Stop a Postgres server: fast shutdown, then immediate shutdown if that hangs. Neither loses commits."""
    if process is None:
        return
    for how, timeout_seconds in (
        (signal.SIGINT, _FAST_STOP_TIMEOUT_SECONDS),
        (signal.SIGQUIT, _IMMEDIATE_STOP_TIMEOUT_SECONDS),
    ):
        try:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)  # A suspended process handles signals only after SIGCONT.
        except psutil.NoSuchProcess:
            return
        except psutil.AccessDenied as error:
            raise StackError(
                f"no permission to stop Postgres, pid {process.pid}; stop it as the user that runs it"
            ) from error
        if wait_for_end(process, timeout_seconds=timeout_seconds):
            return
        _logger.warning("Postgres, pid %d, did not end within %.0f s of %s", process.pid, timeout_seconds, how.name)
    process.kill()
    wait_for_end(process, timeout_seconds=_IMMEDIATE_STOP_TIMEOUT_SECONDS)


def stop_left_over(home: Home) -> bool:
    """Stop a Postgres whose supervisor was killed; return whether there was one."""
    left_over = cluster.running_postmaster(home)
    if left_over is None:
        return False
    _logger.warning("stopping a Postgres, pid %d, that an earlier stack left running", left_over.pid)
    stop_postmaster(left_over)
    return True


def _end_orphans(home: Home) -> None:
    """Kill the children of a killed server: while they use its shared memory, a new server does not start."""
    for process in processes_in(home.postgres, name="postgres"):
        with suppress(psutil.NoSuchProcess):
            process.kill()
            wait_for_end(process, timeout_seconds=_IMMEDIATE_STOP_TIMEOUT_SECONDS)


def _says_ready(pid_file: Path, pid: int) -> bool:
    """Return whether the status line of the pid file says `ready`: recovery is over and connections are accepted."""
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _size(path: Path) -> int:
    return os.path.getsize(path) if path.exists() else 0


def _tail(path: Path, *, since: int) -> str:
    with open(path, "rb") as file:
        file.seek(since)
        return file.read().decode(errors="replace")


def _explain(said: str) -> str:
    if "No space left on device" in said:
        return "the disk is full; free some space and start again; no committed data is lost"
    return cluster.last_lines(said)
