"""What the next trial is, which trials end early, and which parameters mattered: all of it from rows alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from openmanus_rl.errors import InvalidInput, UnsupportedError
from openmanus_rl.jobs.sweeps.importance import measure_importances
from openmanus_rl.jobs.sweeps.plan import Plan, read_plan
from openmanus_rl.jobs.sweeps.pruning import Series, choose_pruned
from openmanus_rl.jobs.sweeps.search import choose_parameters
from openmanus_rl.jobs.sweeps.trials import Trial, read_trials

SPACE: dict[str, Any] = {
    "hyperparameters.lr": {"min": 1e-5, "max": 1e-1, "log": True},
    "hyperparameters.layers": {"min": 1, "max": 9, "integer": True},
    "hyperparameters.gamma": {"min": 0.9, "max": 0.99, "step": 0.01},
    "hyperparameters.net": {"values": ["small", {"pi": [64, 64]}, None]},
}


def plan_of(method: str, space: dict[str, Any] | None = None, **more: Any) -> Plan:
    sweep = {
        "method": method, "space": space or SPACE, "template": {"config": {}}, "metric": "reward",
        "direction": "maximize", "max_trials": 30, "max_concurrent": 3, "seed": 0, "early_stopping": None,
    }  # fmt: skip
    return read_plan(sweep | more)


def drive(plan: Plan, value_of: Callable[[dict[str, Any]], float]) -> list[Trial]:
    """Return the trials of a sweep in which every trial completes at once."""
    trials: list[Trial] = []
    for number in range(plan.max_trials):
        parameters = choose_parameters(plan, number, trials)
        trials.append(Trial(number, parameters, "completed", value_of(parameters), 100, f"run {number}"))
    return trials


@pytest.mark.parametrize("method", ["random", "bayesian"])
def test_the_same_rows_give_the_same_parameters_and_other_numbers_and_seeds_others(method: str) -> None:
    plan = plan_of(method)
    trials = drive(plan_of(method, max_trials=12), lambda p: -abs(p["hyperparameters.layers"] - 3))

    chosen = choose_parameters(plan, 12, trials)

    assert chosen == choose_parameters(plan, 12, trials)
    assert chosen != choose_parameters(plan, 13, trials)
    assert chosen != choose_parameters(plan_of(method, seed=1), 12, trials)
    assert choose_parameters(plan, 0, []) != choose_parameters(plan, 1, [])


@pytest.mark.parametrize("method", ["random", "bayesian"])
def test_what_is_chosen_is_in_the_space(method: str) -> None:
    for trial in drive(plan_of(method), lambda p: p["hyperparameters.gamma"]):
        chosen = trial.parameters
        assert list(chosen) == sorted(SPACE)
        assert 1e-5 <= chosen["hyperparameters.lr"] <= 1e-1
        assert chosen["hyperparameters.layers"] in range(1, 10)
        assert chosen["hyperparameters.gamma"] in [0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99]
        assert chosen["hyperparameters.net"] in ["small", {"pi": [64, 64]}, None]


def test_bayesian_search_finds_better_values_than_random_search() -> None:
    """By the mean of the last ten of thirty trials, over five seeds."""
    space = {"x": {"min": -10, "max": 10}, "y": {"min": -10, "max": 10}}

    def late(method: str, seed: int) -> float:
        trials = drive(plan_of(method, space, seed=seed), lambda p: -((p["x"] - 3) ** 2) - (p["y"] + 2) ** 2)
        return sum(trial.value or 0 for trial in trials[-10:]) / 10

    assert sum(late("bayesian", seed) for seed in range(5)) > sum(late("random", seed) for seed in range(5))


def test_trials_that_run_failed_or_were_pruned_are_no_obstacle_to_bayesian_search() -> None:
    trials = drive(plan_of("bayesian", max_trials=9), lambda p: p["hyperparameters.gamma"])
    others = [
        Trial(9, trials[0].parameters, "failed", None, 0, None, problem="it burned"),
        Trial(10, trials[1].parameters, "pruned", 0.1, 5, "run 10", is_pruned=True),
        Trial(11, trials[2].parameters, "pruned", None, 0, "run 11", is_pruned=True),
        Trial(12, trials[3].parameters, "active", 0.2, 5, "run 12"),
        Trial(13, trials[4].parameters, "settling", None, 5, "run 13"),
    ]

    assert set(choose_parameters(plan_of("bayesian"), 14, [*trials, *others])) == set(SPACE)


def test_trials_at_the_same_time_are_not_all_alike() -> None:
    plan = plan_of("bayesian", {"x": {"min": 0, "max": 1}})
    trials = drive(plan_of("bayesian", {"x": {"min": 0, "max": 1}}, max_trials=15), lambda p: p["x"])
    for number in range(15, 20):
        trials.append(Trial(number, choose_parameters(plan, number, trials), "active"))

    assert len({trial.parameters["x"] for trial in trials[15:]}) == 5


def test_seeds_are_tried_one_after_the_other() -> None:
    plan = plan_of("seeds", {"seed": {"values": [3, 1, 2]}}, max_trials=3)

    assert [choose_parameters(plan, number, [])["seed"] for number in range(plan.max_trials)] == [3, 1, 2]


# Early stopping ------------------------------------------------------------------------------------------------------


def pruned(
    running: Series, others: Sequence[Series], *, direction: str = "maximize", is_pruned: bool = False, **rules: Any
) -> list[int]:
    space = {"seed": {"values": list(range(100))}}
    plan = plan_of("random", space, direction=direction, early_stopping={"min_trials": 3, **rules})
    trials = [Trial(n, {"seed": n}, "completed", s[-1][1], s[-1][0], f"run {n}") for n, s in enumerate(others)]
    trials.append(Trial(len(others), {"seed": 99}, "active", None, 0, "running", is_pruned=is_pruned))
    series = {f"run {n}": one for n, one in enumerate(others)} | {"running": running}
    return choose_pruned(plan, trials, lambda trial: series[trial.run_id or ""])


RISING = [[(step, level * step) for step in range(0, 100, 10)] for level in (1.0, 2.0, 3.0, 4.0)]


def test_a_trial_below_the_median_of_the_others_at_its_step_is_stopped() -> None:
    assert pruned([(20, 10.0)], RISING) == [4]
    assert pruned([(20, 200.0)], RISING) == []
    # Its steps lie between those of the others: they are read where they were by then.
    assert pruned([(25, 49.0)], RISING) == [4]
    assert pruned([(25, 51.0)], RISING) == []
    assert pruned([(20, 45.0)], RISING, percentile=25) == [4]
    assert pruned([(20, 45.0)], RISING, percentile=75) == []


def test_less_is_better_where_it_is_minimized() -> None:
    assert pruned([(20, 10.0)], RISING, direction="minimize") == []
    assert pruned([(20, 200.0)], RISING, direction="minimize") == [4]


def test_its_best_value_counts_and_not_its_last() -> None:
    assert pruned([(10, 1000.0), (20, 0.0)], RISING) == []


def test_nothing_is_stopped_too_early_or_twice() -> None:
    assert pruned([(20, 10.0)], RISING, after_steps=21) == []
    assert pruned([(21, 10.0)], RISING, after_steps=21) == [4]
    assert pruned([(20, 10.0)], RISING[:2]) == []
    assert pruned([(20, 10.0)], RISING, is_pruned=True) == []
    assert pruned([], RISING) == []
    # Others that had no value by then say nothing.
    assert pruned([(20, 10.0)], [[(50, 100.0)]] * 4) == []


def test_a_trial_that_is_not_a_number_is_stopped() -> None:
    assert pruned([(10, float("nan")), (20, float("nan"))], RISING) == [4]


# Importances ---------------------------------------------------------------------------------------------------------


def test_the_parameter_that_decides_is_the_most_important() -> None:
    plan = plan_of("random")
    trials = drive(plan, lambda p: -abs(p["hyperparameters.layers"] - 5))

    found = measure_importances(plan, trials)

    assert found is not None
    assert set(found) == set(SPACE)
    assert max(found, key=lambda path: found[path]) == "hyperparameters.layers"
    assert sum(found.values()) == pytest.approx(1, abs=1e-4)
    assert found == measure_importances(plan, trials)


def test_nothing_is_said_of_too_few_or_equal_trials_or_of_seeds() -> None:
    plan = plan_of("random", max_trials=3)
    seeds = plan_of("seeds", {"seed": {"values": list(range(9))}})

    assert measure_importances(plan, drive(plan, lambda p: p["hyperparameters.lr"])) is None
    assert measure_importances(plan_of("random"), drive(plan_of("random"), lambda _: 1.0)) is None
    assert measure_importances(seeds, [Trial(n, {"seed": n}, "completed", n, 1) for n in range(9)]) is None


# Without Optuna ------------------------------------------------------------------------------------------------------


def test_grid_random_and_seeds_need_no_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)

    random = plan_of("random")
    assert choose_parameters(random, 0, []).keys() == SPACE.keys()
    assert choose_parameters(plan_of("grid", {"a": {"values": [1, 2]}}), 1, []) == {"a": 2}
    assert measure_importances(random, drive(random, lambda p: p["hyperparameters.lr"])) is None
    with pytest.raises(UnsupportedError, match=r"openmanus-rl\[sweeps\]"):
        choose_parameters(plan_of("bayesian"), 0, [])
    with pytest.raises(UnsupportedError, match=r"openmanus-rl\[sweeps\]"):
        pruned([(20, 10.0)], RISING)


# Rows ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "state", "problem"),
    [
        ({"job_status": "pending"}, "active", None),
        ({"job_status": "running", "value": 3.0}, "active", None),
        ({"job_status": "running", "is_pruned": True}, "active", None),
        ({"value": 3.0}, "completed", None),
        ({"value": 3.0, "is_pruned": True}, "completed", None),
        ({"value": float("nan")}, "failed", "its last reward is nan"),
        ({"value": float("-inf")}, "failed", "its last reward is -inf"),
        ({"seconds_since_end": 5.0}, "settling", None),
        ({"seconds_since_end": 11.0}, "failed", "it recorded no reward"),
        ({"status": "interrupted", "value": 3.0}, "failed", "its job is succeeded"),
        ({"status": "interrupted", "job_status": "cancelled", "value": 3.0}, "failed", "its job is cancelled"),
        ({"status": "interrupted", "job_status": "cancelled", "is_pruned": True, "value": 3.0}, "pruned", None),
        ({"status": "failed", "job_status": "failed", "message": "out of memory"}, "failed", "out of memory"),
        ({"training_run_id": None, "job_status": None, "status": None}, "failed", "its run was deleted"),
    ],
)
def test_what_became_of_a_trial(row: dict[str, Any], state: str, problem: str | None) -> None:
    found: Any = {
        "trial": 0, "training_run_id": "r", "parameters": {}, "is_pruned": False, "name": "n", "status": "completed",
        "progress": None, "current_step": 7, "started_at": None, "finished_at": None, "job_id": "j",
        "job_status": "succeeded", "message": None, "seconds_since_end": 100.0, "value": None,
    }  # fmt: skip
    sweep: Any = {"metric": "reward"}

    (trial,) = read_trials({"sweep": sweep, "trials": [found | row]}, settle_seconds=10)

    assert (trial.state, trial.problem) == (state, problem)


def test_a_wrong_rule_of_early_stopping_is_named() -> None:
    for rules, field in (({"percentile": 0}, "percentile"), ({"min_trials": 1.5}, "min_trials"), ({"x": 1}, "x")):
        with pytest.raises(InvalidInput) as caught:
            plan_of("random", early_stopping=rules)
        assert caught.value.field == f"early_stopping.{field}"
