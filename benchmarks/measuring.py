"""Runs measurements in turn, and keeps what they measured by question and subject."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

Measured = dict[str, Any]
MESSAGES = Console(stderr=True)
# Added up over the repeats; of other figures the median is taken.
COUNTS = ("returned", "lost")


@dataclass(frozen=True)
class Question:
    """What is measured of several subjects: writers, or sizes, or ways to train."""

    name: str
    repeats: dict[str, int]
    """How often each subject is measured."""
    measure: Callable[[str, int], Measured]
    """Given the subject and the number of the repeat."""


@dataclass
class Results:
    """What was measured: by question and subject, one measurement for each repeat."""

    answers: dict[str, dict[str, list[Measured]]] = field(default_factory=dict)

    def values(self, question: str, subject: str, name: str) -> list[float]:
        """Return a figure of all repeats; none if it was not measured."""
        repeats = self.answers.get(question, {}).get(subject, [])
        return [measured[name] for measured in repeats if name in measured]

    def figure(self, question: str, subject: str, name: str) -> float | None:
        """Return a figure over all repeats; None if it was not measured."""
        values = self.values(question, subject, name)
        if not values:
            return None
        return sum(values) if name in COUNTS else statistics.median(values)

    def ratio(self, question: str, name: str, other: str, *, base: str = "ours") -> float | None:
        """Return the figure of `base` divided by that of another; None if either was not measured."""
        above, below = self.figure(question, base, name), self.figure(question, other, name)
        return above / below if above is not None and below else None


def ask(questions: Sequence[Question]) -> Results:
    """Let the subjects of all questions take turns, so that other load on the machine affects all of them alike."""
    results = Results({question.name: {subject: [] for subject in question.repeats} for question in questions})
    turns = list(_turns(questions))
    with MESSAGES.status("") as status:
        for number, (question, subject, repeat) in enumerate(turns, start=1):
            status.update(f"{question.name}: {subject} ({number} of {len(turns)})")
            results.answers[question.name][subject].append(question.measure(subject, repeat))
    return results


def _turns(questions: Sequence[Question]) -> Iterator[tuple[Question, str, int]]:
    for repeat in range(max((times for question in questions for times in question.repeats.values()), default=0)):
        for question in questions:
            # Every other time in reverse: whatever grows or shrinks meanwhile affects all subjects alike.
            for subject in list(question.repeats)[:: 1 if repeat % 2 == 0 else -1]:
                if repeat < question.repeats[subject]:
                    yield question, subject, repeat
