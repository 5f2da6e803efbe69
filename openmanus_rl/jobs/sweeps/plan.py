"""What a sweep asks for, read from its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openmanus_rl.errors import InvalidInput
from openmanus_rl.jobs.sweeps.space import Space, count_points, read_space
from openmanus_rl.records.statuses import SweepDirection, SweepMethod

__all__ = ["EarlyStopping", "Plan", "read_plan"]


class EarlyStopping(BaseModel):
    """When a trial is stopped early: once its best value so far is not among the best `percentile` of the others.

    It is looked at from `after_steps` on, and once `min_trials` others have completed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    after_steps: int = Field(default=0, ge=0)
    min_trials: int = Field(default=4, ge=1, le=10_000)
    percentile: float = Field(default=50, gt=0, lt=100)


@dataclass(frozen=True)
class Plan:
    """A sweep that can be driven."""

    method: SweepMethod
    space: Space
    metric: str
    direction: SweepDirection
    max_trials: int
    max_concurrent: int
    seed: int
    early_stopping: EarlyStopping | None

    @property
    def needs_optuna(self) -> bool:
        """Whether it can be driven only with Optuna."""
        return self.method == "bayesian" or self.early_stopping is not None


def read_plan(sweep: Mapping[str, Any]) -> Plan:
    """Return what a sweep asks for; an error names the field."""
    space = read_space(sweep["space"], sweep["template"].get("config"))
    max_trials = int(sweep["max_trials"])
    if sweep["method"] in ("grid", "seeds"):
        max_trials = min(max_trials, count_points(space))
    return Plan(
        method=sweep["method"],
        space=space,
        metric=sweep["metric"],
        direction=sweep["direction"],
        max_trials=max_trials,
        max_concurrent=int(sweep["max_concurrent"]),
        seed=int(sweep["seed"]),
        early_stopping=None if sweep["early_stopping"] is None else _read_early_stopping(sweep["early_stopping"]),
    )


def _read_early_stopping(given: Any) -> EarlyStopping:
    try:
        return EarlyStopping.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(["early_stopping", *map(str, first["loc"])])
        raise InvalidInput(f"{field}: {first['msg']}", field=field) from error
