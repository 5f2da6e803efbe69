"""How SkyPilot is called: quietly, and with its errors translated."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from openmanus_rl.errors import ConnectionFailed, LaunchError

__all__ = ["QuietOutput", "same_logging", "translated"]

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# By name, because SkyPilot may not be there: what says that its API server does not answer, or not now.
_UNREACHABLE = frozenset(
    {
        "ApiServerConnectionError",
        "ServerTemporarilyUnavailableError",
        "ConnectionError",
        "ConnectTimeout",
        "ReadTimeout",
    }
)


@contextmanager
def same_logging() -> Iterator[None]:
    """Undo what an import does to the root logger: SkyPilot would make every library of this process print."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    if not handlers and logging.lastResort is not None:
        # What prints without any: `basicConfig` does nothing where there is one, also while other threads log.
        root.addHandler(logging.lastResort)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class QuietOutput:
    """Sends what is printed to stderr while any thread is inside: `redirect_stdout` alone is for one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._redirected: redirect_stdout[Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._redirected is None:
                self._redirected = redirect_stdout(sys.stderr)
                self._redirected.__enter__()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._redirected is not None:
                self._redirected.__exit__(None, None, None)
                self._redirected = None


_quiet_output = QuietOutput()


@contextmanager
def translated(attempt: str, *, ignored: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise what SkyPilot raises as a `LaunchError` with its message; what it prints goes to stderr.

    It is `ConnectionFailed` if SkyPilot's API server could not be reached.
    """
    try:
        with _quiet_output:
            yield
    except ignored:
        pass
    except (LaunchError, ModuleNotFoundError):
        raise
    except (Exception, SystemExit) as error:
        told = " ".join(_ESCAPES.sub("", str(error)).split()) or type(error).__name__
        message = f"SkyPilot could not {attempt}: {told}"
        if any(base.__name__ in _UNREACHABLE for base in type(error).__mro__):
            raise ConnectionFailed(message) from error
        raise LaunchError(message) from error
