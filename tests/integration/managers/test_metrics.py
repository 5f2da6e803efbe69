"""Metric series, on a real database."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest

from openmanus_rl.errors import InvalidInput, NotFoundError
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import MetricManager, MetricPoint


@pytest.fixture
def metrics(client: Client) -> type[MetricManager]:
    return MetricManager.using(client)


def test_points_are_appended_and_read_by_name(metrics: type[MetricManager], run: Row) -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    metrics.log(run["id"], {"loss": 0.5, "reward": 1}, step=1, recorded_at=when)
    metrics.log(run["id"], {"loss": 0.25}, step=2)

    series = metrics.get_series(run["id"])

    assert sorted(series) == metrics.list_names(run["id"]) == ["loss", "reward"]
    assert series["reward"] == [MetricPoint(1, 1.0, "2026-01-02T03:04:05+00:00")]
    assert [(point.step, point.value) for point in series["loss"]] == [(1, 0.5), (2, 0.25)]
    assert list(metrics.get_series(run["id"], ["loss"], from_step=2)) == ["loss"]
    assert metrics.get_series(run["id"], ["unknown"]) == {}


def test_a_thinned_series_keeps_its_extremes(metrics: type[MetricManager], run: Row) -> None:
    values = [math.sin(step / 50) for step in range(5000)]
    values[1234], values[4321] = 100.0, -100.0
    metrics.append(run["id"], {"wave": list(enumerate(values))})

    thinned = metrics.get_series(run["id"], max_points=50)["wave"]

    assert len(thinned) <= 50
    assert {point.step: point.value for point in thinned if abs(point.value) > 1} == {1234: 100.0, 4321: -100.0}


def test_a_long_series_is_read_to_its_end(metrics: type[MetricManager], run: Row) -> None:
    metrics.append(run["id"], {"loss": [(step, step) for step in range(2500)]})

    assert [point.step for point in metrics.get_series(run["id"], max_points=5000)["loss"]] == list(range(2500))


def test_values_that_json_cannot_hold_survive(metrics: type[MetricManager], run: Row) -> None:
    metrics.append(run["id"], {"loss": [(1, math.nan), (2, math.inf), (3, -math.inf), (4, 0.5)]})

    values = [point.value for point in metrics.get_series(run["id"])["loss"]]

    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, 0.5]


def test_what_is_a_number_is_taken_for_it(metrics: type[MetricManager], run: Row) -> None:
    given = {"won": True, "loss": np.float16(0.5), "lr": Decimal("0.25"), "norm": np.array([[2.0]])}
    metrics.log(run["id"], given, step=np.int64(5))  # type: ignore[arg-type]

    series = metrics.get_series(run["id"])

    assert {name: (point.step, point.value) for name, (point,) in series.items()} == {
        "won": (5, 1.0), "loss": (5, 0.5), "lr": (5, 0.25), "norm": (5, 2.0),
    }  # fmt: skip


def test_what_is_no_metric_is_refused_and_nothing_is_written(metrics: type[MetricManager], run: Row) -> None:
    with pytest.raises(InvalidInput, match="metric note: 'high' is not a number"):
        metrics.log(run["id"], {"loss": 0.5, "note": "high"}, step=1)  # type: ignore[dict-item]
    with pytest.raises(InvalidInput) as caught:
        metrics.log(run["id"], {"loss": 0.5}, step=-1)
    assert caught.value.field is not None
    with pytest.raises(InvalidInput, match="max_points"):
        metrics.get_series(run["id"], max_points=1)
    with pytest.raises(NotFoundError):
        metrics.log(new_id(), {"loss": 0.5}, step=1)
    assert metrics.list_names(run["id"]) == []
