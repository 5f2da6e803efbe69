"""Columns take whatever type a value came as, by what they hold, and tell a row that is none of theirs."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest

from openmanus_rl.recorder.fields import prepared
from openmanus_rl.records.columns import Column, columns_of, misfits, with_numbers
from openmanus_rl.records.kinds import RECORD_KINDS
from openmanus_rl.records.rows import ROW_TYPES, Member, RunOverview, TrainingRun

RUN_ID = "0197a1e2-0000-7000-8000-000000000001"


def test_each_column_takes_what_it_holds_and_lists_stay_lists() -> None:
    given = {
        "name": ["a", "run"], "tags": ["a", "b"], "config": {"lr": 0.5}, "total_steps": 10.0,
        "progress": np.float32(0.5), "description": None,
    }  # fmt: skip
    assert prepared("training_runs", given) == {
        "name": '["a","run"]', "tags": ["a", "b"], "config": {"lr": 0.5}, "total_steps": 10, "progress": 0.5,
    }  # fmt: skip
    assert with_numbers(TrainingRun, given) == {**given, "total_steps": 10, "progress": 0.5}


def test_ids_and_times_go_on_as_text() -> None:
    given = {"id": UUID(RUN_ID), "finished_at": datetime(2026, 1, 2, tzinfo=UTC)}
    assert prepared("rollouts", given) == {"id": RUN_ID, "finished_at": "2026-01-02T00:00:00+00:00"}


def test_what_is_no_number_goes_on_to_be_refused_where_it_arrives() -> None:
    assert prepared("rollouts", {"seed": "many", "total_reward": [1, 2]}) == {"seed": "many", "total_reward": "[1,2]"}


def test_a_number_that_is_not_finite_goes_by_its_name_wherever_it_stands() -> None:
    given = {"progress": np.inf, "total_steps": float("nan"), "config": float("-inf"), "description": float("nan")}
    named = {"progress": "Infinity", "total_steps": "NaN", "config": "-Infinity", "description": "NaN"}
    assert with_numbers(TrainingRun, given) == named


def test_every_kind_of_record_has_a_type_of_its_rows() -> None:
    assert list(ROW_TYPES) == list(RECORD_KINDS)
    for kind in RECORD_KINDS:
        assert prepared(kind, {"id": "x"}) == {"id": "x"}


def test_a_column_knows_what_it_holds() -> None:
    columns = columns_of(RunOverview)
    assert columns["id"] == Column(str, is_nullable=False)
    assert columns["status"] == Column(str, is_nullable=False)
    assert columns["progress"] == Column(float, is_nullable=True)
    assert columns["tags"] == Column(list, is_nullable=False)
    assert columns["config"] == Column(object, is_nullable=False)
    assert columns["steps_done"] == Column(int, is_nullable=True)


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({}, []),
        ({"display_name": None, "role": "a role of a later version", "more": 1}, []),
        ({"display_name": 3}, ["display_name"]),
        ({"created_at": None}, ["created_at"]),
    ],
)
def test_a_row_of_another_shape_is_told_by_its_columns(row: dict[str, object], wrong: list[str]) -> None:
    whole = {"user_id": RUN_ID, "role": "admin", "display_name": "a", "created_at": "", "updated_at": ""}
    assert misfits(Member, {**whole, **row}) == wrong


def test_a_row_without_a_column_is_of_another_shape() -> None:
    assert misfits(Member, {"user_id": RUN_ID, "role": "admin", "created_at": ""}) == ["display_name", "updated_at"]


@pytest.mark.parametrize(
    ("value", "fits"), [(1.5, True), (1, True), ("NaN", True), ("-Infinity", True), ("1.5", False), ([], False)]
)
def test_a_column_of_numbers_holds_numbers_and_names_of_those_that_are_not_finite(value: object, fits: bool) -> None:
    assert Column(float, is_nullable=False).fits(value) is fits
