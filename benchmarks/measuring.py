"""Runs measurements, and keeps what they measured by question and subject."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Measured = dict[str, Any]
MESSAGES = Console(stderr=True)
COUNTS = ("returned", "lost")


@dataclass(frozen=True)
class Question:
    """What is measured of several subjects, in turn: writers, or sizes, or ways to train."""

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
        return [measured[name] for measured in repeats if measured.get(name) is not None]

    def figure(self, question: str, subject: str, name: str) -> float | None:
        """Return a figure's median over the repeats, or of a count the sum; None if it was not measured."""
        values = self.values(question, subject, name)
        if not values:
            return None
        return sum(values) if name in COUNTS else statistics.median(values)

    def ratio(self, question: str, name: str, other: str, *, base: str = "ours") -> float | None:
        """Return the figure of `base` divided by that of another; None if either was not measured."""
        above, below = self.figure(question, base, name), self.figure(question, other, name)
        return above / below if above is not None and below else None

    def subjects(self, *questions: str) -> list[str]:
        """Return the subjects of some questions, each once."""
        return list(dict.fromkeys(name for question in questions for name in self.answers.get(question, {})))


def ask(questions: Sequence[Question], *, log: Path | None = None) -> Results:
    """Let the subjects of all questions take turns, so that other load on the machine affects all of them alike.

    Each measurement is appended to the log, if there is one, as soon as it is made.
    """
    results = Results({question.name: {subject: [] for subject in question.repeats} for question in questions})
    columns = (TextColumn("{task.description:36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=MESSAGES, transient=True) as progress:
        bar = progress.add_task("", total=sum(sum(question.repeats.values()) for question in questions))
        for question, subject, repeat in _turns(questions):
            progress.update(bar, description=f"{question.name}: {subject}")
            measured = question.measure(subject, repeat)
            results.answers[question.name][subject].append(measured)
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps({"question": question.name, "subject": subject, **measured}) + "\n")
            progress.advance(bar)
    return results


def _turns(questions: Sequence[Question]) -> Iterator[tuple[Question, str, int]]:
    for repeat in range(max(max(question.repeats.values(), default=0) for question in questions)):
        for question in questions:
            # Every other time in reverse: whatever grows or shrinks meanwhile affects all subjects alike.
            for subject in list(question.repeats)[:: 1 if repeat % 2 == 0 else -1]:
                if repeat < question.repeats[subject]:
                    yield question, subject, repeat


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for one measurement."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run_json(arguments: Sequence[str], *, env: dict[str, str]) -> Measured:
    """Run a Python program in a process of its own and return the JSON object on its last line."""
    # Nobody is to pay for what the process before left to be written.
    os.sync()
    done = subprocess.run(
        [sys.executable, *arguments],
        env=env,
        # A folder that stays: the recorder's courier may outlive the process.
        cwd=env["OPENMANUS_RL_HOME"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed\n{done.stdout}\n{done.stderr}")
    # Libraries print what they like before it.
    line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    measured: Measured = json.loads(line)
    return measured
