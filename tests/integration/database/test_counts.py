"""What is counted as rollouts come and go equals a full recount."""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from .counting import Tinkerer, check_counts, exact, run_metrics
from .writing import (
    Connection,
    Database,
    change_status,
    ingest,
    new_group,
    new_id,
    new_rollout,
    new_run,
    row,
    write,
)


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_a_recount_whatever_happens(db: Connection, seed: int) -> None:
    runs = [new_run(db, environment=None), new_run(db, environment=None)]
    groups = {run_id: [new_group(db, run_id) for _ in range(2)] for run_id in runs}
    tinkerer = Tinkerer(db, seed=seed, runs=[*runs, None], groups=groups)
    for _ in range(60):
        tinkerer.step()
    assert len(tinkerer.done) == 7, "every way in was taken"
    for run_id in (*runs, None):
        check_counts(db, run_id)
    db.execute("delete from public.rollout_groups where id = %s", [groups[runs[0]][0]])
    db.execute("delete from public.training_runs where id = %s", [runs[1]])
    check_counts(db, runs[0])
    check_counts(db, None)
    assert db.execute("select 1 from public.rollout_stats where training_run_id = %s", [runs[1]]).fetchall() == []
    assert db.execute("select 1 from public.rollouts where training_run_id = %s", [runs[1]]).fetchall() == []


def test_counts_equal_a_recount_after_concurrent_writers(database: Database, db: Connection) -> None:
    runs = [new_run(db, environment=None), new_run(db, environment=None)]
    doomed = new_run(db, environment=None)
    groups = {run_id: [new_group(db, run_id) for _ in range(2)] for run_id in (*runs, doomed)}
    shared = [new_rollout(db, runs[0], group_id=groups[runs[0]][0]) for _ in range(5)]

    def tinker(seed: int) -> None:
        with database.connect() as connection:
            mine = Tinkerer(connection, seed=seed, runs=[*runs, None], groups=groups)
            # All have some rollouts in common, so that they meet in the same rows.
            mine.rollouts += shared
            done = 0
            while done < 40:
                try:
                    mine.step()
                    done += 1
                except psycopg.errors.DeadlockDetected:
                    continue  # As a client would: the transaction is gone, and with it what it counted.

    def doom() -> None:
        with database.connect() as connection:
            for _ in range(10):
                ingest(
                    connection,
                    {
                        "rollouts": [
                            {
                                "id": new_id(),
                                "group_id": groups[doomed][0],
                                "environment": "a",
                                "status": "success",
                                "total_reward": 1,
                            }
                        ]
                        * 3
                    },
                )

    with ThreadPoolExecutor(6) as pool:
        work = [pool.submit(tinker, seed) for seed in range(4)] + [pool.submit(doom)]
        work.append(
            pool.submit(
                lambda: [db.execute("delete from public.training_runs where id = %s", [doomed]) for _ in range(1)]
            )
        )
        for each in work:
            each.result()
    for run_id in (*runs, None):
        check_counts(db, run_id)
    assert db.execute("select 1 from public.rollout_stats where training_run_id = %s", [doomed]).fetchall() == []


def test_reopening_takes_back_what_was_counted(db: Connection) -> None:
    run_id = new_run(db)
    rollout_id = new_rollout(db, run_id)
    empty = {
        "total_rollouts": 1,
        "completed_rollouts": 0,
        "successful_rollouts": 0,
        "success_rate": None,
        "average_reward": None,
        "average_steps": None,
    }
    assert run_metrics(db, run_id) | {"rollouts": None} == empty | {"rollouts": None}
    change_status(db, "rollouts", rollout_id, "error", fields={"total_reward": 3, "step_count": 2})
    assert run_metrics(db, run_id)["average_reward"] == 3
    change_status(db, "rollouts", rollout_id, "pending")
    assert run_metrics(db, run_id) | {"rollouts": None} == empty | {"rollouts": None}
    change_status(db, "rollouts", rollout_id, "success")
    assert run_metrics(db, run_id)["success_rate"] == 1
    change_status(db, "rollouts", rollout_id, "failed")
    assert run_metrics(db, run_id)["success_rate"] == 0


def test_a_run_without_rollouts_has_no_rates(db: Connection) -> None:
    assert run_metrics(db, new_run(db)) == {
        "total_rollouts": 0,
        "completed_rollouts": 0,
        "successful_rollouts": 0,
        "success_rate": None,
        "average_reward": None,
        "average_steps": None,
        "rollouts": [],
    }


def test_metrics_of_an_environment_and_the_newest_rollouts(db: Connection) -> None:
    run_id = new_run(db)
    for index in range(5):
        new_rollout(
            db, run_id, environment="webshop", episode_number=index, created_at=f"2026-01-01T00:00:0{index}+00:00"
        )
    new_rollout(db, run_id, environment="alfworld")
    metrics = run_metrics(db, run_id, environment="webshop")
    assert metrics["total_rollouts"] == 5
    assert [rollout["episode_number"] for rollout in metrics["rollouts"]] == [4, 3, 2, 1, 0]
    limited = db.execute("select public.run_metrics(%s, rollout_limit => 2) as m", [run_id]).fetchone()
    assert limited is not None
    assert len(limited["m"]["rollouts"]) == 2
    assert limited["m"]["total_rollouts"] == 6


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("rollout_limit => -1", "OM400"),
        ("rollout_limit => 1001", "OM400"),
        ("rollout_limit => null", "OM400"),
        pytest.param(f"'{new_id()}'", "OM404", id="an unknown run"),
    ],
)
def test_metrics_of_what_cannot_be_are_an_error(db: Connection, arguments: str, code: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        db.execute(f"select public.run_metrics({arguments})")
    assert caught.value.sqlstate == code


def test_a_small_deviation_of_large_rewards_is_not_lost(db: Connection) -> None:
    run_id = new_run(db)
    group_id = new_group(db, run_id)
    rewards = [1e6, 1e6 + 0.001, 1e6 + 0.0015]
    write(db, {"rollouts": [{"group_id": group_id, "environment": "a", "total_reward": reward} for reward in rewards]})
    assert row(db, "rollout_groups", group_id)["reward_std"] == pytest.approx(
        statistics.pstdev(map(exact, rewards)), rel=1e-6
    )


def test_an_evaluation_that_says_nothing_is_measured_by_its_rollouts(db: Connection) -> None:
    evaluation_id, group_id = new_id(), new_id()
    write(
        db,
        {
            "evaluations": [{"id": evaluation_id, "environment": "a"}],
            "rollout_groups": [{"id": group_id, "evaluation_id": evaluation_id, "number": 0}],
            "rollouts": [
                {"group_id": group_id, "status": status, "total_reward": reward, "step_count": 4}
                for status, reward in (
                    ("success", 1),
                    ("failed", 0),
                    ("error", "NaN"),
                    ("timeout", None),
                    ("running", 9),
                )
            ],
        },
    )
    stored = change_status(db, "evaluations", evaluation_id, "completed", fields={"mean_turns": 7})
    assert (stored["success_rate"], stored["mean_reward"], stored["mean_turns"]) == (0.25, 0.5, 7)


def test_an_evaluation_is_measured_by_rollouts_that_come_with_it_or_after_it(db: Connection) -> None:
    evaluation, group, first, second = (new_id() for _ in range(4))
    ended = {"id": evaluation, "status": "completed", "status_change_id": new_id(), "mean_turns": 9}

    def rollout(rollout_id: str, status: str, reward: float) -> dict[str, object]:
        return {"id": rollout_id, "group_id": group, "environment": "e", "status": status, "total_reward": reward}

    write(db, {
        "evaluations": [{"id": evaluation, "status": "running", "status_change_id": new_id()}, ended],
        "rollout_groups": [{"id": group, "evaluation_id": evaluation, "number": 0}],
        "rollouts": [rollout(first, "success", 1.0)],
    })  # fmt: skip
    stored = row(db, "evaluations", evaluation)
    assert (stored["success_rate"], stored["mean_reward"], stored["mean_turns"]) == (1, 1, 9)
    write(db, {"rollouts": [rollout(second, "failed", 0.0)]})
    stored = row(db, "evaluations", evaluation)
    assert (stored["success_rate"], stored["mean_reward"], stored["mean_turns"]) == (0.5, 0.5, 9)
    db.execute("delete from public.rollouts where id = %s", [second])
    assert row(db, "evaluations", evaluation)["success_rate"] == 1


def test_deleting_tasks_leaves_rollouts_and_verdicts(db: Connection) -> None:
    """Two verdicts of validators that are gone, and two results of tasks that are gone, do not collide."""
    run_id, checkpoint_id = new_run(db), new_id()
    tasks = [new_id(), new_id()]
    validators = [new_id(), new_id()]
    rollout_id = new_rollout(db, run_id)
    write(
        db,
        {
            "tasks": [{"id": each, "description": "find it"} for each in tasks],
            "validators": [
                {"id": each, "task_id": tasks[0], "external_id": name, "kind": "match"}
                for each, name in zip(validators, "ab", strict=True)
            ],
            "model_checkpoints": [{"id": checkpoint_id, "training_run_id": run_id, "checkpoint_number": 1}],
            "evaluation_results": [
                {"checkpoint_id": checkpoint_id, "environment": "a", "task_id": each} for each in (None, *tasks)
            ],
            "validations": [{"rollout_id": rollout_id, "validator_id": each, "verdict": "pass"} for each in validators],
        },
    )
    db.execute("delete from public.tasks where id = any(%s::uuid[])", [tasks])
    verdicts = db.execute(
        "select validator_name, validator_id from public.validations where rollout_id = %s order by 1", [rollout_id]
    )
    assert [(found["validator_name"], found["validator_id"]) for found in verdicts] == [("a", None), ("b", None)]
    results = db.execute(
        "select task_id from public.evaluation_results where checkpoint_id = %s", [checkpoint_id]
    ).fetchall()
    assert [found["task_id"] for found in results] == [None]


def test_plain_sql_cannot_move_what_others_hang_on(db: Connection) -> None:
    run_id, other = new_run(db), new_run(db)
    rollout_id = new_rollout(db, run_id)
    with pytest.raises(psycopg.Error) as caught:
        db.execute("update public.rollouts set training_run_id = %s where id = %s", [other, rollout_id])
    assert caught.value.sqlstate == "OM409"
    assert (
        caught.value.diag.message_primary
        == f"rollout {rollout_id}: it cannot move to another training run; create a new one"
    )
