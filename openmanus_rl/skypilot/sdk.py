"""The only door to SkyPilot: its SDK is imported here."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openmanus_rl.errors import ConnectionFailed, InvalidInput, LaunchError
from openmanus_rl.skypilot.calls import same_logging, translated
from openmanus_rl.skypilot.task import PREFIX, Kind

__all__ = ["Found", "Request", "Seen", "SkyPilot"]

_JOB_FIELDS = (
    "job_id",
    "job_name",
    "task_id",
    "status",
    "recovery_count",
    "failure_reason",
    "current_cluster_name",
)


@dataclass(frozen=True)
class Found:
    """A job or cluster that SkyPilot knows and that has not ended."""

    state: str
    job_id: int | None = None


@dataclass(frozen=True)
class Seen:
    """A managed job, or a job of a cluster, that may have ended; `status` is SkyPilot's."""

    name: str
    status: str
    job_id: int
    cluster: str | None = None
    reason: str | None = None
    recoveries: int = 0
    """How often SkyPilot has begun it anew, because its machine was lost."""


@dataclass(frozen=True)
class Request:
    """What became of something that SkyPilot's API server was asked to do."""

    id: str
    status: str
    """PENDING, WAITING, RUNNING, SUCCEEDED, FAILED or CANCELLED."""

    @property
    def is_under_way(self) -> bool:
        """Whether it has not ended."""
        return self.status not in ("SUCCEEDED", "FAILED", "CANCELLED")


class SkyPilot:
    """SkyPilot's own SDK, which talks to its API server and starts a local one where none is set up."""

    def __init__(self) -> None:
        try:
            with translated("import SkyPilot"), same_logging():
                self._sky: Any = importlib.import_module("sky")
        except ModuleNotFoundError as error:
            raise LaunchError("skypilot is not installed", hint='run: pip install "openmanus-rl[skypilot]"') from error

    def check(self, task: Mapping[str, Any]) -> None:
        """Refuse a task that SkyPilot's parser does not accept."""
        self._parse(task, {})

    # Launching -----------------------------------------------------------------------------------------------------

    def begin(self, kind: Kind, name: str, task: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
        """Ask for a job or cluster, and return the id of the request, which goes on at the API server."""
        return str(self._begin(kind, name, self._parse(task, secrets)))

    def launch(self, kind: Kind, tasks: Mapping[str, Mapping[str, Any]], secrets: Mapping[str, str]) -> dict[str, str]:
        """Start a job or cluster per task, all at once; return why some could not be started, by name."""
        parsed = {name: self._parse(task, secrets) for name, task in tasks.items()}
        requests: dict[str, Any] = {}
        failures: dict[str, str] = {}
        for name, task in parsed.items():
            try:
                requests[name] = self._begin(kind, name, task)
            except (LaunchError, ConnectionFailed) as error:
                failures[name] = error.message
        for name, request in requests.items():
            try:
                with translated(f"start {name}"):
                    self._sky.get(request)
            except (LaunchError, ConnectionFailed) as error:
                failures[name] = error.message
        return failures

    def find_request(self, kind: Kind, name: str, request_id: str | None) -> Request | None:
        """Return the request that launched something, by its id, or, for a cluster only, by its name."""
        if request_id is None and kind == "job":
            return None
        by = {"request_ids": [request_id]} if request_id else {"cluster_name": name, "all_status": True}
        with translated(f"find the request for {name}"):
            rows = self._sky.api_status(**by)
        # A server that does not know the filter tells of all clusters.
        found = [row for row in rows if request_id or (row.name.endswith("launch") and row.cluster_name == name)]
        last = max(found, key=lambda row: row.created_at, default=None)
        return None if last is None else Request(last.request_id, last.status)

    def request_error(self, request: Request) -> str:
        """Return why a request failed, in SkyPilot's words."""
        try:
            with translated("start it"):
                self._sky.get(request.id)
        except LaunchError as error:
            return error.message
        return "SkyPilot could not start it, and does not say why"

    def abandon(self, request: Request) -> None:
        """End a request that is under way."""
        with translated(f"cancel the request {request.id}"):
            self._sky.get(self._sky.api_cancel([request.id], silent=True))

    # Looking -------------------------------------------------------------------------------------------------------

    def find(self, kind: Kind, names: Sequence[str], *, refresh: bool = False) -> dict[str, Found]:
        """Return those jobs or clusters that have not ended, by name.

        SkyPilot looks after its clusters once a minute. With `refresh` it does so now, about those that end by
        themselves: that waits for launches that are under way.
        """
        return self._find_jobs(names) if kind == "job" else self._find_clusters(names, refresh=refresh)

    def list_jobs(self) -> list[Seen]:
        """Return all managed jobs whose names begin with our prefix, also those that have ended."""
        rows = self._job_rows(skip_finished=False, fields=list(_JOB_FIELDS), name_match=PREFIX)
        return [
            Seen(
                row.job_name,
                row.status.value,
                row.job_id,
                cluster=row.current_cluster_name,
                reason=row.failure_reason,
                recoveries=row.recovery_count or 0,
            )
            for row in rows
            if row.status is not None and (row.job_name or "").startswith(PREFIX)
        ]

    def look_at_cluster(self, name: str) -> tuple[list[Seen], str | None]:
        """Return the jobs of a cluster and its status, None if there is none; SkyPilot asks the infrastructure."""
        errors = self._sky.exceptions
        with translated(f"list the jobs of {name}"):
            try:
                rows = self._sky.get(self._sky.queue(name, all_users=True))
            except errors.ClusterDoesNotExist:
                return [], None
            except errors.ClusterNotUpError as error:
                return [], getattr(error.cluster_status, "value", None) or "INIT"
        return [Seen(name, row.status.value, row.job_id, cluster=name) for row in rows], "UP"

    def list_names(self) -> list[str]:
        """Return the names with our prefix of jobs that have not ended, and of clusters."""
        jobs = [job.job_name for job in self._job_rows(skip_finished=True)]
        with translated("list clusters"):
            clusters = [row["name"] for row in self._sky.get(self._sky.status())]
        return [name for name in jobs + clusters if (name or "").startswith(PREFIX)]

    def read_log(self, kind: Kind, job: Seen) -> str:
        """Return all that a job has printed so far, as SkyPilot shows it."""
        printed = io.StringIO()
        with translated(f"read the log of {job.name}"):
            if kind == "job":
                self._sky.jobs.tail_logs(job_id=job.job_id, follow=False, output_stream=printed)
            else:
                self._sky.tail_logs(job.name, job.job_id, follow=False, output_stream=printed)
        return printed.getvalue()

    def read_costs(self) -> dict[str, float]:
        """Return what clusters have cost in US dollars, by name, where SkyPilot knows prices."""
        with translated("read costs"):
            rows = self._sky.get(self._sky.cost_report())
        costs: dict[str, float] = {}
        for row in rows:
            # 0 is what it says if it knows no price.
            if row.get("total_cost"):
                costs[row["name"]] = costs.get(row["name"], 0.0) + float(row["total_cost"])
        return costs

    # Ending --------------------------------------------------------------------------------------------------------

    def cancel(self, kind: Kind, jobs: Sequence[Seen]) -> None:
        """Cancel jobs; those that have ended already, or whose cluster is gone, are no error."""
        errors = self._sky.exceptions
        for job in jobs:
            gone = (errors.ClusterDoesNotExist, errors.ClusterNotUpError)
            with translated(f"cancel {job.name}", ignored=gone):
                self._sky.get(
                    self._sky.jobs.cancel(job_ids=[job.job_id])
                    if kind == "job"
                    else self._sky.cancel(job.name, job_ids=[job.job_id])
                )

    def end(self, kind: Kind, names: Sequence[str]) -> None:
        """Cancel jobs, or remove clusters; those that are gone already are no error."""
        if kind == "job":
            ids = [
                row.job_id
                for row in self._job_rows(skip_finished=True)
                if row.job_name in set(names) and row.status.value != "CANCELLING"
            ]
            if ids:
                with translated(f"cancel {', '.join(names)}"):
                    self._sky.get(self._sky.jobs.cancel(job_ids=ids))
            return
        with translated(f"remove {', '.join(names)}"):
            requests = [self._sky.down(name) for name in names]
        for name, request in zip(names, requests, strict=True):
            with translated(f"remove {name}", ignored=(self._sky.exceptions.ClusterDoesNotExist,)):
                self._sky.get(request)

    def _begin(self, kind: Kind, name: str, parsed: Any) -> Any:
        with translated(f"start {name}"):
            return (
                self._sky.jobs.launch(parsed, name=name)
                if kind == "job"
                else self._sky.launch(parsed, cluster_name=name)
            )

    def _parse(self, task: Mapping[str, Any], secrets: Mapping[str, str]) -> Any:
        try:
            with translated("read the task"):
                return self._sky.Task.from_yaml_config(dict(task), secrets_overrides=list(secrets.items()) or None)
        except LaunchError as error:
            raise InvalidInput(error.message) from error.__cause__

    def _job_rows(self, **options: Any) -> list[Any]:
        with translated("list managed jobs"):
            try:
                rows: list[Any] = self._sky.get(self._sky.jobs.queue_v2(refresh=False, **options))[0]
            except self._sky.exceptions.ClusterNotUpError as error:
                # Without a job controller, or with one that stopped because it had nothing to do, there are no jobs.
                if getattr(error.cluster_status, "value", None) not in (None, "STOPPED"):
                    raise
                rows = []
        return rows

    def _find_jobs(self, names: Sequence[str]) -> dict[str, Found]:
        rows = self._job_rows(skip_finished=True)
        return {row.job_name: Found(row.status.value, row.job_id) for row in rows if row.job_name in set(names)}

    def _find_clusters(self, names: Sequence[str], *, refresh: bool) -> dict[str, Found]:
        mode = self._sky.StatusRefreshMode.AUTO if refresh else self._sky.StatusRefreshMode.NONE
        with translated("list clusters"):
            rows = self._sky.get(self._sky.status(cluster_names=list(names), refresh=mode))
        return {row["name"]: Found(row["status"].value) for row in rows}
