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


class Status(enum.Enum):
    UP = "UP"
    INIT = "INIT"
    RUNNING = "RUNNING"


class Sky:
    """Clusters and jobs by name; `failing` has the names whose launch fails, with the message."""

    exceptions = SimpleNamespace(ClusterDoesNotExist=ClusterDoesNotExist, ClusterNotUpError=ClusterNotUpError)
    StatusRefreshMode = SimpleNamespace(AUTO="AUTO")

    def __init__(self, failing: dict[str, str] | None = None) -> None:
        self.failing = failing or {}
        self.clusters: dict[str, Any] = {}
        self.job_names: dict[int, str] = {}
        self.controller_error: Exception | None = None
        self.secrets: list[dict[str, str]] = []
        self.tasks: list[dict[str, Any]] = []
        self.Task = SimpleNamespace(from_yaml_config=self._parse)
        self.jobs = SimpleNamespace(launch=self._launch_job, queue_v2=self._queue, cancel=self._cancel)

    def _parse(self, config: dict[str, Any], secrets_overrides: list[tuple[str, str]] | None = None) -> Any:
        if config["resources"]["infra"] == "nosuch":
            raise ValueError("\x1b[31m'nosuch' is no infrastructure\x1b[0m")
        self.tasks.append(copy.deepcopy(config))
        self.secrets.append(dict(secrets_overrides or []))
        return config

    def launch(self, _task: Any, *, cluster_name: str) -> Any:
        def provision() -> None:
            # A cluster that could not be set up stays, as with the real one.
            self.clusters[cluster_name] = Status.INIT
            if cluster_name in self.failing:
                raise RuntimeError(self.failing[cluster_name])
            self.clusters[cluster_name] = Status.UP

        return provision

    def down(self, name: str) -> Any:
        def remove() -> None:
            if self.clusters.pop(name, None) is None:
                raise ClusterDoesNotExist(f"Cluster {name!r} does not exist.")

        return remove

    def status(self, *, cluster_names: list[str], refresh: str) -> Any:
        assert refresh == "AUTO"
        return lambda: [{"name": n, "status": s} for n, s in self.clusters.items() if n in cluster_names]

    def get(self, request: Any) -> Any:
        return request()

    def _launch_job(self, _task: Any, *, name: str) -> Any:
        if name in self.failing:
            raise RuntimeError(self.failing[name])
        return lambda: self.job_names.__setitem__(len(self.job_names) + 1, name)

    def _queue(self, *, refresh: bool, skip_finished: bool) -> Any:
        assert skip_finished
        assert not refresh

        def rows() -> Any:
            if self.controller_error is not None:
                raise self.controller_error
            names = self.job_names.items()
            return [SimpleNamespace(job_name=n, job_id=i, status=Status.RUNNING) for i, n in names], len(names), {}, 0

        return rows

    def _cancel(self, *, job_ids: list[int]) -> Any:
        return lambda: [self.job_names.pop(job_id) for job_id in job_ids]
