"""Counting rollouts one by one, to compare with what the database keeps, and doing random things to them."""

from __future__ import annotations

import math
import random
import statistics
import sys
from fractions import Fraction
from typing import Any

import psycopg

from .writing import Connection, Record, change_status, ingest, new_id, write

COMPLETED = ("success", "failed", "completed", "truncated", "timeout", "error")
ENVIRONMENTS = ("alfworld", "webshop")
REWARDS = [
    0,
    1,
    -1,
    0.1,
    0.2,
    1e-9,
    1e12,
    1e308,
    -1e308,
    sys.float_info.max,
    5e-324,
    None,
    "NaN",
    "Infinity",
    "-Infinity",
]


def run_metrics(db: Connection, run_id: str | None = None, **more: Any) -> Record:
    found = db.execute(
        "select public.run_metrics(%s, environment => %s) as m", [run_id, more.get("environment")]
    ).fetchone()
    assert found is not None
    return dict(found["m"])


def recount(rollouts: list[Record]) -> Record:
    """Count rollouts one by one, as the contract of get-metrics says."""
    completed = [rollout for rollout in rollouts if rollout["status"] in COMPLETED]
    rewards = [
        r["total_reward"] for r in completed if r["total_reward"] is not None and math.isfinite(r["total_reward"])
    ]
    steps = [r["step_count"] for r in completed if r["step_count"] is not None]
    successful = sum(rollout["status"] == "success" for rollout in completed)
    return {
        "total_rollouts": len(rollouts),
        "completed_rollouts": len(completed),
        "successful_rollouts": successful,
        "success_rate": successful / len(completed) if completed else None,
        "average_reward": float(statistics.mean(map(exact, rewards))) if rewards else None,
        "average_steps": statistics.mean(steps) if steps else None,
    }


def check_counts(db: Connection, run_id: str | None) -> None:
    """Compare all that is kept of a run, or of what has none, with a recount."""
    rollouts = db.execute(
        "select * from public.rollouts where training_run_id is not distinct from %s", [run_id]
    ).fetchall()
    for environment in (None, *ENVIRONMENTS):
        mine = [rollout for rollout in rollouts if environment in (None, rollout["environment"])]
        if run_id is None:
            stats = db.execute(
                "select coalesce(sum(rollout_count), 0) as n, coalesce(sum(completed_count), 0) as completed"
                " from public.rollout_stats"
                " where training_run_id is null and (%(e)s::text is null or environment = %(e)s)",
                {"e": environment},
            ).fetchone()
            assert stats is not None
            expected = recount(mine)
            assert (stats["n"], stats["completed"]) == (expected["total_rollouts"], expected["completed_rollouts"])
            continue
        kept = run_metrics(db, run_id, environment=environment)
        kept.pop("rollouts")
        assert all(near(value, kept[name]) for name, value in recount(mine).items()), (environment, kept, recount(mine))
    for group in db.execute(
        "select * from public.rollout_groups where training_run_id is not distinct from %s", [run_id]
    ).fetchall():
        check_group(group, [rollout for rollout in rollouts if rollout["group_id"] == group["id"]])


def check_group(group: Record, rollouts: list[Record]) -> None:
    rewards = [
        r["total_reward"] for r in rollouts if r["total_reward"] is not None and math.isfinite(r["total_reward"])
    ]
    assert group["rollout_count"] == len(rollouts)
    assert group["completed_count"] == sum(rollout["status"] in COMPLETED for rollout in rollouts)
    assert group["success_count"] == sum(rollout["status"] == "success" for rollout in rollouts)
    assert group["reward_count"] == len(rewards)
    mean = float(statistics.mean(map(exact, rewards))) if rewards else None
    assert near(group["reward_mean"], mean)
    deviation = float(statistics.pstdev(map(exact, rewards))) if rewards else None
    assert near(group["reward_std"], deviation)


def near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-300)


def exact(value: float) -> Any:
    return Fraction(value)


class Tinkerer:
    """Does random things to rollouts of some runs, through every way in."""

    def __init__(self, db: Connection, *, seed: int, runs: list[str | None], groups: dict[str, list[str]]) -> None:
        self.db, self.random, self.runs, self.groups = db, random.Random(seed), runs, groups
        self.rollouts: list[str] = []
        self.done: dict[str, int] = {}

    def step(self) -> None:
        action = self.random.choice(
            [
                self.insert,
                self.insert,
                self.change,
                self.change,
                self.reward,
                self.reward,
                self.judge,
                self.patch,
                self.delete,
                self.many,
            ]
        )
        action()
        self.done[action.__name__] = self.done.get(action.__name__, 0) + 1

    def new(self) -> Record:
        run_id = self.random.choice(self.runs)
        group = self.random.choice([None, *self.groups.get(run_id or "", [])])
        return {
            "id": new_id(),
            "training_run_id": run_id,
            "group_id": group,
            "environment": self.random.choice(ENVIRONMENTS),
            "status": self.random.choice(["pending", "running", "success", "error"]),
            "status_change_id": new_id(),
            "total_reward": self.random.choice(REWARDS),
            "step_count": self.random.choice([None, 0, 1, 50]),
        }

    def insert(self) -> None:
        record = self.new()
        write(self.db, {"rollouts": [record]})
        self.rollouts.append(record["id"])

    def many(self) -> None:
        records = [self.new() for _ in range(self.random.randint(2, 6))]
        changes = [{"id": record["id"], "status": "cancelled", "status_change_id": new_id()} for record in records]
        ingest(self.db, {"rollouts": [*records, *changes]})
        self.rollouts += [record["id"] for record in records]

    def change(self) -> None:
        """Any status, allowed or not: what is refused counts for nothing."""
        if self.rollouts:
            status = self.random.choice(["pending", "running", "cancelled", "interrupted", *COMPLETED])
            ingest(
                self.db,
                {
                    "rollouts": [
                        {"id": self.random.choice(self.rollouts), "status": status, "status_change_id": new_id()}
                    ]
                },
            )

    def judge(self) -> None:
        if self.rollouts:
            rollout_id = self.random.choice(self.rollouts)
            try:
                change_status(
                    self.db,
                    "rollouts",
                    rollout_id,
                    self.random.choice(COMPLETED),
                    fields={"total_reward": self.random.random()},
                )
            except psycopg.Error as error:
                # Not allowed from where it is, or deleted by another: before, or between the look and the change.
                if error.sqlstate not in ("OM409", "OM404", "OM400"):
                    raise

    def reward(self) -> None:
        if self.rollouts:
            self.db.execute(
                "update public.rollouts set total_reward = %s, step_count = %s where id = %s",
                [self.random.choice(REWARDS), self.random.choice([None, 3]), self.random.choice(self.rollouts)],
            )

    def patch(self) -> None:
        ids = self.random.sample(self.rollouts, min(3, len(self.rollouts)))
        self.db.execute(
            "update public.rollouts set environment = %s where id = any(%s::uuid[])",
            [self.random.choice(ENVIRONMENTS), ids],
        )

    def delete(self) -> None:
        ids = self.random.sample(self.rollouts, min(2, len(self.rollouts)))
        self.db.execute("delete from public.rollouts where id = any(%s::uuid[])", [ids])
