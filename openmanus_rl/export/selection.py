"""Which rows are exported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from openmanus_rl.errors import InvalidInput
from openmanus_rl.records.statuses import RolloutStatus, RunStatus
from openmanus_rl.transport.filters import Filter

__all__ = ["Selection"]

_RUN_STATUSES: tuple[str, ...] = get_args(RunStatus)
_ROLLOUT_STATUSES: tuple[str, ...] = get_args(RolloutStatus)
# Turns and chats are selected by their rollout.
_APPLICABLE = {
    "runs": {"status", "environment"},
    "metrics": set[str](),
    "rollouts": {"status", "environment", "success", "min_reward", "max_reward"},
}


@dataclass(frozen=True)
class Selection:
    """Conditions that all must match; without any, all rows are exported."""

    run_ids: Sequence[str] = ()
    status: str | None = None
    success: bool = False
    min_reward: float | None = None
    max_reward: float | None = None
    environment: str | None = None
    limit: int | None = None
    include_rewound: bool = False
    """Also rows that a rewind of their run hid."""

    def check(self, kind: str) -> None:
        """Raise `InvalidInput` for conditions that do not apply to this kind or contradict each other."""
        applicable = _APPLICABLE.get(kind, _APPLICABLE["rollouts"])
        for name in ("status", "environment", "success", "min_reward", "max_reward"):
            value = getattr(self, name)
            # By identity, since 0 is a valid bound.
            if value is not None and value is not False and name not in applicable:
                option = f"--{name.replace('_', '-')}"
                raise InvalidInput(f"{option} does not apply to {kind}", field=name, hint="leave it out")
        statuses = _RUN_STATUSES if kind == "runs" else _ROLLOUT_STATUSES
        if self.status is not None and self.status not in statuses:
            raise InvalidInput(f"{self.status!r} is not a status of {kind}: {', '.join(statuses)}", field="status")
        if self.success and self.status not in (None, "success"):
            raise InvalidInput(f"--success and --status {self.status} exclude each other", field="status")
        for bound in (self.min_reward, self.max_reward):
            if bound is not None and math.isnan(bound):
                raise InvalidInput("a reward can't be compared with NaN", field="min_reward")
        if self.limit is not None and self.limit < 1:
            raise InvalidInput(f"limit {self.limit} is not at least 1", field="limit")

    def run_filters(self) -> list[Filter]:
        """Return the conditions on a run, except its id."""
        return [
            Filter.eq(column, value)
            for column, value in (("status", self.status), ("environment", self.environment))
            if value is not None
        ]

    def rollout_filters(self) -> list[Filter]:
        """Return the conditions on a rollout, except its run."""
        status = "success" if self.success else self.status
        filters = [] if status is None else [Filter.eq("status", status)]
        if not self.include_rewound:
            filters.append(Filter.is_null("rewound_at"))
        if self.environment is not None:
            filters.append(Filter.eq("environment", self.environment))
        if self.min_reward is not None:
            filters.append(Filter.gte("total_reward", self.min_reward))
            # Postgres sorts NaN above all numbers, but it is not a high reward.
            filters.append(Filter.neq("total_reward", "NaN"))
        if self.max_reward is not None:
            filters.append(Filter.lte("total_reward", self.max_reward))
        return filters
