"""How this process ends, for a run that nobody finished: normally, by an exception, or with an exit code of failure."""

from __future__ import annotations

import sys
import threading
from typing import Any, NoReturn

from openmanus_rl.recorder.values import describe

__all__ = ["how_it_ended", "how_it_ends", "watch_exit"]

_exit: Any = None
_code: Any = None


def watch_exit() -> None:
    """Notice from now on with which code sys.exit ends the process: the interpreter itself does not tell."""
    global _exit
    if _exit is None:
        _exit, sys.exit = sys.exit, _noting_exit


def how_it_ended(error: BaseException | None) -> tuple[str, str | None]:
    """Return the status and the message of what ended with this exception, or without one."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "completed", None
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", describe(error)
    return "failed", describe(error)


def how_it_ends() -> tuple[str, str | None]:
    """Return the status and the message of what ends with the interpreter."""
    # Set by the interpreter when it prints an exception that nobody caught.
    error = getattr(sys, "last_value", None)
    if error is None and _code:
        error = SystemExit(_code)
    return how_it_ended(error if isinstance(error, BaseException) else None)


def _noting_exit(code: Any = None, /) -> NoReturn:
    global _code
    # In another thread it ends the thread alone.
    if threading.current_thread() is threading.main_thread():
        _code = code
    _exit(code)
    raise AssertionError  # sys.exit does not return.
