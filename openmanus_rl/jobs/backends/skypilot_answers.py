"""Keeps SkyPilot's answers for a while: its server may start a process for each, and is asked about once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

__all__ = ["Answers"]

Answer = TypeVar("Answer")

# What takes long to answer is asked more seldom, so that the questions alone never keep SkyPilot's server busy.
_PAUSE_FACTOR = 2.0
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass
class _Question:
    lock: threading.Lock = field(default_factory=threading.Lock)
    due_at: float = 0.0
    answer: Any = None
    times_forgotten: int = 0


class Answers:
    """Answers by what was asked. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._questions: dict[str, _Question] = {}

    def keep(self, what: str, seconds: float, ask: Callable[[], Answer]) -> Answer:
        """Return the answer to a question. One thread at a time asks it, and again after these seconds or more."""
        with self._lock:
            question = self._questions.setdefault(what, _Question())
        with question.lock:
            began_at, times_forgotten = time.monotonic(), question.times_forgotten
            if began_at < question.due_at:
                return cast(Answer, question.answer)
            answer = ask()
            now = time.monotonic()
            pause_seconds = min(_PAUSE_FACTOR * (now - began_at), _LONGEST_PAUSE_SECONDS)
            with self._lock:
                # Not if it was forgotten meanwhile: what has happened since is not in this answer.
                if question.times_forgotten == times_forgotten:
                    question.answer = answer
                    question.due_at = now + max(seconds, pause_seconds)
            return answer

    def forget(self, *asked: str) -> None:
        """Ask these questions anew the next time."""
        with self._lock:
            for what in asked:
                if what in self._questions:
                    self._questions[what].times_forgotten += 1
                    self._questions[what].due_at = 0.0
