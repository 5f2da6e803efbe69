"""The queue of rollouts beside procrastinate's, on the same Postgres in the same run, and what a claim costs.

Rates are of jobs that do nothing, claimed and ended per second; procrastinate is left out if it is not installed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from functools import partial
from importlib.util import find_spec

from benchmarks.claims import fill, measure_claims
from benchmarks.measuring import MESSAGES, Measured, Question, Results, ask
from benchmarks.queues import Ours, Procrastinate, Queue, measure
from benchmarks.report import print_table
from benchmarks.stack import Stack, running_stack

PARTS = {
    "rates": "rollouts claimed and ended per second at 1, 4 and 16 at once, and by four processes",
    "claims": "what a claim costs with a thousand and with a million finished rollouts",
}
# Rollouts at once of each process, and processes.
WORKERS = {"1 worker": (1, 1), "4 workers": (4, 1), "16 workers": (16, 1), "4 processes of 4": (4, 4)}
QUICK_WORKERS = ("1 worker", "4 workers")
OURS, PEER = "ours", "procrastinate"


def rates(stack: Stack, names: Iterable[str], *, count: int, repeats: int) -> list[Question]:
    """Return a question for each number of workers, whose subjects are the queues."""
    queues: dict[str, Queue] = {OURS: Ours(stack)}
    if find_spec(PEER) is not None:
        queues[PEER] = Procrastinate(stack)

    def measure_rate(at_once: int, processes: int, subject: str, _repeat: int) -> Measured:
        return measure(queues[subject], stack, count=count, at_once=at_once, processes=processes)

    return [Question(name, dict.fromkeys(queues, repeats), partial(measure_rate, *WORKERS[name])) for name in names]


def claims(sizes: list[int], repeats: int) -> Results:
    """Measure claims on two stacks in turns, which differ in the number of finished rollouts."""
    with running_stack() as large, running_stack() as small:
        stacks = {f"{size:,} finished": stack for size, stack in zip(sizes, (large, small), strict=True)}
        for size, stack in zip(sizes, stacks.values(), strict=True):
            MESSAGES.print(f"Adding {size:,} finished rollouts")
            fill(stack, size)
        question = Question(
            "claims", dict.fromkeys(stacks, repeats), lambda subject, _repeat: measure_claims(stacks[subject])
        )
        return ask([question])


def parse() -> argparse.Namespace:
    parts = "\n".join(f"  {name:10} {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"parts:\n{parts}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="the part to measure (default: both)")
    parser.add_argument("--quick", action="store_true", help="show that it works: too small to tell about speed")
    parser.add_argument("--json", action="store_true", help="print JSON, with every repeat")
    parser.add_argument("--count", type=int, help="jobs of each measurement (default 2000, quick 40)")
    parser.add_argument("--repeats", type=int, help="repeats of each measurement (default 5, quick 1)")
    options = parser.parse_args()
    options.count = options.count or (40 if options.quick else 2000)
    options.repeats = options.repeats or (1 if options.quick else 5)
    return options


def print_results(results: Results) -> None:
    """Print the rates with their ratios, and the cost of claims."""
    rows = []
    for name in (name for name in WORKERS if name in results.answers):
        ratio = results.ratio(name, "rate", PEER)
        cells = [_rate(results, name, OURS), _rate(results, name, PEER), "" if ratio is None else f"{ratio:.2f}"]
        rows.append([name, *cells])
    if rows:
        print_table("Rollouts claimed and ended per second: medians", [OURS, PEER, "ours ÷ procrastinate's"], rows)
    if found := results.answers.get("claims"):
        large, small = found
        columns = {"one_ms": "a claim of one (ms)", "many_ms": "a claim of 16 (ms)"}
        rows = [[subject, *(f"{results.figure('claims', subject, name):.2f}" for name in columns)] for subject in found]
        ratios = [f"{results.ratio('claims', name, small, base=large):.2f}" for name in columns]
        print_table("Claims: medians", list(columns.values()), [*rows, ["ratio", *ratios]])


def _rate(results: Results, question: str, subject: str) -> str:
    values = sorted(results.values(question, subject, "rate"))
    if not values:
        return "not installed"
    return f"{results.figure(question, subject, 'rate'):,.0f} [{values[0]:,.0f} to {values[-1]:,.0f}]"


def main() -> None:
    options = parse()
    results = Results()
    if options.only != "claims":
        with running_stack() as stack:
            names = QUICK_WORKERS if options.quick else WORKERS
            results.answers |= ask(rates(stack, names, count=options.count, repeats=options.repeats)).answers
    if options.only != "rates":
        sizes = [10_000, 1_000] if options.quick else [1_000_000, 1_000]
        results.answers |= claims(sizes, options.repeats).answers
    if options.json:
        print(json.dumps({"questions": results.answers}, indent=2))
    else:
        print_results(results)


if __name__ == "__main__":
    main()
