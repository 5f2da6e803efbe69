"""The targets, and whether they are reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aggregate import Series, exponent
from writers import REGISTRY

__all__ = ["CHAT_TURNS", "Results", "Verdict", "judge"]

CHAT_TURNS = (10, 40, 160)
LARGEST_GROWTH_MB = 100.0


@dataclass(frozen=True)
class Verdict:
    """A line of the table: what is to be reached, and what was."""

    name: str
    target: str
    measured: float | None
    limit: float
    at_least: bool = False
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Say whether the target is reached; None where the peer is not there to compare with."""
        if self.measured is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def text(self) -> str:
        """Return the verdict in words."""
        if self.measured is None:
            return "not measured: the peer is not installed"
        if self.reached:
            return "reached"
        if not self.limit:
            return f"missed by {self.measured:,.0f}"
        factor = self.limit / self.measured if self.at_least else self.measured / self.limit
        return f"missed by a factor of {factor:.2f}"


@dataclass(frozen=True)
class Results:
    """Everything that was measured."""

    series: dict[str, Series]
    outage: dict[str, float]
    kills: dict[str, list[dict[str, Any]]]


def judge(results: Results) -> list[Verdict]:
    """Compare what was measured with what is to be reached."""
    return [*_call_costs(results), *_rates(results), *_sizes(results), *_survival(results)]


def _call_costs(results: Results) -> Iterator[Verdict]:
    for question, what, of in (("metrics", "a row of metrics", "call"), ("rollouts", "a rollout of 20 turns", "item")):
        series = results.series[question]
        ours = series.call("ours", "median", of=of).median
        jsonl = series.call("jsonl", "median", of=of).median
        yield Verdict(f"cost of {what}, median", "at most JSONL's", ours / jsonl, 1.0, note="of JSONL's")
        for statistic, name in (("p99", "p99"), ("worst", "worst stall")):
            # The longest single call, also of rollouts: that is how long training stands still.
            kind = "call" if statistic == "worst" else of
            costs = {
                peer: series.call(peer, statistic, of=kind).median
                for peer in series.writers
                if peer not in ("ours", "copy")
            }
            best = min(costs, key=lambda peer: costs[peer])
            ratio = series.call("ours", statistic, of=kind).median / costs[best]
            yield Verdict(
                f"cost of {what}, {name}", "below every peer's", ratio, 1.0, note=f"of the best, {REGISTRY[best].label}"
            )


def _rates(results: Results) -> Iterator[Verdict]:
    for question, what, peer, limit in (
        ("metrics", "metric rows durable per second", "trackio", 3.0),
        ("rollouts", "rollouts durable per second", "trackio", 2.0),
        ("rollouts", "rollouts durable per second", "copy", 0.6),
    ):
        series = results.series[question]
        there = peer in series.writers
        ratio = series.rate("ours").median / series.rate(peer).median if there else None
        name = REGISTRY[peer].label
        yield Verdict(f"{what} ({name})", f"at least {limit:g} × {name}'s", ratio, limit, True, f"of {name}'s")


def _sizes(results: Results) -> Iterator[Verdict]:
    for question, size, limit in (
        ("rollouts", "36 KB", 1.2),
        ("long rollouts", "200 KB that hardly compress", 1.0),
        ("long rollouts of prose", "200 KB of prose", 1.0),
    ):
        series = results.series[question]
        ratio = series.disk_bytes("ours").median / series.disk_bytes("jsonl").median
        yield Verdict(f"bytes per rollout of {size}", f"at most {limit:g} × JSONL's", ratio, limit, note="of JSONL's")
    yield Verdict("growth of bytes with turns", "exponent at most 1.05", growth(results, "ours"), 1.05)


def growth(results: Results, writer: str) -> float:
    """Return the exponent with which a writer's bytes grow when each turn carries the chat."""
    return exponent([(turns, results.series[f"chats of {turns}"].disk_bytes(writer).median) for turns in CHAT_TURNS])


def _survival(results: Results) -> Iterator[Verdict]:
    yield Verdict(
        f"memory in an outage of {results.outage['seconds']:.0f} s",
        f"bounded: grows by at most {LARGEST_GROWTH_MB:.0f} MB",
        results.outage["grown_mb"],
        LARGEST_GROWTH_MB,
        note=f"MB more, of {results.outage['rss_before_mb']:.0f} MB; {results.outage['spooled_mb']:.1f} MB were logged",
    )
    yield Verdict("lost in that outage", "0", results.outage["lost"], 0)
    for how in ("process", "group"):
        lost = sum(kill["lost"] for kill in results.kills["ours"] if kill["how"] == how)
        times = sum(kill["how"] == how for kill in results.kills["ours"])
        yield Verdict(f"lost after kill -9 of the {how}", "0", lost, 0, note=f"records in {times} kills")
