"""Which parameters mattered for the metric."""

from __future__ import annotations

from collections.abc import Sequence

from openmanus_rl.jobs.sweeps import _optuna
from openmanus_rl.jobs.sweeps.plan import Plan
from openmanus_rl.jobs.sweeps.trials import Trial

__all__ = ["MIN_TRIALS", "measure_importances"]

MIN_TRIALS = 4
"""Fewer completed trials say nothing."""


def measure_importances(plan: Plan, trials: Sequence[Trial]) -> dict[str, float] | None:
    """Return the share of each parameter in what set good trials apart, by PED-ANOVA; None if it cannot be said."""
    completed = [trial for trial in trials if trial.state == "completed"]
    values = {trial.value for trial in completed}
    if plan.method == "seeds" or len(completed) < MIN_TRIALS or len(values) < 2 or not _optuna.is_installed():
        return None
    optuna = _optuna.open_optuna()
    with _optuna.asking():
        study = _optuna.new_study(plan, (_optuna.as_trial(trial, plan.space) for trial in completed))
        # This one needs neither scikit-learn nor a forest of trees.
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {path: round(float(share), 6) for path, share in shares.items()}
