"""The recorder side by side with its peers, on one machine in one run; peers that are not installed are left out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import MESSAGES, Measured, Question, Results, ask
from benchmarks.report import CHAT_TURNS, add_growth, judge, print_results
from benchmarks.stack import Stack, run_json, running_stack, temporary_folder
from benchmarks.survival import WORKER, measure_kill, measure_outage
from benchmarks.workloads import LONG_OBSERVATION_CHARACTERS, SCALARS
from benchmarks.writers import WRITERS

PARTS = {
    "metrics": "what a row of 20 metrics costs, and how many become durable per second",
    "rollouts": "the same of rollouts of 20 turns, and their bytes on disk",
    "sustained": "how many rows and rollouts become durable per second when there are many",
    "long": "bytes on disk of long rollouts",
    "chats": "how bytes on disk grow with the turns of a chat",
    "kills": "what is lost after kill -9",
    "outage": "memory and losses while the database is down",
    "points": "bytes on disk of a metric point when there are millions",
}
PEERS = [name for name in WRITERS if name not in ("http", "copy")]
# Bytes of long rollouts say little more about the others, which are slow.
COMPARED_BY_SIZE = ("ours", "jsonl", "trackio", "inspect")
LONG = {"observation_characters": LONG_OBSERVATION_CHARACTERS}
SUSTAINED_REPEATS = 3
# --quick measures this share of everything.
QUICK_SHARE = 1 / 30


def measure_writer(
    stack: Stack, workload: str, count: float, options: dict[str, Any], writer: str, seed: int
) -> Measured:
    """Let a writer record a workload in a process of its own."""
    job = {"task": "measure", "writer": writer, "workload": workload, "options": {"seed": seed, **options}}
    job["count"] = max(2, round(count * WRITERS[writer].share))
    with temporary_folder() as folder:
        return run_json([WORKER, json.dumps(job | {"folder": str(folder)})], env=stack.env())


def compare(stack: Stack, share: float, repeats: int, writers: list[str]) -> dict[str, list[Question]]:
    """Return, by part, the questions with which all writers take turns."""

    def of(name: str, workload: str, count: float, among: Iterable[str], times: int = repeats, **more: Any) -> Question:
        measure = partial(measure_writer, stack, workload, count, more)
        return Question(name, {writer: times for writer in among if writer in writers}, measure)

    with_metrics = [name for name in WRITERS if WRITERS[name].has_metrics]
    sustained = min(repeats, SUSTAINED_REPEATS)
    # As many rollouts of 10, 40 or 160 turns as this makes, so that half-full pages weigh alike.
    chat_turns = max(160, 640 * share)
    return {
        "metrics": [of("metrics", "metrics", 5_000 * share, with_metrics)],
        "rollouts": [of("rollouts", "rollouts", 256 * share, WRITERS)],
        "sustained": [
            of("sustained metrics", "metrics", 50_000 * share, with_metrics, sustained),
            of("sustained rollouts", "rollouts", 2_000 * share, WRITERS, sustained),
        ],
        "long": [
            of("long rollouts", "rollouts", 64 * share, COMPARED_BY_SIZE, **LONG),
            of("long rollouts of prose", "rollouts", 64 * share, COMPARED_BY_SIZE, **LONG, prose=True),
        ],
        "chats": [
            of(f"chats of {turns}", "chats", chat_turns / turns - 1, COMPARED_BY_SIZE, turns=turns)
            for turns in CHAT_TURNS
        ],
    }


def examine(stack: Stack, share: float, writers: list[str]) -> dict[str, list[Question]]:
    """Return, by part, the questions that are asked one after another: they kill, stop or fill what they measure."""
    # Of peers one kill is enough to see whether they lose anything.
    killed = {name: max(1, round(50 * share)) if name == "ours" else 1 for name in PEERS if name in writers}
    points = partial(measure_writer, stack, "points", 10_000_000 / SCALARS * share, {})
    return {
        "kills": [
            Question(f"kills of the {how}", killed, partial(measure_kill, stack, how)) for how in ("process", "group")
        ],
        "outage": [Question("outage", {"ours": 1}, partial(measure_outage, stack, 60 * share))],
        "points": [Question("points", {"ours": 1}, points)],
    }


def parse() -> argparse.Namespace:
    parts = "\n".join(f"  {name:10} {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"parts:\n{parts}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="comma-separated: the parts to measure (default: all)")
    parser.add_argument("--quick", action="store_true", help="show that it works: too small to tell about speed")
    parser.add_argument("--json", action="store_true", help="print JSON, with every repeat")
    parser.add_argument(
        "--repeats", type=int, help="repeats of each comparison (default 5, quick 2, sustained at most 3)"
    )
    parser.add_argument("--writers", help="comma-separated: the peers to measure beside JSONL and COPY (default: all)")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of what --json printed before")
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else list(PARTS)
    options.repeats = options.repeats or (2 if options.quick else 5)
    options.writers = options.writers.split(",") if options.writers else ["jsonl"] if options.quick else PEERS
    for what, given, known in (("part", options.only, PARTS), ("writer", options.writers, PEERS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"there is no {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return options


def measure(options: argparse.Namespace) -> Results:
    """Measure the chosen parts on a stack of its own."""
    chosen = {"ours", "http", "jsonl", "copy", *options.writers}
    writers = [name for name, entry in WRITERS.items() if name in chosen and entry.is_installed]
    share = QUICK_SHARE if options.quick else 1.0
    MESSAGES.print(f"Measuring {', '.join(options.only)} of {', '.join(writers)}")
    results = Results()
    with running_stack() as stack:
        compared = compare(stack, share, options.repeats, writers)
        examined = examine(stack, share, writers)
        together = [question for part, asked in compared.items() if part in options.only for question in asked]
        alone = [[question] for part, asked in examined.items() if part in options.only for question in asked]
        for questions in (together, *alone):
            results.answers |= ask(questions).answers
    add_growth(results)
    return results


def main() -> None:
    options = parse()
    if options.show:
        print_results(Results(json.loads(options.show.read_text())["questions"]))
        return
    results = measure(options)
    if options.json:
        print(json.dumps({"targets": judge(results), "questions": results.answers}, indent=2))
    else:
        print_results(results)


if __name__ == "__main__":
    main()
