"""POST launch-training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openmanus_rl.records.ids import new_id

from .api import UNKNOWN_ID, Database, Functions, ok, refused

MakeRun = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_job_is_left(sql: Database) -> Iterator[None]:
    """Leave no job that an orchestrator of another test would launch."""
    yield
    sql.rows("update public.jobs set status = 'cancelled' where status = 'pending' returning 1")


@pytest.fixture
def run_id(make_run: MakeRun) -> str:
    return make_run()


def jobs_of(sql: Database, run_id: str) -> list[tuple[Any, ...]]:
    return sql.rows("select id::text, yaml, status, backend from public.jobs where training_run_id = %s", run_id)


def test_a_job_waits_for_an_orchestrator(secret: Functions, sql: Database, run_id: str) -> None:
    answer = ok(
        secret.post("launch-training", {"runId": run_id, "config": {"accelerator": "A10:1", "metrics_interval": 50}})
    )

    assert jobs_of(sql, run_id) == [(answer["jobId"], answer["yaml"], "pending", "skypilot")]
    assert answer.keys() == {"jobId", "yaml"}
    assert '  accelerators: "A10:1"\n' in answer["yaml"]
    assert '  METRICS_INTERVAL: "50"\n' in answer["yaml"]


def test_the_yaml_holds_no_secret(stack: Any, secret: Functions, run_id: str) -> None:
    yaml = ok(secret.post("launch-training", {"runId": run_id, "config": {"secrets": ["WANDB_API_KEY"]}}))["yaml"]

    assert "  SUPABASE_SERVICE_ROLE_KEY: null\n" in yaml
    assert "  WANDB_API_KEY: null\n" in yaml
    assert stack.secret_key not in yaml


def test_the_configuration_may_be_left_out(secret: Functions, sql: Database, run_id: str) -> None:
    ok(secret.post("launch-training", {"runId": run_id}))

    assert [job[3] for job in jobs_of(sql, run_id)] == ["local"]


@pytest.mark.parametrize("by", ["jobId", "header"])
def test_a_repeated_request_changes_nothing(secret: Functions, sql: Database, run_id: str, by: str) -> None:
    job_id = new_id()
    body = {"runId": run_id} | ({"jobId": job_id} if by == "jobId" else {})
    headers = {**secret.headers} | ({"idempotency-key": job_id} if by == "header" else {})

    first = ok(secret.post("launch-training", body, headers=headers))
    assert ok(secret.post("launch-training", body, headers=headers)) == first
    assert len(jobs_of(sql, run_id)) == 1
    assert by == "header" or first["jobId"] == job_id


def test_a_run_has_one_job_at_a_time(secret: Functions, run_id: str) -> None:
    job_id = ok(secret.post("launch-training", {"runId": run_id}))["jobId"]

    assert job_id in refused(secret.post("launch-training", {"runId": run_id}), 409, "conflict")


@pytest.mark.parametrize("status", ["completed", "running"])
def test_a_run_that_trains_or_has_completed_is_not_launched(
    secret: Functions, make_run: MakeRun, sql: Database, status: str
) -> None:
    run_id = make_run()
    sql.rows(
        "update public.training_runs set heartbeat_at = now(), status = %s where id = %s returning 1", status, run_id
    )

    refused(secret.post("launch-training", {"runId": run_id}), 409, "conflict")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"accelarator": "A10:1"}, "config.accelarator"),
        ({"max_restarts": -1}, "config.max_restarts"),
        ({"metrics_interval": 1.5}, "config.metrics_interval"),
        ({"accelerator": "A10:1; rm"}, "config.accelerator"),
        ({"backend": "local", "use_spot": True}, "config.use_spot"),
        ({"env": {"A": 1}}, "config.env"),
    ],
)
def test_a_wrong_option_is_refused_and_named(
    secret: Functions, sql: Database, run_id: str, config: dict[str, Any], field: str
) -> None:
    message = refused(secret.post("launch-training", {"runId": run_id, "config": config}), 400, "invalid_input")

    assert message.startswith(f"{field}: ")
    assert jobs_of(sql, run_id) == []


def test_an_unknown_run_is_named(secret: Functions) -> None:
    assert UNKNOWN_ID in refused(secret.post("launch-training", {"runId": UNKNOWN_ID}), 404, "not_found")


def test_only_whoever_may_change_the_run_launches_it(
    callers: dict[str, Functions], users: dict[str, str], make_run: MakeRun
) -> None:
    own = make_run(owner_id=users["editor"])
    others = make_run(visibility="public")

    ok(callers["editor"].post("launch-training", {"runId": own}))
    refused(callers["editor"].post("launch-training", {"runId": others}), 403, "forbidden")
    refused(callers["viewer"].post("launch-training", {"runId": own}), 403, "forbidden")
