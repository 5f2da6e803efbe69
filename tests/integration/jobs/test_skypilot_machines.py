"""No machine is left running for a job that has ended, also where SkyPilot fails to remove it at first."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from openmanus_rl.jobs import orchestrator, stop_job
from openmanus_rl.jobs.backends import skypilot, skypilot_answers, skypilot_log
from openmanus_rl.jobs.backends.skypilot import SkyPilotBackend
from openmanus_rl.jobs.orchestrator import Event, Orchestrator
from openmanus_rl.managers.jobs import JobManager
from openmanus_rl.settings import load_settings
from tests.support.fake_sky import Sky, Status

from .conftest import Jobs


@pytest.fixture
def sky(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Sky:
    assert jobs.env
    made = Sky()
    monkeypatch.setitem(sys.modules, "sky", made)  # type: ignore[arg-type]
    monkeypatch.setenv("OPENMANUS_RL_ALLOW_LOOPBACK", "1")
    monkeypatch.setattr(skypilot, "_KEEP_SECONDS", 0.0)
    monkeypatch.setattr(skypilot_answers, "_PAUSE_FACTOR", 0.0)
    monkeypatch.setattr(skypilot_log, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(orchestrator, "_LEFTOVERS_SECONDS", 0.05)
    return made


@pytest.fixture
def told(sky: Sky) -> Iterator[list[str]]:
    """What an orchestrator tells, which runs as long as the test."""
    assert sky.requests == {}
    settings, events = load_settings(), []

    def tell(event: Event) -> None:
        events.append(event.text)

    backend = SkyPilotBackend(settings)
    backend._root.mkdir(parents=True, exist_ok=True)
    made = Orchestrator(settings, {"skypilot": backend}, poll_seconds=0.02, tell=tell)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield events
    made.stop()
    thread.join(60)
    assert not thread.is_alive()


def launch(jobs: Jobs, sky: Sky, **config: Any) -> tuple[str, str]:
    """Return a job that runs on a cluster of its own, and the cluster's name."""
    job = jobs.request(infra="slurm", max_restarts=0, **config)
    jobs.await_that(lambda: sky.requests)
    sky.work()
    jobs.await_status(job, "running")
    return job, str(JobManager.get_job(job)["external_id"])


@pytest.mark.parametrize("end", ["fails", "is stopped", "succeeds"])
def test_a_job_has_not_ended_before_its_machine_is_removed(end: str, jobs: Jobs, sky: Sky, told: list[str]) -> None:
    sky.down_error = RuntimeError("the cloud does not answer")
    job, name = launch(jobs, sky, stop_grace_seconds=0)
    if end == "is stopped":
        stop_job(job)
    else:
        sky.cluster_jobs[name] = ["FAILED" if end == "fails" else "SUCCEEDED"]
    # Tried again and again.
    jobs.await_that(lambda: sky.calls.count("down") > 2)

    assert any("the cloud does not answer" in text for text in told)
    assert JobManager.get_job(job)["status"] == "running"
    assert list(sky.clusters) == [name]
    sky.down_error = None
    ended = jobs.await_status(job, "failed", "cancelled", "succeeded")

    assert ended["status"] == {"fails": "failed", "is stopped": "cancelled", "succeeds": "succeeded"}[end]
    assert jobs.ends_of(job) == [ended["status"]]
    assert sky.clusters == {}


def test_a_machine_that_was_left_is_removed_although_another_one_cannot_be(
    jobs: Jobs, sky: Sky, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    names = []
    for _ in range(2):
        job = jobs.request(infra="slurm")
        stop_job(job)
        digits = job.replace("-", "")
        names.append(f"omrl-{digits[:8]}{digits[-8:]}-1")
    stuck, left = sorted(names)
    sky.clusters |= {stuck: Status.UP, left: Status.INIT, "mine": Status.UP}
    real = sky.down

    def down(name: str) -> Any:
        if name == stuck:
            raise RuntimeError("the cloud does not answer")
        return real(name)

    monkeypatch.setattr(sky, "down", down)
    told = request.getfixturevalue("told")

    jobs.await_that(lambda: left not in sky.clusters)
    jobs.await_that(lambda: any("the cloud does not answer" in text for text in told))
    assert sorted(sky.clusters) == sorted([stuck, "mine"])
    monkeypatch.setattr(sky, "down", real)
    jobs.await_that(lambda: list(sky.clusters) == ["mine"])
