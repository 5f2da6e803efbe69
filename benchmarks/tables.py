"""Prints what was measured: a table a question, then the targets."""

from __future__ import annotations

from collections.abc import Iterable

from aggregate import Figure, Series
from rich.console import Console
from rich.table import Table
from targets import CHAT_TURNS, Results, Verdict, growth
from writers import REGISTRY

__all__ = ["print_results"]


def print_results(console: Console, results: Results, verdicts: Iterable[Verdict]) -> None:
    """Print all of it."""
    metrics, rollouts = results.series["metrics"], results.series["rollouts"]
    console.print(_call_table("What a row of 20 metrics costs the training thread", metrics, of="call"))
    console.print(_rate_table("Metric rows durable per second", metrics))
    console.print(_call_table("What a rollout of 20 turns costs the training thread", rollouts, of="item"))
    console.print(_rate_table("Rollouts durable per second", rollouts))
    console.print(_size_table(results))
    console.print(_chat_table(results))
    console.print(_kill_table(results))
    console.print(_verdict_table(verdicts))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _call_table(title: str, series: Series, *, of: str) -> Table:
    table = _table(title, "median", "ours ÷ it", "p99", "ours ÷ it", "longest call", "ours ÷ it")
    looks: list[tuple[str, str]] = [("median", of), ("p99", of), ("worst", "call")]
    for writer in series.writers:
        if writer == "copy":
            continue
        cells = []
        for statistic, kind in looks:
            figure, ours = series.call(writer, statistic, of=kind), series.call("ours", statistic, of=kind)
            cells += [_microseconds(figure), _ratio(ours, figure)]
        table.add_row(REGISTRY[writer].label, *cells)
    return table


def _rate_table(title: str, series: Series) -> Table:
    table = _table(title, "median", "lowest", "highest", "ours ÷ it")
    for writer in series.writers:
        rate = series.rate(writer)
        cells = [f"{value:,.0f}" for value in (rate.median, rate.lowest, rate.highest)]
        table.add_row(REGISTRY[writer].label, *cells, _ratio(series.rate("ours"), rate))
    return table


def _size_table(results: Results) -> Table:
    ratio = "ours ÷ it"
    table = _table("Bytes on disk per rollout", "36 KB", ratio, "200 KB, hardly compressible", ratio, "of prose", ratio)
    for writer in results.series["rollouts"].writers:
        if writer == "copy":
            continue
        cells = []
        for question in ("rollouts", "long rollouts", "long rollouts of prose"):
            cells += _size_cells(results.series[question], writer)
        table.add_row(REGISTRY[writer].label, *cells)
    return table


def _size_cells(series: Series, writer: str) -> list[str]:
    if writer not in series.writers:
        return ["", ""]
    size = series.disk_bytes(writer)
    return [f"{size.median:,.0f}", _ratio(series.disk_bytes("ours"), size)]


def _chat_table(results: Results) -> Table:
    columns = [f"{turns} turns" for turns in CHAT_TURNS]
    table = _table("Bytes on disk per rollout, whole chats", *columns, "exponent")
    for writer in results.series[f"chats of {CHAT_TURNS[0]}"].writers:
        sizes = [results.series[f"chats of {turns}"].disk_bytes(writer).median for turns in CHAT_TURNS]
        table.add_row(REGISTRY[writer].label, *(f"{size:,.0f}" for size in sizes), f"{growth(results, writer):.2f}")
    return table


def _kill_table(results: Results) -> Table:
    table = _table("Calls lost after kill -9", "returned", "lost: process", "lost: group")
    for writer, kills in results.kills.items():
        lost = [sum(kill["lost"] for kill in kills if kill["how"] == how) for how in ("process", "group")]
        table.add_row(REGISTRY[writer].label, str(sum(kill["returned"] for kill in kills)), *map(str, lost))
    return table


def _verdict_table(verdicts: Iterable[Verdict]) -> Table:
    table = Table(title="Targets", title_justify="left")
    for column in ("", "to reach", "measured", "verdict"):
        table.add_column(column, no_wrap=not column)
    for verdict in verdicts:
        measured = "" if verdict.measured is None else f"{verdict.measured:.2f} {verdict.note}"
        colour = {True: "green", False: "red", None: "yellow"}[verdict.reached]
        table.add_row(verdict.name, verdict.target, measured, f"[{colour}]{verdict.text()}[/]")
    return table


def _microseconds(figure: Figure) -> str:
    return f"{figure.median * 1e6:,.0f} µs"


def _ratio(ours: Figure, other: Figure) -> str:
    return f"{ours.median / other.median:.3f}" if other.median else ""
