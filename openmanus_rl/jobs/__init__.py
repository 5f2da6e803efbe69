"""Training jobs: launches of training runs, on this machine or through SkyPilot.

A job is asked for here, in the dashboard or with the function `launch-training`; `openmanus-rl orchestrator` launches
and follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openmanus_rl.managers.jobs import JobManager
from openmanus_rl.records.ids import Id

__all__ = ["get_job_logs", "get_job_status", "launch_training_job", "stop_job"]


def launch_training_job(run_id: Id, config: Mapping[str, Any] | None = None) -> str:
    """Ask for a job that trains a run, and return its id.

    `config` says where and how: `backend` (`local`, the default, or `skypilot`), `accelerator` (`"A10:1"`), `infra` or
    `cloud`, `use_spot`, `cpus`, `memory`, `disk_size_gb`, `image`, `autostop_minutes`, `setup`, `package`, `extras`,
    `secrets`, `env`, `metrics_interval`, `frame_interval`, `max_restarts`, `timeout_minutes`, `stop_grace_seconds`. An
    unknown key raises `InvalidInput`.
    """
    return JobManager.request_job(run_id, config).job["id"]


def get_job_status(job_id: Id) -> str:
    """Return `pending`, `launching`, `queued`, `running`, `succeeded`, `failed` or `cancelled`."""
    return JobManager.get_job(job_id)["status"]


def get_job_logs(job_id: Id, *, attempt: int | None = None) -> str:
    """Return what a job has printed so far, in its last attempt or in the given one."""
    parts: list[str] = []
    after = 0
    while True:
        part = JobManager.read_logs(job_id, attempt=attempt, after=after)
        parts.append(part["text"])
        # The attempt that was begun with, also if the next one begins meanwhile.
        after, attempt = part["next"], part["attempt"]
        if not part["text"] or after >= part["end"]:
            return "".join(parts)


def stop_job(job_id: Id) -> str:
    """Ask a job to stop, and return its status: one that waits is cancelled, one that trains ends after its step."""
    return JobManager.stop_jobs([job_id])[0]["status"]
