"""Runs measurements, each in a process of its own, in turns, so that whatever else the machine does hits all alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common import Stack
from worker import Job
from writers import REGISTRY

__all__ = ["Question", "ask", "run_worker"]

_WORKER = Path(__file__).with_name("worker.py")

Measured = dict[str, Any]
Answers = dict[str, dict[str, list[Measured]]]
"""By question and writer, a measurement a repeat."""


@dataclass(frozen=True)
class Question:
    """A workload, and who gets it."""

    name: str
    workload: str
    count: int
    writers: tuple[str, ...]
    options: dict[str, int] = field(default_factory=dict)
    repeats: int = 1

    def job(self, writer: str, folder: Path, seed: int) -> Job:
        """Return what one writer has to do in one repeat."""
        count = max(2, round(self.count * REGISTRY[writer].share))
        return Job(writer, self.workload, str(folder), count, seed=seed, **self.options)


def ask(
    questions: Iterable[Question], *, stack: Stack, on_done: Callable[[str], None], log: Path | None = None
) -> Answers:
    """Let the writers take turns with every question; a log, where there is one, gets each measurement at once."""
    questions = list(questions)
    answers: Answers = {question.name: {writer: [] for writer in question.writers} for question in questions}
    for repeat in range(max(question.repeats for question in questions)):
        for question in (question for question in questions if repeat < question.repeats):
            for writer in question.writers:
                with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
                    # Nobody is to pay for what the one before left to be written.
                    os.sync()
                    job = asdict(question.job(writer, Path(folder), seed=repeat))
                    measured = run_worker(job, env=stack.env())
                answers[question.name][writer].append(measured)
                if log is not None:
                    with log.open("a") as file:
                        file.write(json.dumps({"question": question.name, "job": job, "measured": measured}) + "\n")
                on_done(f"{question.name}: {writer}")
    return answers


def run_worker(job: dict[str, Any], *, env: dict[str, str]) -> Measured:
    """Do a job in a process of its own and return what it measured."""
    done = subprocess.run(
        [sys.executable, str(_WORKER), json.dumps(job)],
        env=env,
        # A folder that stays: what it leaves running (the recorder's courier) lives on there.
        cwd=env["OPENMANUS_RL_HOME"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"{job['writer']}, {job['workload']}: it failed\n{done.stdout}\n{done.stderr}")
    line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    measured: Measured = json.loads(line)
    return measured
