"""Sweeps are driven from rows alone: whoever is killed when, each trial is made once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from openmanus_rl.errors import ConflictError
from openmanus_rl.transport.client import Client

from .sweeping import METRIC, TEMPLATE, Bench, Killed

TWELVE = {"hyperparameters.lr": {"values": [0.1, 0.2, 0.3]}, "seed": {"values": [0, 1, 2, 3]}}


@pytest.fixture
def bench(stack: Any) -> Iterator[Bench]:
    client = Client.from_url_and_key(
        stack.url, stack.secret_key, anon_key=stack.publishable_key, database_url=stack.database_url
    )
    with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as db:
        made = Bench(client, db)
        made.clear()
        yield made
        made.clear()
    client.http.close()


def drive_with_a_kill(bench: Bench, sweep_id: str, *, dies_at: int) -> int:
    """Drive a sweep to its end; the first driver dies at a call. Return how many calls that driver made."""
    driver, mortal = bench.driver(dies_at=dies_at)
    try:
        _drive(bench, sweep_id, driver)
    except Killed:
        bench.expire_leases()
        successor, _ = bench.driver()
        _drive(bench, sweep_id, successor)
    return mortal.calls


def _drive(bench: Bench, sweep_id: str, driver: Any) -> None:
    for _ in range(20):
        active = driver.advance()
        assert bench.counts(sweep_id)[2] <= 2
        if active == 0:
            return
        # One at a time, so that trials are added between the ends of others.
        bench.train(lambda config: float(config["seed"]), wanted=1)
    raise AssertionError("the sweep does not end")


def test_a_driver_killed_between_any_two_calls_neither_loses_nor_doubles_a_trial(bench: Bench) -> None:
    dies_at = 0
    while True:
        dies_at += 1
        sweep = bench.request(space={"seed": {"values": [10, 11, 12]}}, max_concurrent=2)
        calls = drive_with_a_kill(bench, sweep["id"], dies_at=dies_at)

        assert bench.seeds(sweep["id"]) == [10, 11, 12], dies_at
        assert bench.counts(sweep["id"]) == (3, 3, 0), dies_at
        assert bench.sweeps.get_sweep(sweep["id"])["status"] == "completed", dies_at
        if calls < dies_at:
            break
    assert dies_at > 10, "there were calls to die at"


def test_twelve_trials_three_at_once_killed_in_the_middle_are_twelve_runs_each_once(bench: Bench) -> None:
    sweep = bench.request(space=TWELVE, max_concurrent=3)
    driver, _ = bench.driver(dies_at=14)
    with pytest.raises(Killed):
        bench.drive(driver, lambda config: config["hyperparameters"]["lr"], wanted=2)
    made = len(bench.seeds(sweep["id"]))
    assert 3 < made < 12
    bench.expire_leases()

    successor, _ = bench.driver()
    while successor.advance():
        assert bench.counts(sweep["id"])[2] <= 3
        bench.train(lambda config: config["hyperparameters"]["lr"], wanted=2)

    overview = bench.sweeps.sweep_overview(sweep["id"])
    tried = [(t["parameters"]["hyperparameters.lr"], t["parameters"]["seed"]) for t in overview["trials"]]
    assert tried == [(lr, seed) for lr in (0.1, 0.2, 0.3) for seed in range(4)]
    assert [t["value"] for t in overview["trials"]] == [lr for lr, _ in tried]
    assert bench.counts(sweep["id"]) == (12, 12, 0)
    assert overview["sweep"]["status"] == "completed"
    assert overview["sweep"]["importances"]["hyperparameters.lr"] > overview["sweep"]["importances"]["seed"]


def test_two_drivers_at_once_whose_leases_run_out_make_each_trial_once(bench: Bench) -> None:
    """Each takes the sweep from the other again and again, in the middle of whatever that does."""
    sweep = bench.request(method="random", max_trials=12, max_concurrent=3, space={"seed": {"min": 0, "max": 1}})
    drivers = [bench.driver()[0], bench.driver()[0]]
    with ThreadPoolExecutor(3) as pool:
        for _ in range(60):
            working = [pool.submit(driver.advance) for driver in drivers]
            working.append(pool.submit(bench.expire_leases))
            for each in working:
                each.result()
            assert bench.counts(sweep["id"])[2] <= 3
            bench.train(lambda config: config["seed"], wanted=2)
            if bench.sweeps.get_sweep(sweep["id"])["status"] == "completed":
                break

    assert bench.sweeps.get_sweep(sweep["id"])["status"] == "completed"
    assert len(bench.seeds(sweep["id"])) == len(set(bench.seeds(sweep["id"]))) == 12
    assert bench.counts(sweep["id"]) == (12, 12, 0)


def test_a_bayesian_sweep_goes_on_after_a_kill_with_what_had_ended(bench: Bench) -> None:
    space = {"hyperparameters.lr": {"min": 0.001, "max": 1, "log": True}, "seed": {"values": [1, 2]}}
    sweep = bench.request(method="bayesian", space=space, max_trials=9, max_concurrent=2)
    driver, _ = bench.driver(dies_at=10)
    with pytest.raises(Killed):
        bench.drive(driver, lambda config: -config["hyperparameters"]["lr"])
    bench.expire_leases()
    successor, _ = bench.driver()
    bench.drive(successor, lambda config: -config["hyperparameters"]["lr"])

    trials = bench.sweeps.sweep_overview(sweep["id"])["trials"]
    assert len({trial["parameters"]["hyperparameters.lr"] for trial in trials}) == len(trials) == 9


def test_a_failed_trial_does_not_end_the_sweep_and_has_no_value(bench: Bench) -> None:
    sweep = bench.request()
    driver, _ = bench.driver()
    bench.drive(driver, lambda config: None if config["seed"] == 11 else 1.0)

    overview = bench.sweeps.sweep_overview(sweep["id"])
    assert overview["sweep"]["status"] == "completed"
    assert [trial["job_status"] for trial in overview["trials"]] == ["succeeded", "failed", "succeeded", "succeeded"]
    assert [trial["value"] for trial in overview["trials"]] == [1, None, 1, 1]


@pytest.mark.parametrize(
    ("value", "reason"), [(None, "its job is failed"), (float("nan"), f"its last {METRIC} is nan")]
)
def test_a_sweep_all_of_whose_trials_failed_has_failed_and_says_why(
    bench: Bench, value: float | None, reason: str
) -> None:
    sweep = bench.request()
    driver, _ = bench.driver()
    bench.drive(driver, lambda _: value)

    ended = bench.sweeps.get_sweep(sweep["id"])
    assert (ended["status"], ended["status_message"]) == ("failed", f"all 4 trials failed; the first: {reason}")


def test_a_trial_that_records_another_metric_failed(bench: Bench) -> None:
    sweep = bench.request(metric="accuracy")
    driver, _ = bench.driver()
    bench.drive(driver, lambda _: 1.0)

    assert bench.sweeps.get_sweep(sweep["id"])["status_message"] == (
        "all 4 trials failed; the first: it recorded no accuracy"
    )


def test_a_trial_whose_run_was_deleted_counts_as_failed(bench: Bench) -> None:
    sweep = bench.request()
    driver, _ = bench.driver()
    driver.advance()
    bench.change("delete from public.training_runs where name = 'tried 0' and status = 'pending'")
    bench.drive(driver, lambda _: 1.0)

    overview = bench.sweeps.sweep_overview(sweep["id"])
    assert overview["trials"][0]["training_run_id"] is None
    assert [trial["value"] for trial in overview["trials"]] == [None, 1, 1, 1]
    assert overview["sweep"]["status"] == "completed"


def test_a_bad_trial_is_stopped_early_and_the_next_takes_its_place(bench: Bench) -> None:
    rules = {"after_steps": 5, "min_trials": 2}
    sweep = bench.request(early_stopping=rules, space={"seed": {"values": [0, 1, 2, 3, 4]}}, max_concurrent=2)
    driver, _ = bench.driver()
    driver.advance()
    bench.train(lambda config: 10.0 + config["seed"])
    driver.advance()
    started = bench.start()
    for seed, value in ((2, 1.0), (3, 20.0)):
        bench.metrics.append(started[seed][0], {METRIC: [(4, 0.0), (12, value)]})

    driver.advance()
    asked = bench.rows(
        "select t.trial from public.sweep_trials t join public.jobs j using (training_run_id)"
        " where t.sweep_id = %s and j.stop_requested_at is not null and t.pruned_at is not null",
        sweep["id"],
    )
    assert [row["trial"] for row in asked] == [2]
    assert len(bench.seeds(sweep["id"])) == 4, "it is active until it has stopped"
    bench.tell(started[2][1], status="cancelled")
    bench.tell(started[3][1], status="succeeded")
    bench.drive(driver, lambda _: 10.0)

    overview = bench.sweeps.sweep_overview(sweep["id"])
    assert overview["sweep"]["status"] == "completed"
    assert [trial["is_pruned"] for trial in overview["trials"]] == [False, False, True, False, False]
    assert overview["trials"][2]["status"] != "failed"


def test_a_trial_that_has_ended_meanwhile_is_not_pruned(bench: Bench) -> None:
    sweep = bench.request()
    driver, _ = bench.driver()
    driver.advance()
    (lease_id,) = driver.lease_ids()
    bench.train(lambda _: 1.0)

    assert bench.sweeps.prune_trial(lease_id, 0) is False
    assert bench.sweeps.sweep_overview(sweep["id"])["trials"][0]["is_pruned"] is False


def test_a_stopped_sweep_makes_no_more_trials_and_stops_those_that_run(bench: Bench) -> None:
    sweep = bench.request(max_concurrent=2)
    driver, _ = bench.driver()
    assert driver.advance() == 1
    started = bench.start()

    stopped = bench.sweeps.stop_sweep(sweep["id"])

    assert stopped["status"] == "cancelled"
    asked = bench.rows("select stop_requested_at from public.jobs where training_run_id = any (%s::uuid[])",
                       [run_id for run_id, _ in started.values()])  # fmt: skip
    assert all(row["stop_requested_at"] for row in asked)
    assert driver.advance() == 0
    assert driver.lease_ids() == []
    assert bench.counts(sweep["id"])[0] == 2
    assert bench.sweeps.stop_sweep(sweep["id"])["status"] == "cancelled"


def test_a_lost_lease_makes_no_trial(bench: Bench) -> None:
    sweep = bench.request()
    first, _ = bench.driver()
    first.advance()
    (lease_id,) = first.lease_ids()
    bench.expire_leases()
    second, _ = bench.driver()
    second.advance()
    bench.train(lambda _: 1.0)

    for call in (
        lambda: bench.sweeps.add_trial(lease_id, 2, {"seed": 12}),
        lambda: bench.sweeps.prune_trial(lease_id, 0),
        lambda: bench.sweeps.update_sweep(lease_id, status="completed"),
    ):
        with pytest.raises(ConflictError) as caught:
            call()
        assert caught.value.field == "lease_id"
    assert first.advance() == 0
    assert len(bench.seeds(sweep["id"])) == 2


def test_the_leases_of_sweeps_are_renewed_and_forgotten_with_those_of_jobs(bench: Bench) -> None:
    bench.request()
    driver, _ = bench.driver()
    driver.advance()
    orchestrator = bench.rows("select orchestrator_id from internal.orchestrator_leases where lease_id = %s::uuid",
                              driver.lease_ids()[0])[0]["orchestrator_id"]  # fmt: skip
    params = {"orchestrator_id": str(orchestrator), "lease_ids": driver.lease_ids()}

    renewed = bench.client.rpc("renew_jobs", params)["leases"]

    assert [lease["stop_requested"] for lease in renewed] == [False]
    driver.forget(driver.lease_ids())
    assert driver.lease_ids() == []


def test_a_trial_that_somebody_tried_again_takes_its_room(bench: Bench) -> None:
    sweep = bench.request(max_concurrent=1)
    driver, _ = bench.driver()
    driver.advance()
    bench.train(lambda _: None)
    (job,) = bench.rows("select j.id from public.jobs j join public.sweep_trials t using (training_run_id)"
                        " where t.sweep_id = %s", sweep["id"])  # fmt: skip
    bench.client.rpc("retry_job", {"job_id": str(job["id"])})

    assert driver.advance() == 1
    assert bench.counts(sweep["id"]) == (1, 1, 1)
    with pytest.raises(ConflictError) as caught:
        bench.sweeps.add_trial(driver.lease_ids()[0], 1, {"seed": 11})
    assert caught.value.field == "max_concurrent"


def test_a_sweep_that_cannot_be_driven_has_failed_and_says_why(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bayesian = bench.request(method="bayesian", max_trials=3)
    early = bench.request(early_stopping={"after_steps": 5})
    bad = bench.request()
    bench.change('update public.sweeps set space = \'{"seed": {"min": 3}}\' where id = %s', bad["id"])
    good = bench.request()
    monkeypatch.setitem(sys.modules, "optuna", None)
    driver, _ = bench.driver()

    assert driver.advance() == 1

    found = {sweep["id"]: sweep for sweep in bench.sweeps.list_sweeps().rows}
    for sweep in (bayesian, early):
        assert found[sweep["id"]]["status"] == "failed"
        assert 'pip install "openmanus-rl[sweeps]"' in (found[sweep["id"]]["status_message"] or "")
        assert bench.counts(sweep["id"])[0] == 0
    assert found[bad["id"]]["status_message"] == "space.seed.max: a number is expected"
    assert found[good["id"]]["status"] == "running"


def test_a_trial_is_a_run_with_its_parameters_in_place(bench: Bench) -> None:
    config = {"total_timesteps": 10, "hyperparameters": {"lr": 1, "gamma": 0.9}, "policy": None}
    space = {
        "hyperparameters.lr": {"values": [0.25]},
        "policy.kind": {"values": ["mlp"]},
        "evaluation.deep.λ": {"values": [{"a": [1]}]},
    }
    sweep = bench.request(template={**TEMPLATE, "config": config}, space=space)
    driver, _ = bench.driver()
    driver.advance()

    (run,) = bench.rows(
        "select r.* from public.training_runs r join public.sweep_trials t on t.training_run_id = r.id"
        " where t.sweep_id = %s",
        sweep["id"],
    )
    assert run["config"] == {
        "total_timesteps": 10,
        "hyperparameters": {"lr": 0.25, "gamma": 0.9},
        "policy": {"kind": "mlp"},
        "evaluation": {"deep": {"λ": {"a": [1]}}},
    }
    assert (run["name"], run["algorithm"], run["environment"], run["status"]) == (
        "tried 0", "ppo", "CartPole-v1", "pending",
    )  # fmt: skip
