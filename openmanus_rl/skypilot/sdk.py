"""The only door to SkyPilot: its SDK is imported here, and its errors are translated here."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from openmanus_rl.errors import InvalidInput, LaunchError
from openmanus_rl.skypilot.task import Kind

__all__ = ["Found", "SkyPilot"]

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Found:
    """A job or cluster that SkyPilot knows and that has not ended."""

    state: str
    job_id: int | None = None


class SkyPilot:
    """SkyPilot's own SDK, which talks to its API server and starts a local one where none is set up."""

    def __init__(self) -> None:
        try:
            with _translated("import SkyPilot"):
                self._sky: Any = importlib.import_module("sky")
        except ModuleNotFoundError as error:
            raise LaunchError("skypilot is not installed", hint='run: pip install "openmanus-rl[skypilot]"') from error

    def check(self, task: Mapping[str, Any]) -> None:
        """Refuse a task that SkyPilot's parser does not accept."""
        self._parse(task, {})

    def launch(self, kind: Kind, tasks: Mapping[str, Mapping[str, Any]], secrets: Mapping[str, str]) -> dict[str, str]:
        """Start a job or cluster per task, all at once; return why some could not be started, by name."""
        parsed = {name: self._parse(task, secrets) for name, task in tasks.items()}
        requests: dict[str, Any] = {}
        failures: dict[str, str] = {}
        for name, task in parsed.items():
            try:
                with _translated(f"start {name}"):
                    requests[name] = (
                        self._sky.jobs.launch(task, name=name)
                        if kind == "job"
                        else self._sky.launch(task, cluster_name=name)
                    )
            except LaunchError as error:
                failures[name] = error.message
        for name, request in requests.items():
            try:
                with _translated(f"start {name}"):
                    self._sky.get(request)
            except LaunchError as error:
                failures[name] = error.message
        return failures

    def find(self, kind: Kind, names: Sequence[str]) -> dict[str, Found]:
        """Return those jobs or clusters that have not ended, by name."""
        return self._find_jobs(names) if kind == "job" else self._find_clusters(names)

    def end(self, kind: Kind, names: Sequence[str]) -> None:
        """Cancel jobs, or remove clusters; those that are gone already are no error."""
        if kind == "job":
            ids = [found.job_id for found in self._find_jobs(names).values() if found.state != "CANCELLING"]
            if ids:
                with _translated(f"cancel {', '.join(names)}"):
                    self._sky.get(self._sky.jobs.cancel(job_ids=ids))
            return
        with _translated(f"remove {', '.join(names)}"):
            requests = [self._sky.down(name) for name in names]
        for name, request in zip(names, requests, strict=True):
            with _translated(f"remove {name}", ignored=(self._sky.exceptions.ClusterDoesNotExist,)):
                self._sky.get(request)

    def _parse(self, task: Mapping[str, Any], secrets: Mapping[str, str]) -> Any:
        try:
            with _translated("read the task"):
                return self._sky.Task.from_yaml_config(dict(task), secrets_overrides=list(secrets.items()) or None)
        except LaunchError as error:
            raise InvalidInput(error.message) from error.__cause__

    def _find_jobs(self, names: Sequence[str]) -> dict[str, Found]:
        with _translated("list managed jobs"):
            try:
                rows = self._sky.get(self._sky.jobs.queue_v2(refresh=False, skip_finished=True))[0]
            except self._sky.exceptions.ClusterNotUpError as error:
                # Without a job controller, or with one that stopped because it had nothing to do, there are no jobs.
                if getattr(error.cluster_status, "value", None) not in (None, "STOPPED"):
                    raise
                rows = []
        return {row.job_name: Found(row.status.value, row.job_id) for row in rows if row.job_name in set(names)}

    def _find_clusters(self, names: Sequence[str]) -> dict[str, Found]:
        with _translated("list clusters"):
            # AUTO asks the infrastructure about clusters that end by themselves.
            refresh = self._sky.StatusRefreshMode.AUTO
            rows = self._sky.get(self._sky.status(cluster_names=list(names), refresh=refresh))
        return {row["name"]: Found(row["status"].value) for row in rows}


@contextmanager
def _translated(attempt: str, *, ignored: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise what SkyPilot raises as a `LaunchError` with its message; what it prints goes to stderr."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except ignored:
        pass
    except (LaunchError, ModuleNotFoundError):
        raise
    except (Exception, SystemExit) as error:
        told = " ".join(_ESCAPES.sub("", str(error)).split()) or type(error).__name__
        raise LaunchError(f"SkyPilot could not {attempt}: {told}") from error
