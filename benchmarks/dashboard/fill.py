"""Fill a database with as much as the dashboard must stay fast with, and say where to look.

python -c 'import sys, benchmarks.dashboard.fill as f; print(f.fill(sys.argv[1], 0.01))' "$DATABASE_URL"

At scale 1: 10,000 runs, 1,000,000 rollouts (300,000 of them in one run), a run of 1,000,000 metric points, one of
3,000 metrics, a rollout of 5,000 turns, a tool output of 5 MB, 10,000 tasks. The newest 20,000 rollouts have turns;
these, the runs and the evaluations have a history of statuses. The rows are the same every time, except for the
times, which end now. Triggers do not run: what they would have counted is computed at the end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg

BATCH = 50_000
_SQL = Path(__file__).with_name("sql")
# Written to break whoever shows it.
HOSTILE_TITLE = '<img src=x onerror="document.title=\'broken\'"> \u202egnp.exe\u202c 🙃 & "quoted"'
HOSTILE = (
    "<script>document.title = 'broken'; alert(1)</script>",
    "<img src=x onerror=\"document.title='broken'\"><svg onload=alert(1)><iframe src=javascript:alert(1)>",
    "</pre></textarea></script>--><h1>outside</h1><style>*{display:none}</style>",
    "[a link](javascript:alert(1)) ![picture](https://example.invalid/x.png) <a href='javascript:alert(1)'>here</a>",
    "right to left: \u202edesrever\u202c, isolated \u2066\u05d0\u05d1\u2069, zero width: a\u200bb\u200cc\u200dd\ufeffe",
    "control: bell \x07 escape \x1b[31mred\x1b[0m backspace \x08\x08 form feed \x0c vertical \x0b delete \x7f",
    "one long word: " + "Donaudampfschifffahrtsgesellschaft" * 300,
    "emoji: 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪, stacked: Z̸̡̢͖a̵͓͐l̴̰͛g̶̱͌o̷͎͂, astral: 𝒳𐍈, unassigned: \U000e0fff\uffff",
    "{{constructor.constructor('alert(1)')()}} ${7*7} %s %n '; drop table rollouts; --",
    "\n" * 40 + "\t\t\tafter forty empty lines" + " " * 2000 + "and two thousand spaces",
)
Connection = psycopg.Connection[Any]


def make_sizes(scale: float, *, small: bool = False) -> dict[str, int]:
    """Return the columns of pg_temp.sizes at a scale; `small` also shortens what is long at any scale."""
    rollouts = max(1_000, round(1_000_000 * scale))
    tasks = max(10, round(10_000 * scale))
    evaluated_tasks = min(200, tasks // 2)
    trained = rollouts - 6 * 4 * evaluated_tasks - 3
    # A multiple of 24: groups of 8, and three of five rollouts in the half that belongs to the large run.
    large = round(rollouts * 0.3) // 24 * 24
    return {
        "runs": max(10, round(10_000 * scale)),
        "rollouts": rollouts,
        # Of these: in training, and there in the large run, in the others, and before the large run began.
        "trained": trained,
        "large": large,
        "thin": trained - large,
        "thin_only": trained - large // 3 * 5,
        # The number of steps follows the root, because in proportion there would be too few to show.
        "steps": max(10, round(1_000 * min(1, scale) ** 0.5) // 5 * 5),
        "tasks": tasks,
        "evaluated_tasks": evaluated_tasks,
        "points": max(2_000, round(1_000_000 * scale)),
        "spiky_points": max(200, round(100_000 * scale)),
        "metric_names": 300 if small else 3_000,
        "turned": min(trained, max(1_000, round(20_000 * scale))),
        "long_turns": 500 if small else 5_000,
        "hostile_turns": len(HOSTILE),
        "output_bytes": 200_000 if small else 5_000_000,
    }


def fill(database_url: str, scale: float = 1.0) -> dict[str, Any]:
    """Fill an empty database, all or nothing, and return its landmarks."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        with connection.transaction():
            landmarks = write(connection, make_sizes(scale))
        # Besides the statistics: index-only scans need pages that are known to be visible to all.
        connection.execute("vacuum analyze")
    return landmarks


def write(connection: Connection, sizes: dict[str, int]) -> dict[str, Any]:
    """Write everything in the transaction that is open, and return the landmarks."""
    _prepare(connection, sizes)
    _execute(connection, "helpers", "tasks_and_runs", "rollouts")
    last = sizes["trained"] + 6 * 4 * sizes["evaluated_tasks"]
    for low in range(0, last, BATCH):
        connection.execute("select pg_temp.add_rollouts(%s, %s)", [low, min(low + BATCH, last)])
    # The planner knows nothing yet of a million rows.
    connection.execute("analyze public.rollouts")
    _execute(connection, "special", "turns", "runs", "metrics", "evaluations", "counts")
    landmarks = connection.execute((_SQL / "landmarks.sql").read_bytes()).fetchone()
    assert landmarks is not None
    return dict(landmarks[0])


def _prepare(connection: Connection, sizes: dict[str, int]) -> None:
    # Without triggers and foreign keys: with them, a million rollouts would take an hour.
    connection.execute("set local session_replication_role = replica")
    connection.execute("set local jit = off; set local work_mem = '256MB'; set local synchronous_commit = off")
    settings = {"seed": "1", "hostile": HOSTILE_TITLE, "hostile_texts": json.dumps(HOSTILE)}
    for name, value in settings.items():
        connection.execute("select set_config('fill.' || %s, %s, true)", [name, value])
    columns = ", ".join(f"{value}::bigint as {name}" for name, value in sizes.items())
    connection.execute(f"create temporary table sizes on commit drop as select {columns}")


def _execute(connection: Connection, *names: str) -> None:
    for name in names:
        # Without parameters, a percent sign in the file stays a percent sign.
        connection.execute((_SQL / f"{name}.sql").read_bytes())
