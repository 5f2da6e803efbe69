"""Which parameters a trial gets. Whoever computes them from the same rows gets the same."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from openmanus_rl.jobs.sweeps import _optuna
from openmanus_rl.jobs.sweeps.plan import Plan
from openmanus_rl.jobs.sweeps.space import point_of
from openmanus_rl.jobs.sweeps.trials import Trial

__all__ = ["choose_parameters"]

_SEEDS_PER_SWEEP = 10_000


def choose_parameters(plan: Plan, number: int, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the parameters of trial `number`, given the trials before it."""
    if plan.method in ("grid", "seeds"):
        return point_of(plan.space, number)
    if plan.method == "random":
        return {path: one.draw(Random(f"{plan.seed}/{number}/{path}")) for path, one in plan.space.items()}
    return _choose_by_tpe(plan, number, trials)


def _choose_by_tpe(plan: Plan, number: int, trials: Sequence[Trial]) -> dict[str, Any]:
    optuna = _optuna.open_optuna()
    with _optuna.asking():
        sampler = optuna.samplers.TPESampler(
            # A sampler is made for each trial, and must not begin with the same numbers each time.
            seed=(plan.seed * _SEEDS_PER_SWEEP + number) % 2**32,
            n_startup_trials=max(2, min(10, plan.max_trials // 3)),
            multivariate=True,
            # Trials that run count as bad ones, so that those at the same time are not all alike.
            constant_liar=True,
        )
        study = _optuna.new_study(plan, (_optuna.as_trial(trial, plan.space) for trial in trials), sampler=sampler)
        chosen = study.ask(_optuna.distributions(plan.space)).params
    return _optuna.as_parameters(chosen, plan.space)
