"""The only door to Optuna, which is needed by Bayesian search, early stopping and importances."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from openmanus_rl.errors import InvalidInput, UnsupportedError
from openmanus_rl.jobs.sweeps.plan import Plan
from openmanus_rl.jobs.sweeps.space import Parameter, Range, Space, Values
from openmanus_rl.jobs.sweeps.trials import Trial

if TYPE_CHECKING:
    import optuna

__all__ = ["as_parameters", "as_trial", "asking", "distributions", "is_installed", "new_study", "open_optuna"]


def is_installed() -> bool:
    """Return whether Optuna can be imported."""
    try:
        open_optuna()
    except UnsupportedError:
        return False
    return True


def open_optuna() -> Any:
    """Import Optuna; if it is missing, the error names the extra to install."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            "optuna is not installed where the orchestrator runs, and Bayesian search and early stopping need it; "
            'run: pip install "openmanus-rl[sweeps]"'
        ) from error
    # It logs every study that is made, and one is made for each decision.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@contextmanager
def asking() -> Iterator[None]:
    """Ask Optuna something: without warnings of what it calls experimental, and with errors of ours."""
    optuna = open_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            yield
        except Exception as error:
            raise InvalidInput(f"Optuna failed: {type(error).__name__}: {error}") from error


def new_study(plan: Plan, trials: Iterable[optuna.trial.FrozenTrial], **options: Any) -> optuna.Study:
    """Return a study in memory with these trials."""
    study: optuna.Study = open_optuna().create_study(direction=plan.direction, **options)
    study.add_trials(trials)
    return study


def as_trial(trial: Trial, space: Space) -> optuna.trial.FrozenTrial:
    """Return a trial as Optuna knows it; one that runs is pending, one that failed has no value."""
    made = open_optuna().trial
    states = {
        "active": made.TrialState.RUNNING,
        "settling": made.TrialState.RUNNING,
        "completed": made.TrialState.COMPLETE,
        "pruned": made.TrialState.PRUNED,
        "failed": made.TrialState.FAIL,
    }
    frozen: optuna.trial.FrozenTrial = made.create_trial(
        state=states[trial.state],
        value=trial.value if trial.state in ("completed", "pruned") else None,
        params={path: _as_choice(parameter, trial.parameters[path]) for path, parameter in space.items()},
        distributions=distributions(space),
        intermediate_values={} if trial.value is None else {trial.step: trial.value},
    )
    return frozen


def distributions(space: Space) -> dict[str, Any]:
    """Return the space in Optuna's terms: steps are counted, and values are categories."""
    return {path: _distribution(parameter) for path, parameter in space.items()}


def as_parameters(choices: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return what Optuna chose as parameters of a run."""
    return {path: _from_choice(parameter, choices[path]) for path, parameter in space.items()}


def _distribution(parameter: Parameter) -> Any:
    made = open_optuna().distributions
    if isinstance(parameter, Values):
        # As texts: Optuna's categories are numbers, texts, true, false and none.
        return made.CategoricalDistribution([_text(value) for value in parameter.values])
    if parameter.integer and parameter.step is None:
        return made.IntDistribution(int(parameter.min), int(parameter.max), log=parameter.log)
    if parameter.points is not None:
        return made.IntDistribution(0, parameter.points - 1)
    return made.FloatDistribution(float(parameter.min), float(parameter.max), log=parameter.log)


def _as_choice(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Values):
        return _text(value)
    return parameter.index_of(value) if _is_counted(parameter) else value


def _from_choice(parameter: Parameter, choice: Any) -> Any:
    if isinstance(parameter, Values):
        return next(value for value in parameter.values if _text(value) == choice)
    return parameter.at(choice) if _is_counted(parameter) else choice


def _is_counted(parameter: Range) -> bool:
    return parameter.step is not None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
