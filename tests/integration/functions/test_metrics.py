"""POST metrics."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from .api import UNKNOWN_ID, Database, Functions, ok, refused


def points(sql: Database, run_id: str) -> list[tuple[str, int, str]]:
    """The points of a run's metrics."""
    return sql.rows(
        "select name, step, value::text from public.metrics where training_run_id = %s order by 1, 2", run_id
    )


def test_every_further_field_is_a_metric(secret: Functions, sql: Database, run_id: str) -> None:
    body = {
        "runId": run_id,
        "step": 10,
        "reward": 12,
        "loss": 0.31,
        "entropy": 1.4,
        "eval/успех 🎯": -1e-300,
        "kl": None,
    }
    assert ok(secret.post("metrics", body)) == {"success": True}
    assert points(sql, run_id) == [
        ("entropy", 10, "1.4"),
        ("eval/успех 🎯", 10, "-1e-300"),
        ("loss", 10, "0.31"),
        ("reward", 10, "12"),
    ]
    recorded_at = sql.one("select max(recorded_at) from public.metrics where training_run_id = %s", run_id)
    assert abs((datetime.now(UTC) - recorded_at).total_seconds()) < 3600


def test_values_need_not_be_finite_and_any_double_will_do(secret: Functions, sql: Database, run_id: str) -> None:
    body = {
        "runId": run_id,
        "step": 0,
        "a": "NaN",
        "b": "Infinity",
        "c": "-Infinity",
        "d": 1.7976931348623157e308,
        "e": 10**30,
    }
    ok(secret.post("metrics", body))
    values = [value for _, _, value in points(sql, run_id)]
    assert values == ["NaN", "Infinity", "-Infinity", "1.7976931348623157e+308", "1e+30"]


def test_the_time_can_be_given(secret: Functions, sql: Database, run_id: str) -> None:
    ok(secret.post("metrics", {"runId": run_id, "step": 1, "timestamp": "2026-01-31T12:00:00.123456+02:00", "loss": 1}))
    recorded_at = sql.one("select recorded_at from public.metrics where training_run_id = %s", run_id)
    assert recorded_at == datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=UTC)


def test_a_repetition_changes_nothing(secret: Functions, sql: Database, run_id: str) -> None:
    body = {"runId": run_id, "step": 1, "id": str(uuid.uuid4()), "loss": 1, "reward": 2}
    rows = (
        "select id, steps, values, times, updated_at from public.metric_chunks where training_run_id = %s order by id"
    )
    ok(secret.post("metrics", body))
    before = sql.rows(rows, run_id)
    assert ok(secret.post("metrics", body)) == {"success": True}
    assert sql.rows(rows, run_id) == before
    # Any client can tell the ids: version 5 UUIDs of the request's id and the metric's name.
    assert {row[0] for row in before} == {uuid.uuid5(uuid.UUID(str(body["id"])), name) for name in ("loss", "reward")}


def test_without_an_id_every_request_adds_points(secret: Functions, sql: Database, run_id: str) -> None:
    for _ in range(2):
        ok(secret.post("metrics", {"runId": run_id, "step": 1, "loss": 1}))
    assert len(points(sql, run_id)) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, 'a metric is needed beside runId and step, such as "loss": 0.5'),
        ({"loss": None}, 'a metric is needed beside runId and step, such as "loss": 0.5'),
        ({"loss": "0.5"}, 'loss: a number, "NaN", "Infinity" or "-Infinity" is expected'),
        ({"loss": True}, 'loss: a number, "NaN", "Infinity" or "-Infinity" is expected'),
        ({"good": 1, "bad": {"a": 1}}, 'bad: a number, "NaN", "Infinity" or "-Infinity" is expected'),
        ({"loss": 1, "": 1}, "a metric needs a name"),
        ({"loss": 1, "x" * 501: 1}, "x" * 300 + "…: a name has at most 500 characters"),
        ({"loss": 1, "constructor": 1}, "constructor: this name is taken; choose another"),
        ({"loss": 1, "__proto__": 1}, "__proto__: this name is taken; choose another"),
        ({"loss": 1, "step": -1}, "step: a whole number from 0 to 9007199254740991 is expected"),
        ({"loss": 1, "step": None}, "step: a whole number from 0 to 9007199254740991 is expected"),
        ({"loss": 1, "timestamp": 1700000000}, "timestamp: a date and time with its offset is expected"),
        ({"loss": 1, "timestamp": "2024-02-30T00:00:00Z"}, "timestamp: a date and time with its offset is expected"),
        ({"loss": 1, "timestamp": "0000-01-01T00:00:00Z"}, "timestamp: a date and time with its offset is expected"),
        ({"loss": 1, "timestamp": "+299999-01-01T00:00:00Z"}, "timestamp: a date and time with its offset is expected"),
        ({"loss": 1, "timestamp": "2024-01-01T00:00:00"}, "timestamp: a date and time with its offset is expected"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_written(
    secret: Functions, sql: Database, run_id: str, fields: dict[str, object], message: str
) -> None:
    before = sql.fingerprint()
    response = secret.post("metrics", {"runId": run_id, "step": 1} | fields)
    assert refused(response, 400, "invalid_input").startswith(message)
    assert sql.fingerprint() == before


def test_too_many_metrics_are_refused_and_as_many_as_may_be_are_taken(
    secret: Functions, sql: Database, run_id: str
) -> None:
    body = {"runId": run_id, "step": 1} | {f"m{number}": number for number in range(10_001)}
    assert "at most 10000 metrics" in refused(secret.post("metrics", body), 400, "invalid_input")
    del body["m0"]
    ok(secret.post("metrics", body))
    assert sql.one("select count(*) from public.metric_chunks where training_run_id = %s", run_id) == 10_000
    sql.one("delete from public.training_runs where id = %s returning id", run_id)


def test_an_unknown_run_is_named(secret: Functions) -> None:
    message = refused(secret.post("metrics", {"runId": UNKNOWN_ID, "step": 1, "loss": 1}), 404, "not_found")
    assert message == f"runId {UNKNOWN_ID}: there is no such training run"
