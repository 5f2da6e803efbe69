"""The targets, and the tables that show what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from statistics import linear_regression
from typing import Any

from benchmarks.measuring import COUNTS, Results
from benchmarks.writers import WRITERS

CHAT_TURNS = (10, 40, 160)
BEST = "the best peer"
OURS = ("ours", "http")
_REACHED = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Target:
    """A figure of ours, or its ratio to that of a peer, and the limit that it is to keep."""

    name: str
    question: str
    figure: str
    peer: str | None
    limit: float
    at_least: bool = False
    subject: str = "ours"


TARGETS = (
    Target("cost of a row of metrics, median", "metrics", "median_us", "jsonl", 1),
    Target("cost of a row of metrics, p99", "metrics", "p99_us", BEST, 1),
    Target("cost of a row of metrics, longest call", "metrics", "longest_call_us", BEST, 1),
    Target("cost of a rollout of 20 turns, median", "rollouts", "median_us", "jsonl", 1),
    Target("cost of a rollout of 20 turns, p99", "rollouts", "p99_us", BEST, 1),
    Target("cost of a rollout of 20 turns, longest call", "rollouts", "longest_call_us", BEST, 1),
    Target("metric rows durable per second", "metrics", "rate", "trackio", 3, at_least=True),
    Target("metric rows durable per second, sustained", "sustained metrics", "rate", "trackio", 3, at_least=True),
    Target("rollouts durable per second", "rollouts", "rate", "trackio", 2, at_least=True),
    Target("rollouts durable per second, beside COPY", "rollouts", "rate", "copy", 0.6, at_least=True),
    Target("rollouts durable per second, sustained", "sustained rollouts", "rate", "trackio", 2, at_least=True),
    Target("rollouts durable per second, sustained, beside COPY", "sustained rollouts", "rate", "copy", 0.6, True),
    *(
        Target(f"{what} durable per second{more}, over HTTP", question, "rate", "ours", 0.5, True, "http")
        for what, question, more in (
            ("metric rows", "metrics", ""),
            ("metric rows", "sustained metrics", ", sustained"),
            ("rollouts", "rollouts", ""),
            ("rollouts", "sustained rollouts", ", sustained"),
        )
    ),
    Target("bytes per rollout of 36 KB", "rollouts", "bytes", "jsonl", 1.2),
    Target("bytes per rollout of 200 KB that hardly compress", "long rollouts", "bytes", "jsonl", 1),
    Target("bytes per rollout of 200 KB of prose", "long rollouts of prose", "bytes", "jsonl", 1),
    Target("growth of bytes with turns: exponent", "growth", "exponent", None, 1.05),
    # Close to 16, a step and a value of 8 bytes each.
    Target("bytes per metric point", "points", "bytes", None, 17.6),
    Target("MB more memory in an outage", "outage", "grown_mb", None, 100),
    Target("lost in that outage", "outage", "lost", None, 0),
    Target("lost after kill -9 of the process", "kills of the process", "lost", None, 0),
    Target("lost after kill -9 of the group", "kills of the group", "lost", None, 0),
)


def add_growth(results: Results) -> None:
    """Add the exponents with which bytes grow when each turn carries the chat: 1 is proportional, 2 quadratic."""
    questions = [f"chats of {turns}" for turns in CHAT_TURNS]
    for writer in results.answers.get(questions[0], {}):
        sizes = [log(results.figure(question, writer, "bytes") or 1) for question in questions]
        slope = linear_regression([log(turns) for turns in CHAT_TURNS], sizes).slope
        results.answers.setdefault("growth", {})[writer] = [{"exponent": slope}]


def judge(results: Results) -> list[dict[str, Any]]:
    """Return what was measured of each target of the questions that were asked, and whether that reaches it."""
    return [_judge(results, target) for target in TARGETS if target.question in results.answers]


def _judge(results: Results, target: Target) -> dict[str, Any]:
    goal = f"{'at least' if target.at_least else 'at most'} {target.limit:g}"
    peer = _best_peer(results, target) if target.peer == BEST else target.peer
    if peer:
        goal += f" × {_label(target.peer)}'s"
        measured = results.ratio(target.question, target.figure, peer, base=target.subject)
    else:
        measured = results.figure(target.question, target.subject, target.figure)
    reached = None
    if measured is not None:
        reached = measured >= target.limit if target.at_least else measured <= target.limit
    return {"name": target.name, "goal": goal, "peer": peer, "measured": measured, "reached": reached}


def _best_peer(results: Results, target: Target) -> str:
    """Return the peer whose figure is the lowest."""
    figures = {peer: results.figure(target.question, peer, target.figure) for peer in results.answers[target.question]}
    return min(
        (figure, peer) for peer, figure in figures.items() if figure is not None and peer not in ("ours", "http")
    )[1]


def print_results(results: Results) -> None:
    """Print a table of each question, and whether the targets are reached."""
    for question in results.answers:
        _print_question(results, question)
    rows = []
    for verdict in judge(results):
        measured = "not measured: without that peer"
        if verdict["measured"] is not None:
            measured = f"{verdict['measured']:.2f}" + (f" of {_label(verdict['peer'])}'s" if verdict["peer"] else "")
        rows.append([verdict["name"], verdict["goal"], measured, _REACHED[verdict["reached"]]])
    print_table("Targets", ["to reach", "measured", "reached"], rows)


def _print_question(results: Results, question: str) -> None:
    """Print the figures of each subject, in brackets the ratio of the first one's to it."""
    first, *others = results.answers[question]
    figures = results.answers[question][first][0]
    rows = []
    for subject in (first, *others):
        cells = [_label(subject)]
        for name in figures:
            compared = subject != first and name not in ("count", *COUNTS)
            ratio = results.ratio(question, name, subject, base=first) if compared else None
            cells.append(_shown(results, question, subject, name) + ("" if ratio is None else f" ({ratio:.2f})"))
        rows.append(cells)
    title = question + (f": medians, and ({_label(first)} ÷ it)" if others else "")
    print_table(title, [name.replace("_", " ") for name in figures], rows)


def _shown(results: Results, question: str, subject: str, name: str) -> str:
    value = results.figure(question, subject, name)
    if value is None:
        return ""
    shown = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    values = results.values(question, subject, name)
    return f"{shown} [{min(values):,.0f} to {max(values):,.0f}]" if name == "rate" else shown


def _label(subject: str | None) -> str:
    return WRITERS[subject].label if subject in WRITERS else str(subject)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown, whose first column names the rows and has no heading."""
    lines = [["", *columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    print(f"\n{title}\n")
    for cells in lines:
        print(f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |")
