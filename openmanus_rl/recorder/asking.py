"""Waiting for an answer no longer than a time limit, whatever hangs: a name server, a connection, a server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from openmanus_rl.errors import TimeoutExceeded

__all__ = ["within"]

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T], *, attempt: str) -> T:
    """Return what a call returns, or raise `TimeoutExceeded` when the time is over; the call itself is left behind.

    It runs in a thread of its own: what hangs in the operating system, such as looking up a name, can't be stopped.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        # Whatever it is, it is raised where the answer is waited for.
        except BaseException as error:  # noqa: BLE001
            answers.put((None, error))

    # A daemon: the process may end while the call still hangs.
    threading.Thread(target=run, name="openmanus-rl asking", daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutExceeded(f"{attempt}: no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]
