"""Early stopping: which trials do too badly to go on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from openmanus_rl.jobs.sweeps import _optuna
from openmanus_rl.jobs.sweeps.plan import EarlyStopping, Plan
from openmanus_rl.jobs.sweeps.trials import Trial

__all__ = ["Series", "choose_pruned"]

Series = Sequence[tuple[int, float]]
"""Steps and values of the metric, by step."""


def choose_pruned(plan: Plan, trials: Sequence[Trial], series_of: Callable[[Trial], Series]) -> list[int]:
    """Return the numbers of the active trials to stop; `series_of` reads a trial's metric."""
    rules = plan.early_stopping
    completed = [trial for trial in trials if trial.state == "completed"]
    if rules is None or len(completed) < rules.min_trials:
        return []
    running = [trial for trial in trials if trial.state == "active" and not trial.is_pruned]
    return [trial.number for trial in running if _is_bad(plan, rules, series_of(trial), completed, series_of)]


def _is_bad(
    plan: Plan, rules: EarlyStopping, mine: Series, completed: Sequence[Trial], series_of: Callable[[Trial], Series]
) -> bool:
    if not mine or mine[-1][0] < rules.after_steps:
        return False
    optuna = _optuna.open_optuna()
    if all(math.isnan(value) for _, value in mine):
        return True
    step = mine[-1][0]
    # Optuna compares values of the same step; trials log at different ones, so others are read where this one is.
    values = [(trial.value, _value_at(series_of(trial), step)) for trial in completed]
    with _optuna.asking():
        made = optuna.trial.create_trial
        others = [made(value=last, intermediate_values={step: value}) for last, value in values if value is not None]
        running = made(state=optuna.trial.TrialState.RUNNING, intermediate_values=dict(mine))
        pruner = optuna.pruners.PercentilePruner(
            rules.percentile, n_startup_trials=rules.min_trials, n_warmup_steps=rules.after_steps
        )
        return bool(pruner.prune(_optuna.new_study(plan, others), running))


def _value_at(series: Series, step: int) -> float | None:
    """Return the last value up to a step."""
    place = bisect_right(series, step, key=lambda point: point[0])
    return series[place - 1][1] if place else None
