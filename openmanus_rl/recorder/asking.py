"""Calls with a time limit, whatever hangs: DNS, a connection, a server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from openmanus_rl.errors import TimeoutExceeded

__all__ = ["within"]

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T], *, attempt: str) -> T:
    """Return the result of a call, or raise `TimeoutExceeded`.

    The call runs in a thread of its own and is not stopped: system calls such as DNS lookups cannot be.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        # Raised in the calling thread.
        except BaseException as error:  # noqa: BLE001
            answers.put((None, error))

    # A daemon, so that the process can end while the call hangs.
    threading.Thread(target=run, name="openmanus-rl asking", daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutExceeded(f"{attempt}: no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]
