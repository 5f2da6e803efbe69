"""The driver of sweeps: makes their trials, stops bad ones early, and ends sweeps.

Every decision is derived from rows, and every change is one call under the sweep's lease: a driver that is killed
between any two calls leaves a sweep that the next driver goes on with. What is kept in memory only saves reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError
from openmanus_rl.jobs.sweeps._optuna import open_optuna
from openmanus_rl.jobs.sweeps.importance import measure_importances
from openmanus_rl.jobs.sweeps.plan import Plan, read_plan
from openmanus_rl.jobs.sweeps.pruning import Series, choose_pruned
from openmanus_rl.jobs.sweeps.search import choose_parameters
from openmanus_rl.jobs.sweeps.trials import Trial, read_trials
from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.managers.sweeps import SweepManager
from openmanus_rl.records.ids import Id
from openmanus_rl.records.rows import Sweep
from openmanus_rl.transport.client import Client

__all__ = ["SweepDriver"]


class SweepDriver:
    """Drives the sweeps that an orchestrator holds; the orchestrator calls `advance` in each of its rounds."""

    def __init__(
        self,
        orchestrator_id: Id,
        lease_seconds: float,
        *,
        client: Client | None = None,
        settle_seconds: float = 30,
    ) -> None:
        self._orchestrator_id = orchestrator_id
        self._lease_seconds = lease_seconds
        self._settle_seconds = settle_seconds
        self._sweeps = SweepManager if client is None else SweepManager.using(client)
        self._metrics = MetricManager if client is None else MetricManager.using(client)
        # Sweeps by leases. Each access is one step, so that another thread may renew and forget them.
        self._leases: dict[str, str] = {}
        self._measured: dict[str, list[Trial]] = {}
        self._series: dict[str, Series] = {}

    def advance(self) -> int:
        """Claim sweeps, and make, prune and end what is to be; return how many sweeps are held and active."""
        for claim in self._sweeps.claim(self._orchestrator_id, lease_seconds=self._lease_seconds):
            self._leases[claim.lease_id] = claim.sweep["id"]
        for lease_id, sweep_id in list(self._leases.items()):
            try:
                self._advance(sweep_id, lease_id)
            except (ConflictError, NotFoundError):
                # Another orchestrator holds it, or it was stopped or deleted.
                self.forget([lease_id])
        return len(self._leases)

    def lease_ids(self) -> list[str]:
        """Return the leases to renew. May be called by another thread, as `forget` may."""
        return list(self._leases)

    def forget(self, lease_ids: Iterable[str]) -> None:
        """Leave sweeps whose leases were lost, or which have ended."""
        for lease_id in lease_ids:
            self._leases.pop(lease_id, None)

    def _advance(self, sweep_id: str, lease_id: str) -> None:
        overview = self._sweeps.sweep_overview(sweep_id)
        if overview["sweep"]["status"] != "running":
            self.forget([lease_id])
            return
        trials = read_trials(overview, settle_seconds=self._settle_seconds)
        try:
            plan = read_plan(overview["sweep"])
            if plan.needs_optuna:
                # Before the first trial, and not when it is asked.
                open_optuna()
            self._prune(plan, trials, lease_id)
            self._add_trials(plan, trials, lease_id)
            if len(trials) >= plan.max_trials and all(trial.has_ended for trial in trials):
                self._end(plan, trials, lease_id)
            else:
                self._note_importances(plan, trials, overview["sweep"], lease_id)
        except InvalidInput as error:
            # It cannot be driven here: not with such a space, or not without Optuna.
            self._sweeps.update_sweep(lease_id, status="failed", message=error.message)
            self.forget([lease_id])

    def _prune(self, plan: Plan, trials: Sequence[Trial], lease_id: str) -> None:
        for number in choose_pruned(plan, trials, partial(self._read_series, plan.metric)):
            self._sweeps.prune_trial(lease_id, number)

    def _add_trials(self, plan: Plan, trials: list[Trial], lease_id: str) -> None:
        """Make the next trials, as many as there is room for, and append them to `trials`."""
        active = sum(trial.state == "active" for trial in trials)
        for number in range(len(trials), min(plan.max_trials, len(trials) + plan.max_concurrent - active)):
            parameters = choose_parameters(plan, number, trials)
            try:
                made = self._sweeps.add_trial(lease_id, number, parameters)
            except ConflictError as error:
                if error.field != "max_concurrent":
                    raise
                # Somebody tried a trial again meanwhile: there is room when that has ended.
                return
            trials.append(Trial(number, made["parameters"], "active", run_id=made["training_run_id"]))

    def _note_importances(self, plan: Plan, trials: Sequence[Trial], sweep: Sweep, lease_id: str) -> None:
        completed = [trial for trial in trials if trial.state == "completed"]
        if self._measured.get(lease_id) == completed:
            return
        self._measured = {held: self._measured[held] for held in self._leases if held in self._measured}
        self._measured[lease_id] = completed
        found = measure_importances(plan, completed)
        if found is not None and found != sweep["importances"]:
            self._sweeps.update_sweep(lease_id, importances=found)

    def _end(self, plan: Plan, trials: Sequence[Trial], lease_id: str) -> None:
        if any(trial.state != "failed" for trial in trials):
            self._sweeps.update_sweep(lease_id, status="completed", importances=measure_importances(plan, trials))
        else:
            message = f"all {len(trials)} trials failed; the first: {trials[0].problem}"
            self._sweeps.update_sweep(lease_id, status="failed", message=message)
        self.forget([lease_id])
        self._series.clear()

    def _read_series(self, metric: str, trial: Trial) -> Series:
        """Return the metric of a trial; that of one that has completed is read once."""
        if trial.run_id is None:
            return []
        if trial.state == "completed" and trial.run_id in self._series:
            return self._series[trial.run_id]
        points = self._metrics.get_series(trial.run_id, [metric]).get(metric, [])
        self._series[trial.run_id] = [(point.step, point.value) for point in points]
        return self._series[trial.run_id]
