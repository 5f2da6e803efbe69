"""The targets, and the tables that show what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import linear_regression
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from benchmarks.measuring import COUNTS, Results
from benchmarks.writers import WRITERS

CHAT_TURNS = (10, 40, 160)
BEST = "the best peer"


@dataclass(frozen=True)
class Target:
    """A figure of ours, or its ratio to that of a peer, and the limit that it is to keep."""

    name: str
    question: str
    figure: str
    peer: str | None
    limit: float
    at_least: bool = False


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
    Target("bytes per rollout of 36 KB", "rollouts", "bytes", "jsonl", 1.2),
    Target("bytes per rollout of 200 KB that hardly compress", "long rollouts", "bytes", "jsonl", 1),
    Target("bytes per rollout of 200 KB of prose", "long rollouts of prose", "bytes", "jsonl", 1),
    Target("growth of bytes with turns: exponent", "growth", "exponent", None, 1.05),
    # Close to 16, a step and a value of 8 bytes each.
    Target("bytes per metric point", "points", "bytes_per_point", None, 17.6),
    Target("MB more memory in an outage", "outage", "grown_mb", None, 100),
    Target("lost in that outage", "outage", "lost", None, 0),
    Target("lost after kill -9 of the process", "kills of the process", "lost", None, 0),
    Target("lost after kill -9 of the group", "kills of the group", "lost", None, 0),
)


def add_growth(results: Results) -> None:
    """Add the exponents with which bytes grow when each turn carries the chat: 1 is proportional, 2 quadratic."""
    questions = [f"chats of {turns}" for turns in CHAT_TURNS]
    for writer in results.subjects(*questions):
        sizes = [log(results.figure(question, writer, "bytes") or 1) for question in questions]
        slope = linear_regression([log(turns) for turns in CHAT_TURNS], sizes).slope
        results.answers.setdefault("growth", {})[writer] = [{"exponent": slope}]


def judge(results: Results) -> list[dict[str, Any]]:
    """Return what was measured of each target of the questions that were asked, and whether that reaches it."""
    return [_judge(results, target) for target in TARGETS if target.question in results.answers]


def _judge(results: Results, target: Target) -> dict[str, Any]:
    peer = _best_peer(results, target) if target.peer == BEST else target.peer
    measured = results.figure(target.question, "ours", target.figure)
    if peer:
        measured = results.ratio(target.question, target.figure, peer)
    goal = f"{'at least' if target.at_least else 'at most'} {target.limit:g}"
    if target.peer:
        goal += f" × {_label(target.peer)}'s"
    verdict: dict[str, Any] = {"name": target.name, "goal": goal, "peer": peer, "measured": measured}
    if measured is None:
        return {**verdict, "reached": None, "verdict": "not measured: without that peer"}
    reached = measured >= target.limit if target.at_least else measured <= target.limit
    factor = max(measured, target.limit) / (min(measured, target.limit) or 1)
    return {**verdict, "reached": reached, "verdict": "reached" if reached else f"missed by a factor of {factor:.2f}"}


def _best_peer(results: Results, target: Target) -> str:
    """Return the peer whose figure is the lowest."""
    figures = {peer: results.figure(target.question, peer, target.figure) for peer in results.subjects(target.question)}
    others = {peer: figure for peer, figure in figures.items() if figure is not None and peer != "ours"}
    return min(others, key=lambda peer: others[peer])


def print_results(results: Results) -> None:
    """Print a table of each question, and the verdicts."""
    for question in results.answers:
        show(_question_table(results, question))
    rows = []
    for verdict in judge(results):
        measured = "" if verdict["measured"] is None else f"{verdict['measured']:.2f}"
        of = f" of {_label(verdict['peer'])}'s" if measured and verdict["peer"] else ""
        rows.append([verdict["name"], verdict["goal"], measured + of, verdict["verdict"]])
    show(make_table("Targets", ["to reach", "measured", "verdict"], rows, justify="left"))


def _question_table(results: Results, question: str) -> Table:
    """Return the figures of each subject, in brackets the ratio of the first one's to it."""
    first, *others = results.subjects(question)
    figures = results.answers[question][first][0]
    rows = []
    for subject in (first, *others):
        cells = []
        for name in figures:
            compared = subject != first and name not in ("count", *COUNTS)
            ratio = results.ratio(question, name, subject, base=first) if compared else None
            cells.append(_shown(results, question, subject, name) + ("" if ratio is None else f" ({ratio:.2f})"))
        rows.append([_label(subject), *cells])
    title = question + (f": medians, and ({_label(first)} ÷ it)" if others else "")
    return make_table(title, [name.replace("_", " ") for name in figures], rows)


def _shown(results: Results, question: str, subject: str, name: str) -> str:
    value = results.figure(question, subject, name)
    if value is None:
        return ""
    shown = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    values = results.values(question, subject, name)
    return f"{shown} [{min(values):,.0f} to {max(values):,.0f}]" if name == "rate" else shown


def _label(subject: str) -> str:
    return WRITERS[subject].label if subject in WRITERS else subject


def make_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, justify: JustifyMethod = "right"
) -> Table:
    """Return a table whose first column, without a heading, names the rows."""
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify=justify)
    for row in rows:
        # Brackets are no markup.
        table.add_row(*(Text(cell) for cell in row))
    return table


def show(table: Table) -> None:
    """Print a table as wide as the terminal, or wide enough where the output goes to a file."""
    terminal = Console()
    (terminal if terminal.is_terminal else Console(width=140)).print(table)
