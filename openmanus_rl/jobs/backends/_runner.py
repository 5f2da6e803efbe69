"""The runner of a local attempt: a process of its own that starts the program, keeps its log, and tells how it ended.

Run by its path, with nothing of the package: `_runner.py FOLDER COMMAND...`. It outlives the orchestrator, and the
program does not outlive it: the kernel kills the program when the runner dies, by `kill -9` too. In the folder:

    lock            locked while the runner is alive
    started.json    written before the program is started: who runs here; never a second time
    program.json    the program's process
    stop.json       written by the orchestrator: end the program within `grace_seconds`
    log             what the program printed, as valid UTF-8
    exit.json       how it ended, written after the last byte of the log

So whenever it is killed: without started.json nothing has been started; with exit.json it has ended; else it runs if
the lock is held, and was lost if not.
"""

import codecs
import ctypes
import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LOCK, STARTED, PROGRAM, STOP, LOG, EXIT = "lock", "started.json", "program.json", "stop.json", "log", "exit.json"

# Beyond this the middle of the log is left out: its end is kept in memory, and written when the program has ended.
LOG_BYTES = 50 * 2**20
LOG_END_BYTES = 2**20

_SET_PDEATHSIG = 1
_TICK_SECONDS = 0.25
_LOCK_SECONDS = 10.0
_READ_BYTES = 64 * 1024
_NO_PROGRAM = 127
# When the runner itself is told to end, as by a machine that shuts down.
_OWN_GRACE_SECONDS = 60.0


class LogDecoder:
    """Makes log text of what a program prints, in pieces of any size: the result does not depend on where they end."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, printed: bytes, *, final: bool = False) -> str:
        """Return the text; bytes that are no UTF-8, and NUL, which Postgres does not store, become U+FFFD."""
        return self._decoder.decode(printed, final).replace("\0", "\ufffd")


class Log:
    """The log file: its first part as it comes, and of what is beyond the limit only the end."""

    def __init__(self, path: Path, *, limit: int = LOG_BYTES, end_bytes: int = LOG_END_BYTES) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._decoder = LogDecoder()
        self._room, self._end_bytes = limit - end_bytes, end_bytes
        self._end = ""
        self._left_out = 0
        self._is_full = False

    def write(self, printed: bytes, *, final: bool = False) -> None:
        """Add what the program printed. A full disk loses text, and never stops the program."""
        text = self._decoder.decode(printed, final=final)
        size = len(text.encode())
        if not self._is_full and size <= self._room:
            self._room -= size
            self._append(text)
            return
        if not self._is_full:
            self._is_full = True
            self._append("\n[the log is full; of what follows only the end is kept, and shown when the program ends]\n")
        self._end += text
        # A character has at most 4 bytes.
        surplus = len(self._end) - self._end_bytes // 4
        if surplus > self._end_bytes // 4 or (final and surplus > 0):
            self._left_out += len(self._end[:surplus].encode())
            self._end = self._end[surplus:]

    def close(self) -> None:
        """Write the end of a log that was full."""
        self.write(b"", final=True)
        if self._end:
            self._append(f"[{self._left_out} bytes were left out]\n{self._end}")
        os.close(self._file)

    def _append(self, text: str) -> None:
        left = content = text.encode()
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            # The disk is full. Readers have read whole characters: keep those, and not a part of one.
            written = content[: len(content) - len(left)]
            part = len(written) - len(written.decode("utf-8", "ignore").encode())
            with suppress(OSError):
                os.ftruncate(self._file, os.fstat(self._file).st_size - part)


class Runner:
    """Runs one program in its folder."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._folder = folder
        self._command = command
        self._own_signal: int | None = None
        self._kill_at: float | None = None
        self._was_asked = False

    def run(self) -> None:
        """Run the program to its end, unless another runner has this attempt or had it."""
        if not self._take_lock():
            return
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note_signal)
        write_json(self._folder / STARTED, {"pid": os.getpid(), "started_at": time.time()})
        self._log = Log(self._folder / LOG)
        code = self._run_program()
        self._log.close()
        ended = {"exit_code": code, "was_stopped": self._was_asked, "signal": self._own_signal, "ended_at": time.time()}
        write_json(self._folder / EXIT, ended)

    def _take_lock(self) -> bool:
        """Return whether this runner may start the program; the lock is held until the process ends."""
        self._lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _LOCK_SECONDS
        while time.monotonic() < deadline:
            if (self._folder / STARTED).exists():
                return False
            # Whoever looks whether a runner is alive has the lock for a moment.
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return not (self._folder / STARTED).exists()
            time.sleep(0.01)
        return False

    def _note_signal(self, number: int, _frame: Any) -> None:
        self._own_signal = self._own_signal or number

    def _run_program(self) -> int:
        try:
            program = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent(os.getpid()),
            )
        except OSError as error:
            self._log.write(f"{self._command[0]}: {error.strerror}\n".encode())
            return _NO_PROGRAM
        write_json(self._folder / PROGRAM, {"pid": program.pid})
        assert program.stdout is not None
        self._follow(program.pid, program.stdout.fileno())
        # What it left running would keep a GPU. It is not reaped yet, so the number is still its own.
        _signal_group(program.pid, signal.SIGKILL)
        return program.wait()

    def _follow(self, pid: int, output: int) -> None:
        """Read what the program prints until it has ended."""
        os.set_blocking(output, False)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not _has_ended(pid):
                if selector.get_map():
                    is_open = not selector.select(_TICK_SECONDS) or self._read(output)
                    if not is_open:
                        selector.unregister(output)
                else:
                    time.sleep(_TICK_SECONDS / 10)
                self._stop_if_asked(pid)
        # Something that it started may keep the pipe open for ever.
        while self._read(output, at_end=True):
            pass

    def _read(self, output: int, *, at_end: bool = False) -> bool:
        """Add what was printed to the log; return whether there may be more."""
        try:
            printed = os.read(output, _READ_BYTES)
        except BlockingIOError:
            return not at_end
        self._log.write(printed)
        return bool(printed)

    def _stop_if_asked(self, pid: int) -> None:
        asked = read_json(self._folder / STOP)
        if asked is None and self._own_signal is None:
            return
        now = time.monotonic()
        grace = _OWN_GRACE_SECONDS if asked is None else float(asked["grace_seconds"])
        if self._kill_at is None:
            _signal_group(pid, signal.SIGTERM)
            _signal_group(pid, signal.SIGCONT)
            self._kill_at = now + grace
        elif asked is not None and not self._was_asked:
            self._kill_at = min(self._kill_at, now + grace)
        elif grace == 0:
            self._kill_at = now
        self._was_asked = asked is not None
        if now >= self._kill_at:
            _signal_group(pid, signal.SIGKILL)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file as a whole: it is there with all of its content, or not at all."""
    scratch = path.with_name(f".{path.name}-{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the content of a file, or None if there is none."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return content


def _die_with_parent(parent: int) -> Any:
    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(_NO_PROGRAM)  # It died before the kernel knew that we ask.

    return prepare


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended, and leave it to be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


if __name__ == "__main__":
    os.umask(0o077)
    with suppress(FileNotFoundError):  # The attempt was removed before it was begun.
        Runner(Path(sys.argv[1]), sys.argv[2:]).run()
