"""Reads the rows of Hugging Face datasets and of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.tasks.entries import plain_dates
from openmanus_rl.tasks.json_files import Found

__all__ = ["is_saved_dataset", "read_dataset", "read_parquet", "read_saved_dataset"]

_ROWS_AT_ONCE = 1000


def is_saved_dataset(folder: Path) -> bool:
    """Return whether a folder is what `save_to_disk` of `datasets` writes."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def read_saved_dataset(folder: Path) -> Iterator[Found]:
    """Yield the rows of a dataset that was saved to a folder."""
    datasets = _library("datasets", extra="datasets")
    try:
        found = datasets.load_from_disk(str(folder))
    except Exception as error:
        # Whatever the library raises for a folder that is damaged.
        raise LocalFileError(f"{folder}: it is no dataset that can be read: {error}", path=str(folder)) from error
    yield from read_dataset(found)


def read_dataset(dataset: Any) -> Iterator[Found]:
    """Yield the rows of a dataset, or of all splits of several by their names."""
    if isinstance(dataset, Mapping):
        for split, rows in dataset.items():
            for where, row in _rows(rows):
                in_split = {"split": str(split), **row} if isinstance(row, Mapping) else row
                yield f"{split} {where}", in_split
    elif isinstance(dataset, Iterable):
        yield from _rows(dataset)
    else:
        raise InvalidInput(f"tasks can't be read from {type(dataset).__name__}", field="path")


def read_parquet(path: Path) -> Iterator[Found]:
    """Yield the rows of a Parquet file."""
    parquet, arrow = _library("pyarrow.parquet", extra="export"), _library("pyarrow", extra="export")
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", plain_dates(row)
    except (OSError, arrow.ArrowException) as error:
        raise LocalFileError(f"{path}: it can't be read: {error}", path=str(path)) from error


def _rows(rows: Iterable[Any]) -> Iterator[Found]:
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", plain_dates(row)


def _library(name: str, *, extra: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        library = name.partition(".")[0]
        raise InvalidInput(
            f"{library} is not installed", field="path", hint=f'run: pip install "openmanus-rl[{extra}]"'
        ) from error
