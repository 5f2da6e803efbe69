"""The recorder side by side with its peers, on one machine in one run; peers that are not installed are left out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import MESSAGES, Measured, Question, Results, ask, run_json, temporary_folder
from benchmarks.reading import WAYS, measure_reading
from benchmarks.report import CHAT_TURNS, add_growth, judge, print_results
from benchmarks.stack import Stack, running_stack
from benchmarks.survival import measure_kill, measure_outage
from benchmarks.workloads import LONG_OBSERVATION_CHARACTERS, SCALARS
from benchmarks.writers import WRITERS, installed

PARTS = {
    "metrics": "what a row of 20 metrics costs, and how many become durable per second",
    "rollouts": "the same of rollouts of 20 turns, and their bytes on disk",
    "sustained": "how many rows and rollouts become durable per second when there are many",
    "long": "bytes on disk of long rollouts",
    "chats": "how bytes on disk grow with the turns of a chat",
    "record": "other ways to write rollouts into the database: COPY, ingest, the managers",
    "kills": "what is lost after kill -9",
    "outage": "memory and losses while the database is down",
    "points": "bytes on disk of a metric point when there are millions",
    "reading": "what get-metrics costs as a run grows",
}
PEERS = ("ours", "jsonl", "trackio", "wandb", "mlflow", "mlflow-async", "inspect")
# Bytes of long rollouts say little more about the others, which are slow.
COMPARED_BY_SIZE = ("ours", "jsonl", "trackio", "inspect")
# How much is measured, and how much by --quick.
SIZES: dict[str, tuple[Any, Any]] = {
    "metric_rows": (5_000, 200),
    "rollouts": (256, 8),
    "sustained_rows": (50_000, 400),
    "sustained_rollouts": (2_000, 16),
    "long_rollouts": (64, 4),
    # In all: as many rollouts of 10, 40 or 160 turns as this makes, so that half-full pages weigh alike.
    "chat_turns": (640, 160),
    "record_rollouts": (64, 4),
    # Of the process, and as many of its group. Of peers one is enough to see whether they lose anything.
    "kills": (50, 1),
    "outage_seconds": (60, 2),
    "points": (10_000_000, 20_000),
    "run_rollouts": ((1_000, 100_000, 1_000_000), (100, 1_000)),
    "reads": (50, 2),
    "repeats": (5, 2),
    "sustained_repeats": (3, 1),
}
_WORKER = str(Path(__file__).with_name("worker.py"))


def measure_writer(
    stack: Stack, workload: str, count: int, options: dict[str, Any], writer: str, seed: int
) -> Measured:
    """Let a writer record a workload in a process of its own."""
    job = {"task": "measure", "writer": writer, "workload": workload, "options": {"seed": seed, **options}}
    job["count"] = max(2, round(count * WRITERS[writer].share))
    with temporary_folder() as folder:
        return run_json([_WORKER, json.dumps(job | {"folder": str(folder)})], env=stack.env())


def compare(stack: Stack, sizes: dict[str, Any], writers: Sequence[str]) -> dict[str, list[Question]]:
    """Return, by part, the questions with which all writers take turns."""

    def of(
        name: str, workload: str, count: int, among: Sequence[str], repeats: str = "repeats", **options: Any
    ) -> Question:
        taking_part = [writer for writer in among if writer in writers]
        measure = partial(measure_writer, stack, workload, count, options)
        return Question(name, dict.fromkeys(taking_part, sizes[repeats]), measure)

    metrics = [name for name in PEERS if WRITERS[name].has_metrics]
    rollouts = [*PEERS, "copy"]
    sustained = "sustained_repeats"
    long = {"observation_characters": LONG_OBSERVATION_CHARACTERS}
    return {
        "metrics": [of("metrics", "metrics", sizes["metric_rows"], metrics)],
        "rollouts": [of("rollouts", "rollouts", sizes["rollouts"], rollouts)],
        "sustained": [
            of("sustained metrics", "metrics", sizes["sustained_rows"], metrics, sustained),
            of("sustained rollouts", "rollouts", sizes["sustained_rollouts"], rollouts, sustained),
        ],
        "long": [
            of("long rollouts", "rollouts", sizes["long_rollouts"], COMPARED_BY_SIZE, **long),
            of("long rollouts of prose", "rollouts", sizes["long_rollouts"], COMPARED_BY_SIZE, **long, prose=True),
        ],
        "chats": [
            of(f"chats of {turns}", "chats", max(1, sizes["chat_turns"] // turns - 1), COMPARED_BY_SIZE, turns=turns)
            for turns in CHAT_TURNS
        ],
        "record": [of("record", "rollouts", sizes["record_rollouts"], ("copy", "staging", "ingest", "managers"))],
    }


def examine(stack: Stack, sizes: dict[str, Any], writers: Sequence[str]) -> dict[str, list[Question]]:
    """Return, by part, the questions that are asked one after another: they kill, stop or fill what they measure."""
    killed = {name: sizes["kills"] if name == "ours" else 1 for name in PEERS if name in writers}
    points = partial(measure_writer, stack, "points", sizes["points"] // SCALARS, {})
    reading = partial(measure_reading, stack, sizes["run_rollouts"])
    outage = partial(measure_outage, stack, sizes["outage_seconds"])
    return {
        "kills": [
            Question(f"kills of the {how}", killed, partial(measure_kill, stack, how)) for how in ("process", "group")
        ],
        "outage": [Question("outage", {"ours": 1}, outage)],
        "points": [Question("points", {"ours": 1}, points)],
        "reading": [Question("get-metrics", dict.fromkeys(WAYS, sizes["reads"]), reading)],
    }


def parse() -> argparse.Namespace:
    parts = "\n".join(f"  {name:10} {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"parts:\n{parts}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="comma-separated: the parts to measure (default: all)")
    parser.add_argument("--quick", action="store_true", help="show that it works: too small to tell about speed")
    parser.add_argument("--json", action="store_true", help="print JSON, with every repeat")
    parser.add_argument("--repeats", type=int, help="repeats of each comparison (default 5; 3 of those sustained)")
    parser.add_argument("--writers", help="comma-separated: the peers to measure beside JSONL and COPY (default: all)")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of what --json printed before")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append each measurement as it is made, a line each")
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else list(PARTS)
    options.writers = options.writers.split(",") if options.writers else ["jsonl"] if options.quick else list(PEERS)
    for what, given, known in (("part", options.only, PARTS), ("writer", options.writers, PEERS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"there is no {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return options


def measure(options: argparse.Namespace) -> Results:
    """Measure the chosen parts on a stack of its own."""
    left_out = set(PEERS) - {"ours", "jsonl", *options.writers}
    writers = [name for name in WRITERS if name not in left_out and installed(name)]
    sizes = {name: size[options.quick] for name, size in SIZES.items()}
    if options.repeats:
        sizes |= {"repeats": options.repeats, "sustained_repeats": options.repeats}
    MESSAGES.print(f"Measuring {', '.join(options.only)} of {', '.join(writers)}")
    results = Results()
    with running_stack() as stack:
        compared = [q for part, asked in compare(stack, sizes, writers).items() if part in options.only for q in asked]
        examined = [
            [q] for part, asked in examine(stack, sizes, writers).items() if part in options.only for q in asked
        ]
        for questions in filter(None, [compared, *examined]):
            results.answers |= ask(questions, log=options.log).answers
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
