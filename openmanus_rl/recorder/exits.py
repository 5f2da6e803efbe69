"""How this process ends, for runs that were not finished: normally, by an exception, or with an exit code."""

from __future__ import annotations

import sys
import threading
from typing import Any, NoReturn

from openmanus_rl.recorder.values import describe

__all__ = ["how_it_ended", "how_it_ends", "watch_exit"]

_exit: Any = None
_code: Any = None


def watch_exit() -> None:
    """Wrap sys.exit to remember its exit code, which atexit handlers cannot see otherwise."""
    global _exit
    if _exit is None:
        _exit, sys.exit = sys.exit, _noting_exit


def how_it_ended(error: BaseException | None) -> tuple[str, str | None]:
    """Return the status and message of a run whose block ended with this exception, or without one."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "completed", None
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", describe(error)
    return "failed", describe(error)


def how_it_ends() -> tuple[str, str | None]:
    """Return the status and message of a run that ends with the interpreter."""
    # Set by the interpreter when it prints an uncaught exception.
    error = getattr(sys, "last_value", None)
    if error is None and _code:
        error = SystemExit(_code)
    return how_it_ended(error if isinstance(error, BaseException) else None)


def _noting_exit(code: Any = None, /) -> NoReturn:
    global _code
    # In another thread, sys.exit ends only the thread.
    if threading.current_thread() is threading.main_thread():
        _code = code
    _exit(code)
    raise AssertionError  # sys.exit does not return.
