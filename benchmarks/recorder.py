"""The recorder side by side with its peers, on one machine in one run.

    scripts/benchmark [--quick] [--json] [--repeats 5] [--writers ours,jsonl,trackio]

Peers that are not installed are left out, and the table says so. --quick shows that it works: its sizes and repeats are
too small to tell anything about speed.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from aggregate import Series
from common import Stack, running_stack
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from running import Question, ask
from survival import measure_kill, measure_outage
from tables import print_results
from targets import CHAT_TURNS, Results, judge
from workloads import LONG_OBSERVATION_CHARACTERS
from writers import REGISTRY, installed


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    metric_rows: int = 5000
    rollouts: int = 256
    long_rollouts: int = 64
    chat_turns: int = 640
    """In all: as many rollouts of 10, 40 or 160 turns as this makes, so that pages half full weigh alike."""
    outage_seconds: float = 60
    kills: int = 50
    """Of the process, and as many of its group."""
    repeats: int = 5
    size_repeats: int = 5
    """Of what only asks for bytes, which differ little."""
    peers_too: bool = True
    """Whether peers, too, record chats and are killed."""


QUICK = Sizes(
    metric_rows=200,
    rollouts=8,
    long_rollouts=4,
    chat_turns=160,
    outage_seconds=2,
    kills=1,
    repeats=2,
    size_repeats=1,
    peers_too=False,
)
# Slow peers say nothing more about bytes when rollouts are long.
_COMPARED_BY_SIZE = ("ours", "jsonl", "trackio", "inspect")


def make_questions(sizes: Sizes, writers: Sequence[str]) -> list[Question]:
    """Return the workloads and who takes part in each."""

    def taking_part(workload: str, among: Sequence[str] = tuple(REGISTRY)) -> tuple[str, ...]:
        return tuple(name for name in writers if name in among and workload in REGISTRY[name].workloads)

    return [
        Question("metrics", "metrics", sizes.metric_rows, taking_part("metrics"), repeats=sizes.repeats),
        Question("rollouts", "rollouts", sizes.rollouts, taking_part("rollouts"), repeats=sizes.repeats),
        *(
            Question(
                name,
                "rollouts",
                sizes.long_rollouts,
                taking_part("rollouts", _COMPARED_BY_SIZE),
                {"observation_characters": LONG_OBSERVATION_CHARACTERS, "prose": prose},
                sizes.size_repeats,
            )
            for name, prose in (("long rollouts", False), ("long rollouts of prose", True))
        ),
        *(
            Question(
                f"chats of {turns}",
                "chats",
                max(1, sizes.chat_turns // turns - 1),
                taking_part("chats", _COMPARED_BY_SIZE if sizes.peers_too else ("ours",)),
                {"turns": turns},
                sizes.size_repeats,
            )
            for turns in CHAT_TURNS
        ),
    ]


def measure(
    stack: Stack, sizes: Sizes, writers: Sequence[str], console: Console, *, log: Path | None = None
) -> Results:
    """Measure everything, with a bar that shows how far it is."""
    questions = make_questions(sizes, writers)
    victims = [(name, kill) for name in writers if name != "copy" for kill in _kills_of(name, sizes)]
    columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        total = sum(question.repeats * len(question.writers) for question in questions) + len(victims) + 1
        task = progress.add_task("", total=total)

        def done(what: str) -> None:
            progress.update(task, advance=1, description=what)

        answers = ask(questions, stack=stack, on_done=done, log=log)
        kills = _measure_kills(victims, stack, done)
        progress.update(task, description="outage")
        with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
            outage = measure_outage(stack, Path(folder), seconds=sizes.outage_seconds)
        done("outage")
    return Results({name: Series(by_writer) for name, by_writer in answers.items()}, outage, kills)


def _kills_of(name: str, sizes: Sizes) -> list[str]:
    # Of peers once each way is enough to see whether they lose anything.
    return ["process", "group"] * (sizes.kills if name == "ours" else int(sizes.peers_too))


def _measure_kills(
    victims: list[tuple[str, str]], stack: Stack, done: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    chance = random.Random(0)
    kills: dict[str, list[dict[str, Any]]] = {}
    for name, how in victims:
        with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
            kill = measure_kill(name, Path(folder), how=how, stack=stack, chance=chance)
        kills.setdefault(name, []).append(kill)
        done(f"kill -9: {name}")
    return kills


def as_json(results: Results) -> dict[str, Any]:
    """Return everything as a program would read it."""
    return {
        "targets": [{**asdict(verdict), "reached": verdict.reached} for verdict in judge(results)],
        "questions": {name: series.repeats for name, series in results.series.items()},
        "outage": results.outage,
        "kills": results.kills,
    }


def from_json(text: str) -> Results:
    """Return what was measured before."""
    read = json.loads(text)
    return Results({name: Series(found) for name, found in read["questions"].items()}, read["outage"], read["kills"])


def show(results: Results) -> None:
    """Print the tables, not narrower than they are where nobody says how wide the page is."""
    terminal = Console()
    print_results(terminal if terminal.is_terminal else Console(width=140), results, judge(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 repeats of small workloads, with JSONL alone")
    parser.add_argument("--json", action="store_true", help="print JSON, with every repeat")
    parser.add_argument("--repeats", type=int, help="repeats of each measurement (default 5)")
    parser.add_argument("--writers", help="comma-separated: which to measure beside ours and JSONL (default: all)")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of what --json printed before")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append each measurement as it is made, a line each")
    options = parser.parse_args()
    if options.show:
        show(from_json(options.show.read_text()))
        return
    wanted = options.writers.split(",") if options.writers else ["copy"] if options.quick else list(REGISTRY)
    if unknown := set(wanted) - REGISTRY.keys():
        parser.error(f"there is no writer {', '.join(sorted(unknown))}; there are {', '.join(REGISTRY)}")
    writers = [name for name in REGISTRY if name in ("ours", "jsonl", *wanted) and installed(name)]
    sizes = QUICK if options.quick else Sizes()
    if options.repeats:
        sizes = replace(sizes, repeats=options.repeats, size_repeats=options.repeats)

    messages = Console(stderr=True)
    messages.print(f"{sizes.repeats} repeats of: {', '.join(REGISTRY[name].label for name in writers)}")
    with running_stack() as stack:
        results = measure(stack, sizes, writers, messages, log=options.log)
    if options.json:
        print(json.dumps(as_json(results), indent=2))
    else:
        show(results)


if __name__ == "__main__":
    main()
