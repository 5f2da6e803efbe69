"""Hugging Face datasets and Parquet files are task sets too."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.errors import LocalFileError
from openmanus_rl.tasks import read_tasks

datasets: Any = pytest.importorskip("datasets")
COLUMNS = {"task": "question", "answer": "gold", "id": "key"}
ROWS = {"question": ["a?", "", "c?"], "gold": ["1", "2", None], "key": [1, 2, 3], "noise": [b"\xff", b"", b""]}
TASKS = [{"external_id": "1", "description": "a?", "expected_answer": "1"}, {"external_id": "3", "description": "c?"}]


def test_a_dataset_is_read_by_its_columns() -> None:
    found = read_tasks(datasets.Dataset.from_dict(ROWS), columns=COLUMNS)

    assert found.tasks == TASKS
    assert [(problem.where, problem.field) for problem in found.problems] == [("row 2", "description")]


def test_a_saved_dataset_and_a_parquet_file_are_read_alike(tmp_path: Path) -> None:
    dataset = datasets.Dataset.from_dict(ROWS)
    dataset.save_to_disk(str(tmp_path / "saved"))
    dataset.to_parquet(str(tmp_path / "rows.parquet"))

    for path in (tmp_path / "saved", tmp_path / "rows.parquet", str(tmp_path / "saved")):
        found = read_tasks(path, columns=COLUMNS)
        assert found.tasks == TASKS
        assert len(found.problems) == 1


def test_the_splits_of_a_saved_dataset_are_kept(tmp_path: Path) -> None:
    parts = {name: datasets.Dataset.from_dict({"task": [name]}) for name in ("train", "test")}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))

    found = read_tasks(tmp_path / "saved")

    assert [(task["description"], task["split"]) for task in found.tasks] == [("train", "train"), ("test", "test")]


def test_other_columns_are_kept_in_the_metadata_unless_they_are_no_json(tmp_path: Path) -> None:
    rows = {"task": ["a", "b"], "level": [1, 2], "day": [date(2024, 1, 2)] * 2, "scores": [[0.5], [float("nan")]]}
    dataset = datasets.Dataset.from_dict(rows)
    dataset.to_parquet(str(tmp_path / "rows.parquet"))

    for source in (dataset, tmp_path / "rows.parquet"):
        found = read_tasks(source)
        assert found.tasks == [
            {"description": "a", "metadata": {"level": 1, "day": "2024-01-02", "scores": [0.5]}},
        ]
        assert [problem.field for problem in found.problems] == ["metadata.scores[0]"]


def test_damaged_files_raise(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(LocalFileError):
        read_tasks(tmp_path / "bad.parquet")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/state.json").write_text("{}")
    with pytest.raises(LocalFileError):
        read_tasks(tmp_path / "saved")
