"""The Postgres process: started as a child, watched for readiness, stopped without losing a commit."""

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
from openmanus_rl.local.account import Account, grant_passage
from openmanus_rl.local.cluster import Binaries
from openmanus_rl.local.home import Home
from openmanus_rl.local.processes import end_at_once, processes_in, wait_for_end

_logger = logging.getLogger(__name__)

# Crash recovery replays at most max_wal_size; on a slow disk that takes a while, and giving up would not help.
_START_TIMEOUT_SECONDS = 300.0
_FAST_STOP_TIMEOUT_SECONDS = 60.0
_IMMEDIATE_STOP_TIMEOUT_SECONDS = 15.0
_PORT_ATTEMPTS = 5


class PostgresProcess:
    """One Postgres server on the home's data directory."""

    def __init__(self, *, home: Home, binaries: Binaries, account: Account, port: int) -> None:
        self._home = home
        self._binaries = binaries
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        # Once clients know the port, a restart must not move it.
        self._port_is_known = False
        self._ready = False
        self.port = port

    @property
    def serving_pid(self) -> int | None:
        """Return the server's process; None while there is none or it is starting."""
        process = self._process
        return process.pid if process is not None and self._ready and process.poll() is None else None

    def start(self) -> None:
        """Start the server and return when it takes connections."""
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
            # Between choosing a port and listening on it another program can take it.
            if "could not bind" not in said or attempt == _PORT_ATTEMPTS:
                raise StackError(f"Postgres did not start: {_explain(said)} (log: {self._home.postgres_log})")
            self._choose_another_port()

    def exit_code(self) -> int | None:
        """Return how the server ended; None while it runs."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """Disconnect everyone, write all to disk and end."""
        if self._process is None:
            return
        stop_postmaster(psutil.Process(self._process.pid) if self._process.poll() is None else None)
        self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End a server that hangs, at once; recovery at the next start keeps all that was committed."""
        if self._process is not None and self._process.poll() is None:
            end_at_once(psutil.Process(self._process.pid), how=signal.SIGQUIT)
            self._process.wait(_IMMEDIATE_STOP_TIMEOUT_SECONDS)

    def _choose_another_port(self) -> None:
        if self._port_is_known:
            raise StackError(f"Postgres lost port {self.port}: it is {ports.describe_holder(self.port)}")
        self.port = ports.free_port()

    def _spawn(self) -> None:
        grant_passage(self._home.postgres, self._account)
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
                # Ctrl-C reaches a whole foreground group; the supervisor alone decides the order of stopping.
                start_new_session=True,
                **self._account.popen_options,  # type: ignore[call-overload]
            )

    def _fixed_settings(self) -> dict[str, str]:
        return {
            "listen_addresses": ports.HOST,
            "port": str(self.port),
            # A socket file would be bound by the short limit on such paths; TCP with a password serves everyone.
            "unix_socket_directories": "",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "password_encryption": "scram-sha-256",
            # A statement that fails is told to who sent it; its values are not for the log.
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
    """End a Postgres server: fast, and at once if that hangs; neither loses a commit."""
    if process is None:
        return
    for how, timeout_seconds in (
        (signal.SIGINT, _FAST_STOP_TIMEOUT_SECONDS),
        (signal.SIGQUIT, _IMMEDIATE_STOP_TIMEOUT_SECONDS),
    ):
        try:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)  # One that was stopped hears nothing else.
        except psutil.NoSuchProcess:
            return
        except psutil.AccessDenied as error:
            raise StackError(f"no permission to stop Postgres, pid {process.pid}; stop it as its own user") from error
        if wait_for_end(process, timeout_seconds=timeout_seconds):
            return
        _logger.warning("Postgres, pid %d, did not end within %.0f s of %s", process.pid, timeout_seconds, how.name)
    process.kill()
    wait_for_end(process, timeout_seconds=_IMMEDIATE_STOP_TIMEOUT_SECONDS)


def stop_left_over(home: Home) -> bool:
    """Stop a Postgres whose supervisor was killed; True if there was one."""
    left_over = cluster.running_postmaster(home)
    if left_over is None:
        return False
    _logger.warning("stopping Postgres, pid %d, which an earlier stack left behind", left_over.pid)
    stop_postmaster(left_over)
    return True


def _end_orphans(home: Home) -> None:
    """End what a killed server left: a new one does not start while any of them is attached to the old memory."""
    for process in processes_in(home.postgres, name="postgres"):
        with suppress(psutil.NoSuchProcess):
            process.kill()
            wait_for_end(process, timeout_seconds=_IMMEDIATE_STOP_TIMEOUT_SECONDS)


def _says_ready(pid_file: Path, pid: int) -> bool:
    """Read the server's own status line: it is `ready` once recovery is over and connections are taken."""
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
        return "the disk is full; free some space and start again, nothing committed is lost"
    return cluster.last_words(said)
