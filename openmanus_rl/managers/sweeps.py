"""Sweeps: searches over the parameters of a run, and what orchestrators call to make their trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, known, matching
from openmanus_rl.records.ids import Id, as_id, new_id
from openmanus_rl.records.rows import Sweep, SweepTrial
from openmanus_rl.records.statuses import SweepDirection, SweepMethod, SweepStatus
from openmanus_rl.transport.filters import Page

__all__ = ["SweepClaim", "SweepManager", "SweepOverview", "TrialOverview"]


class TrialOverview(TypedDict):
    """A trial with the state of its run and job; `value` is the last one of the sweep's metric."""

    trial: int
    training_run_id: str | None
    parameters: dict[str, Any]
    is_pruned: bool
    name: str | None
    status: str | None
    progress: float | None
    current_step: int | None
    started_at: str | None
    finished_at: str | None
    job_id: str | None
    job_status: str | None
    message: str | None
    seconds_since_end: float | None
    value: float | None


class SweepOverview(TypedDict):
    """A sweep and its trials, by their numbers."""

    sweep: Sweep
    trials: list[TrialOverview]


@dataclass(frozen=True)
class SweepClaim:
    """A sweep that an orchestrator was given, and the lease under which it makes trials."""

    sweep: Sweep
    lease_id: str


class SweepManager(Manager[Sweep]):
    """Asks for sweeps, reads and stops them, and serves orchestrators."""

    table = "sweeps"
    noun = "sweep"

    @classmethod
    def request_sweep(
        cls,
        name: str,
        *,
        method: SweepMethod,
        template: Mapping[str, Any],
        space: Mapping[str, Any],
        metric: str,
        direction: SweepDirection | None = None,
        max_trials: int | None = None,
        max_concurrent: int | None = None,
        seed: int | None = None,
        early_stopping: Mapping[str, Any] | None = None,
        job_config: Mapping[str, Any] | None = None,
        sweep_id: Id | None = None,
    ) -> Sweep:
        """Ask for a sweep, whose trials an orchestrator makes, and return it; a repeated `sweep_id` changes nothing.

        `template` is the run that is varied: `{name, algorithm, environment, config}`. `space` has the values of each
        parameter by its path in the configuration. A grid and seeds try all their points unless `max_trials` is less.
        """
        # An id even if none was given: the client repeats a request whose answer was lost.
        sweep = known(
            id=new_id() if sweep_id is None else as_id(sweep_id, field="sweep_id"),
            name=name,
            method=method,
            template=dict(template),
            space=dict(space),
            metric=metric,
            direction=direction,
            max_trials=max_trials,
            max_concurrent=max_concurrent,
            seed=seed,
            early_stopping=early_stopping,
            job_config=job_config,
        )
        return cls._checked(cls._client().rpc("request_sweep", {"sweep": sweep}))

    @classmethod
    def get_sweep(cls, sweep_id: Id) -> Sweep:
        """Return a sweep; an unknown id raises `NotFoundError`."""
        return cls._get(sweep_id, field="sweep_id")

    @classmethod
    def list_sweeps(
        cls, *, status: OneOrMany | None = None, method: OneOrMany | None = None, **paging: Unpack[Paging]
    ) -> Page[Sweep]:
        """Return a page of sweeps, newest first."""
        return cls._page(*matching(status=status, method=method), **paging)

    @classmethod
    def sweep_overview(cls, sweep_id: Id) -> SweepOverview:
        """Return a sweep with its trials: parameters, status, and the last value of its metric."""
        answer = cls._client().rpc("sweep_overview", {"sweep_id": as_id(sweep_id, field="sweep_id")})
        for trial in answer["trials"]:
            # NaN and infinities are given as their names, since JSON has no numbers for them.
            trial["value"] = None if trial["value"] is None else float(trial["value"])
        return {"sweep": cls._checked(answer["sweep"]), "trials": answer["trials"]}

    @classmethod
    def stop_sweep(cls, sweep_id: Id) -> Sweep:
        """End a sweep, stop the trials that are active, and return it; one that has ended stays as it is."""
        return cls._checked(cls._client().rpc("stop_sweep", {"sweep_id": as_id(sweep_id, field="sweep_id")}))

    # For orchestrators

    @classmethod
    def claim(cls, orchestrator_id: Id, *, lease_seconds: float) -> list[SweepClaim]:
        """Lease sweeps that no other orchestrator holds."""
        params = {
            "orchestrator_id": as_id(orchestrator_id, field="orchestrator_id"),
            "lease_seconds": lease_seconds,
        }
        claims = cls._client().rpc("claim_sweeps", params)["claims"]
        return [SweepClaim(sweep=cls._checked(claim["sweep"]), lease_id=claim["lease_id"]) for claim in claims]

    @classmethod
    def add_trial(cls, lease_id: Id, trial: int, parameters: Mapping[str, Any]) -> SweepTrial:
        """Make the next trial, a run with its job; a trial that is there already is returned as it is."""
        params = {"lease_id": as_id(lease_id, field="lease_id"), "trial": trial, "parameters": dict(parameters)}
        made: SweepTrial = cls._client().rpc("add_trial", params)
        return made

    @classmethod
    def prune_trial(cls, lease_id: Id, trial: int) -> bool:
        """Stop a trial early; return whether it was active."""
        params = {"lease_id": as_id(lease_id, field="lease_id"), "trial": trial}
        return bool(cls._client().rpc("prune_trial", params))

    @classmethod
    def update_sweep(
        cls,
        lease_id: Id,
        *,
        status: SweepStatus | None = None,
        message: str | None = None,
        importances: Mapping[str, float] | None = None,
    ) -> Sweep:
        """Tell how a sweep goes, and return it; a final status ends the lease."""
        params = {
            "lease_id": as_id(lease_id, field="lease_id"),
            "changes": known(status=status, message=message, importances=importances),
        }
        return cls._checked(cls._client().rpc("update_sweep", params))
