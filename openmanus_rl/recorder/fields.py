"""Checks the fields of records and converts them to the types of their columns.

An unknown field name or status is a mistake in the calling code and raises `InvalidInput` at once. A value of the wrong
type does not: it may come up after hours of training. It is recorded, refused by the database, and reported on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

from openmanus_rl.errors import InvalidInput
from openmanus_rl.records import statuses
from openmanus_rl.records.columns import columns_of
from openmanus_rl.records.numbers import NotANumber, as_step
from openmanus_rl.records.rows import ROW_TYPES

__all__ = ["check_end", "check_word", "prepared", "whole"]

Convert = Callable[[Any], Any]

_NOUNS = {
    "training_runs": "run",
    "training_steps": "step",
    "evaluations": "evaluation",
    "rollouts": "rollout",
    "rollout_groups": "group",
    "agent_states": "turn",
    "model_checkpoints": "checkpoint",
    "validations": "verdict",
}
_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("training_runs", "visibility"): get_args(statuses.Visibility),
    ("training_steps", "phase"): get_args(statuses.StepPhase),
    ("evaluations", "kind"): get_args(statuses.EvaluationKind),
    ("rollouts", "source"): get_args(statuses.RolloutSource),
    ("media", "kind"): get_args(statuses.MediaKind),
    ("validations", "verdict"): get_args(statuses.Verdict),
    **{(kind, "status"): tuple(allowed) for kind, allowed in statuses.NEXT_STATUSES.items()},
}


def prepared(kind: str, fields: Mapping[str, Any], *, clears: bool = False) -> dict[str, Any]:
    """Return the fields that are not None, converted for their columns; an unknown name raises `InvalidInput`.

    Columns of text take any other value as JSON; columns of numbers take NumPy scalars, tensors and the like. With
    `clears`, None is kept and clears its field.
    """
    columns = _columns(kind)
    ready: dict[str, Any] = {}
    for name, value in fields.items():
        column = columns.get(name)
        if column is None:
            raise _unknown_field(kind, name, columns)
        if value is None:
            if clears:
                ready[name] = None
            continue
        convert, words = column
        if words is not None and value not in words:
            raise _unknown_word(kind, name, value, words)
        ready[name] = value if convert is None or value.__class__ is str else convert(value)
    return ready


def check_word(kind: str, field: str, value: Any) -> None:
    """Raise `InvalidInput` unless the value is allowed in this field."""
    words = _WORDS[kind, field]
    if value not in words:
        raise _unknown_word(kind, field, value, words)


def check_end(kind: str, status: str) -> None:
    """Raise `InvalidInput` unless the status is a final one of this kind."""
    words = _ends(kind)
    if status not in words:
        raise _unknown_word(kind, "status", status, words)


def whole(value: Any, field: str) -> int:
    """Return a non-negative whole number as an int, also from 5.0 or an array of one; else raise `InvalidInput`."""
    if value.__class__ is int and value >= 0:
        return value
    try:
        return as_step(value)
    except NotANumber as error:
        raise InvalidInput(f"{field}: {str(error).removeprefix('step').lstrip(': ')}", field=field) from None


def _unknown_word(kind: str, field: str, value: Any, words: Any) -> InvalidInput:
    close = get_close_matches(str(value), words, n=1)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    return InvalidInput(
        f"{_NOUNS.get(kind, kind)}: {field} {value!r} is not one of {', '.join(words)}{guess}",
        field=field,
    )


def _unknown_field(kind: str, name: str, columns: Mapping[str, Any]) -> InvalidInput:
    close = get_close_matches(name, columns, n=1)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    has_metadata = "metadata" if "metadata" in columns else "info" if "info" in columns else None
    return InvalidInput(
        f"{_NOUNS.get(kind, kind)}: there is no field {name!r}{guess}",
        field=name,
        hint=f"{has_metadata}={{{name!r}: …}} keeps what has no field" if has_metadata else None,
    )


@cache
def _ends(kind: str) -> tuple[str, ...]:
    return tuple(word for word in statuses.NEXT_STATUSES[kind] if word not in ("pending", "provisioning", "running"))


@cache
def _columns(kind: str) -> dict[str, tuple[Convert | None, tuple[str, ...] | None]]:
    """Return the kind's columns, each with a converter for values that are not text, and its allowed words, if any."""
    columns = columns_of(ROW_TYPES[kind])
    converts = {name: column.convert for name, column in columns.items()}
    if kind == "agent_states":
        converts["observations"] = None
    return {name: (convert, _WORDS.get((kind, name))) for name, convert in converts.items()}
