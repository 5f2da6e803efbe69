"""Stands in for SkyPilot's SDK where a real one would need a cloud, or has to fail."""

from __future__ import annotations

import copy
import enum
from types import SimpleNamespace
from typing import Any


class ClusterDoesNotExist(ValueError):
    pass


class ClusterNotUpError(Exception):
    def __init__(self, message: str, cluster_status: Any = None) -> None:
        super().__init__(message)
        self.cluster_status = cluster_status


class ApiServerConnectionError(RuntimeError):
    pass


class Status(enum.Enum):
    UP = "UP"
    INIT = "INIT"
    RUNNING = "RUNNING"


def _status(value: str) -> Any:
    return SimpleNamespace(value=value)


class Sky:
    """Clusters and jobs by name; `failing` has the names whose launch fails, with the message.

    A launch is a request, which happens when somebody waits for it with `get`, or when `work` is called.
    """

    exceptions = SimpleNamespace(ClusterDoesNotExist=ClusterDoesNotExist, ClusterNotUpError=ClusterNotUpError)
    StatusRefreshMode = SimpleNamespace(AUTO="AUTO", NONE="NONE")

    def __init__(self, failing: dict[str, str] | None = None) -> None:
        self.failing = failing or {}
        self.clusters: dict[str, Any] = {}
        self.job_names: dict[int, str] = {}
        # Of managed jobs, by id; RUNNING if not said.
        self.job_statuses: dict[int, str] = {}
        self.job_details: dict[int, dict[str, Any]] = {}
        # Of the jobs of clusters, by name, in the order of their ids.
        self.cluster_jobs: dict[str, list[str]] = {}
        self.logs: dict[str, str] = {}
        self.costs: list[dict[str, Any]] = []
        self.cancelled: list[Any] = []
        self.controller_error: Exception | None = None
        self.down_error: Exception | None = None
        self.is_unreachable = False
        self.calls: list[str] = []
        self.requests: dict[str, SimpleNamespace] = {}
        self.secrets: list[dict[str, str]] = []
        self.tasks: list[dict[str, Any]] = []
        self.Task = SimpleNamespace(from_yaml_config=self._parse)
        self.jobs = SimpleNamespace(
            launch=self._launch_job, queue_v2=self._queue, cancel=self._cancel, tail_logs=self._tail_job
        )

    def _parse(self, config: dict[str, Any], secrets_overrides: list[tuple[str, str]] | None = None) -> Any:
        if config["resources"].get("infra") == "nosuch":
            raise ValueError("\x1b[31m'nosuch' is no infrastructure\x1b[0m")
        self.tasks.append(copy.deepcopy(config))
        self.secrets.append(dict(secrets_overrides or []))
        return config

    # Requests

    def _ask(self, name: str, cluster: str | None, do: Any) -> str:
        self._called(name)
        request_id = f"request-{len(self.requests) + 1}"
        self.requests[request_id] = SimpleNamespace(
            request_id=request_id,
            name=name,
            cluster_name=cluster,
            created_at=len(self.requests),
            status="PENDING",
            do=do,
            error=None,
        )
        return request_id

    def work(self) -> None:
        """Do what was asked for."""
        for request in self.requests.values():
            if request.status == "PENDING":
                try:
                    request.do()
                    request.status = "SUCCEEDED"
                except (RuntimeError, ValueError) as error:
                    request.status, request.error = "FAILED", error

    def get(self, request: Any) -> Any:
        if not isinstance(request, str):
            return request()
        self._called("get")
        self.work()
        if self.requests[request].error is not None:
            raise self.requests[request].error
        return None

    def api_status(
        self, request_ids: list[str] | None = None, cluster_name: str | None = None, all_status: bool = False
    ) -> list[Any]:
        self._called("api_status")
        rows = self.requests.values()
        if request_ids:
            return [row for row in rows if row.request_id in request_ids]
        assert all_status
        return [row for row in rows if row.cluster_name == cluster_name]

    def api_cancel(self, request_ids: list[str], *, silent: bool) -> Any:
        assert silent

        def cancel() -> None:
            for request_id in request_ids:
                self.requests[request_id].status = "CANCELLED"

        return cancel

    def _called(self, what: str) -> None:
        if self.is_unreachable:
            raise ApiServerConnectionError("Could not connect to SkyPilot API server")
        self.calls.append(what)

    # Clusters

    def launch(self, _task: Any, *, cluster_name: str) -> Any:
        def provision() -> None:
            # A cluster that could not be set up stays, as with the real one.
            self.clusters[cluster_name] = Status.INIT
            if cluster_name in self.failing:
                raise RuntimeError(self.failing[cluster_name])
            self.clusters[cluster_name] = Status.UP
            self.cluster_jobs.setdefault(cluster_name, []).append("RUNNING")

        return self._ask("sky.launch", cluster_name, provision)

    def down(self, name: str) -> Any:
        self._called("down")

        def remove() -> None:
            if self.down_error is not None:
                raise self.down_error
            self.cluster_jobs.pop(name, None)
            if self.clusters.pop(name, None) is None:
                raise ClusterDoesNotExist(f"Cluster {name!r} does not exist.")

        return remove

    def status(self, *, cluster_names: list[str] | None = None, refresh: str | None = None) -> Any:
        self._called("status")
        assert cluster_names is None or refresh in ("AUTO", "NONE")
        self.calls.append(f"status {refresh}")
        found = self.clusters.items()
        return lambda: [{"name": n, "status": s} for n, s in found if cluster_names is None or n in cluster_names]

    def queue(self, name: str, *, all_users: bool) -> Any:
        self._called("queue")
        assert all_users

        def rows() -> Any:
            if name not in self.clusters:
                raise ClusterDoesNotExist(name)
            if self.clusters[name] is not Status.UP:
                raise ClusterNotUpError(name, self.clusters[name])
            found = self.cluster_jobs.get(name, [])
            return [SimpleNamespace(job_id=i, status=_status(s)) for i, s in enumerate(found, 1)]

        return rows

    def cancel(self, name: str, *, job_ids: list[int]) -> Any:
        def end() -> None:
            if name not in self.clusters:
                raise ClusterDoesNotExist(name)
            self.cancelled.append((name, *job_ids))
            for job_id in job_ids:
                self.cluster_jobs[name][job_id - 1] = "CANCELLED"

        return end

    def tail_logs(self, name: str, job_id: int, *, follow: bool, output_stream: Any) -> None:
        self._called("tail_logs")
        assert job_id
        assert not follow
        output_stream.write(self.logs.get(name, ""))

    def cost_report(self) -> Any:
        self._called("cost_report")
        return lambda: self.costs

    # Managed jobs

    def _launch_job(self, _task: Any, *, name: str) -> Any:
        if name in self.failing:
            raise RuntimeError(self.failing[name])
        return self._ask(
            "sky.jobs.launch",
            "sky-jobs-controller",
            lambda: self.job_names.__setitem__(len(self.job_names) + 1, name),
        )

    def _queue(self, *, refresh: bool, skip_finished: bool, fields: Any = (), name_match: str = "") -> Any:
        self._called("queue_v2")
        assert not refresh
        assert not fields or "recovery_count" in fields

        def rows() -> Any:
            if self.controller_error is not None:
                raise self.controller_error
            found = [self._row(i, n) for i, n in self.job_names.items() if name_match in n]
            ended = ("SUCCEEDED", "CANCELLED", "FAILED")
            left = [row for row in found if not skip_finished or not row.status.value.startswith(ended)]
            return left, len(left), {}, 0

        return rows

    def _row(self, job_id: int, name: str) -> Any:
        details = {"recovery_count": 0, "failure_reason": None, "current_cluster_name": None}
        details |= self.job_details.get(job_id, {})
        status = _status(self.job_statuses.get(job_id, "RUNNING"))
        return SimpleNamespace(job_name=name, job_id=job_id, status=status, **details)

    def _cancel(self, *, job_ids: list[int]) -> Any:
        def end() -> None:
            for job_id in job_ids:
                self.cancelled.append(self.job_names[job_id])
                self.job_statuses[job_id] = "CANCELLED"

        return end

    def _tail_job(self, *, job_id: int, follow: bool, output_stream: Any) -> None:
        self._called("tail_logs")
        assert not follow
        output_stream.write(self.logs.get(self.job_names[job_id], ""))
