"""Fill a database with as much as the dashboard must stay fast with, and say where to look.

python -m benchmarks.dashboard.fill [--scale 0.01] [--database-url URL] [--landmarks FILE]

At scale 1: 10,000 runs, 1,000,000 rollouts (300,000 of them in one run), a run of 1,000,000 metric points, one of
3,000 metrics, a rollout of 5,000 turns, a tool output of 5 MB, 10,000 tasks. Of the rollouts the newest 20,000 have
turns, and of the history of statuses there is theirs, the runs' and the evaluations'. The rows are the same every time
(--seed), but for the times, which end now. Triggers do not run: what they would have kept is computed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from benchmarks.dashboard.texts import HOSTILE, HOSTILE_TITLE
from benchmarks.dashboard.turns import TurnWriter, write_special_rollouts, write_turns

__all__ = ["Sizes", "fill", "write"]

FEW_RUNS = 5
BATCH = 50_000
_SQL = Path(__file__).with_name("sql")
OnStep = Callable[[str, float], None]


class AlreadyFilled(Exception):
    """The database holds runs that are somebody's."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the names are the columns of pg_temp.sizes."""

    runs: int
    rollouts: int
    # Of these: in training, and there in the large run, in the others, and before the large run began.
    trained: int
    large: int
    thin: int
    thin_only: int
    steps: int
    tasks: int
    evaluated_tasks: int
    points: int
    spiky_points: int
    metric_names: int
    turned: int
    long_turns: int
    hostile_turns: int
    output_bytes: int

    @classmethod
    def of(cls, scale: float, *, small: bool = False) -> Sizes:
        """Return the sizes at a scale, of which 1 is all; `small` also shortens what is long by itself."""
        rollouts = max(1_000, round(1_000_000 * scale))
        tasks = max(10, round(10_000 * scale))
        evaluated_tasks = min(200, tasks // 2)
        trained = rollouts - 6 * 4 * evaluated_tasks - 3
        # A multiple of 24: groups of 8, and three of five rollouts in the half that is the large run's.
        large = round(rollouts * 0.3) // 24 * 24
        return cls(
            runs=max(10, round(10_000 * scale)),
            rollouts=rollouts,
            trained=trained,
            large=large,
            thin=trained - large,
            thin_only=trained - large // 3 * 5,
            # As few as the rollouts would leave steps of a few groups: their number follows the root.
            steps=max(10, round(1_000 * min(1, scale) ** 0.5) // 5 * 5),
            tasks=tasks,
            evaluated_tasks=evaluated_tasks,
            points=max(2_000, round(1_000_000 * scale)),
            spiky_points=max(200, round(100_000 * scale)),
            metric_names=300 if small else 3_000,
            turned=min(trained, max(1_000, round(20_000 * scale))),
            long_turns=500 if small else 5_000,
            hostile_turns=len(HOSTILE),
            output_bytes=200_000 if small else 5_000_000,
        )


def fill(
    database_url: str,
    scale: float = 1.0,
    small: bool = False,
    *,
    seed: int = 1,
    force: bool = False,
    on_step: OnStep = lambda _name, _share: None,
) -> dict[str, Any]:
    """Fill a database, all or nothing, and return its landmarks; one that holds more than a few runs only by force."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        if not force:
            _refuse_if_filled(connection)
        try:
            with connection.transaction():
                landmarks = write(connection, Sizes.of(scale, small=small), seed=seed, on_step=on_step)
        except psycopg.errors.UniqueViolation as error:
            raise AlreadyFilled(f"the database was filled before with seed {seed}; say another --seed") from error
        on_step("vacuum", 0.95)
        # Beside the statistics: pages known to be visible to all, without which no index answers alone.
        for (table,) in connection.execute("select tablename from pg_catalog.pg_tables where schemaname = 'public'"):
            connection.execute(sql.SQL("vacuum analyze public.{}").format(sql.Identifier(table)))
        on_step("done", 1)
    return landmarks


def write(
    connection: psycopg.Connection[Any],
    sizes: Sizes,
    *,
    seed: int = 1,
    on_step: OnStep = lambda _name, _share: None,
) -> dict[str, Any]:
    """Write everything in the transaction that is open, and return the landmarks."""
    _prepare(connection, sizes, seed)
    on_step("tasks and runs", 0)
    _execute(connection, "helpers", "tasks_and_runs", "rollouts")
    last = sizes.trained + 6 * 4 * sizes.evaluated_tasks
    for low in range(0, last, BATCH):
        on_step("rollouts", 0.02 + 0.7 * low / last)
        connection.execute("select pg_temp.add_rollouts(%s, %s)", [low, min(low + BATCH, last)])
    # Who plans what follows knows nothing yet of a million rows.
    connection.execute("analyze public.rollouts")
    on_step("turns", 0.72)
    _write_turns(connection, sizes, seed)
    on_step("runs", 0.8)
    _execute(connection, "runs", "metrics")
    on_step("evaluations", 0.85)
    _execute(connection, "evaluations")
    on_step("counts", 0.87)
    _execute(connection, "counts")
    landmarks = connection.execute((_SQL / "landmarks.sql").read_bytes()).fetchone()
    assert landmarks is not None
    return dict(landmarks[0], seed=seed)


def _refuse_if_filled(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("select count(*) from (select 1 from public.training_runs limit 1000) r").fetchone()
    if row is not None and row[0] > FEW_RUNS:
        known = "1,000 or more" if row[0] == 1000 else row[0]
        raise AlreadyFilled(
            f"the database holds {known} runs already, and what is filled in is not easily taken out again; "
            "name another database, or say --force (and another --seed if it was filled before)"
        )


def _prepare(connection: psycopg.Connection[Any], sizes: Sizes, seed: int) -> None:
    # Without triggers and foreign keys: a million rollouts one statement at a time would take an hour.
    connection.execute("set local session_replication_role = replica")
    connection.execute("set local jit = off; set local work_mem = '256MB'; set local synchronous_commit = off")
    connection.execute(
        "select set_config('fill.seed', %s, true), set_config('fill.hostile', %s, true)", [str(seed), HOSTILE_TITLE]
    )
    columns = ", ".join(f"{value}::bigint as {name}" for name, value in asdict(sizes).items())
    connection.execute(f"create temporary table sizes on commit drop as select {columns}")


def _execute(connection: psycopg.Connection[Any], *names: str) -> None:
    for name in names:
        # No parameters: then a percent sign in the file is a percent sign.
        connection.execute((_SQL / f"{name}.sql").read_bytes())


def _write_turns(connection: psycopg.Connection[Any], sizes: Sizes, seed: int) -> None:
    connection.execute(
        f"""create temporary table turned on commit drop as
        select row_number() over (order by o.created_at desc, o.id) as place, o.id, o.training_run_id, o.group_id,
          o.status, o.total_reward, o.step_count, o.model, o.policy_version, o.created_at
        from pg_temp.sizes s cross join generate_series(s.trained - s.turned, s.rollouts - 4) n
        join public.rollouts o on o.id = pg_temp.made_id(5, n)
        order by o.created_at desc, o.id limit {sizes.turned}"""
    )
    connection.execute("create unique index on pg_temp.turned (id)")
    writer = TurnWriter(seed)
    with connection.cursor(row_factory=dict_row) as cursor:
        write_turns(writer, cursor.execute("select * from pg_temp.turned order by place").fetchall())
        _execute(connection, "special")
        special = cursor.execute(
            """select o.worker_id as name, o.* from public.rollouts o, pg_temp.sizes s
            where o.id in (select pg_temp.made_id(5, s.rollouts - 1 - n) from generate_series(0, 2) n)"""
        ).fetchall()
    by_name = {row["name"]: row for row in special}
    write_special_rollouts(writer, by_name, long_turns=sizes.long_turns, output_bytes=sizes.output_bytes)
    writer.copy_to(connection)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database-url", default=os.environ.get("DATABASE_URL"), help="default: DATABASE_URL")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of runs, rollouts, points and tasks (default 1)"
    )
    parser.add_argument(
        "--small", action="store_true", help="also shorten the long rollout, the large output, the metrics"
    )
    parser.add_argument("--seed", type=int, default=1, help="other rows, with other ids (default 1)")
    parser.add_argument("--landmarks", type=Path, help="write the ids to look at to this file, not to stdout")
    parser.add_argument("--force", action="store_true", help="fill a database that holds runs already")
    options = parser.parse_args(arguments)
    if not options.database_url:
        parser.error("no database: set DATABASE_URL (`openmanus-rl status --env` prints it) or say --database-url")
    if options.scale <= 0:
        parser.error(f"--scale is {options.scale}: it must be above 0")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = _parse(arguments)
    messages = Console(stderr=True)
    sizes = Sizes.of(options.scale, small=options.small)
    messages.print(f"Filling in {sizes.runs:,} runs, {sizes.rollouts:,} rollouts and {sizes.tasks:,} tasks")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=messages) as progress:
        bar = progress.add_task("", total=1)
        try:
            landmarks = fill(
                options.database_url, options.scale, options.small, seed=options.seed, force=options.force,
                on_step=lambda name, share: progress.update(bar, description=name, completed=share),
            )  # fmt: skip
        except AlreadyFilled as refusal:
            progress.stop()
            sys.exit(str(refusal))
    text = json.dumps(landmarks, indent=2)
    if options.landmarks:
        options.landmarks.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
