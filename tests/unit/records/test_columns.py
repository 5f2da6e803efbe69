"""Columns take whatever type a value came as, by what they hold."""

from __future__ import annotations

import numpy as np

from openmanus_rl.recorder.fields import prepared
from openmanus_rl.records import TrainingRun
from openmanus_rl.records.columns import with_numbers
from openmanus_rl.records.kinds import RECORD_KINDS


def test_each_column_takes_what_it_holds_and_lists_stay_lists() -> None:
    given = {
        "name": ["a", "run"], "tags": ["a", "b"], "config": {"lr": 0.5}, "total_steps": 10.0,
        "progress": np.float32(0.5), "description": None,
    }  # fmt: skip
    assert prepared("training_runs", given) == {
        "name": '["a","run"]', "tags": ["a", "b"], "config": {"lr": 0.5}, "total_steps": 10, "progress": 0.5,
    }  # fmt: skip
    assert with_numbers(TrainingRun, given) == {**given, "total_steps": 10, "progress": 0.5}


def test_what_is_no_number_goes_on_to_be_refused_where_it_arrives() -> None:
    assert prepared("rollouts", {"seed": "many", "total_reward": [1, 2]}) == {"seed": "many", "total_reward": "[1,2]"}


def test_every_kind_of_record_has_a_model_of_its_columns() -> None:
    for kind in RECORD_KINDS:
        assert prepared(kind, {"id": "x"}) == {"id": "x"}
