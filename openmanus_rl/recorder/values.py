"""Converts values of training code to fields of records."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import orjson

from openmanus_rl.errors import InvalidInput
from openmanus_rl.records.columns import as_number
from openmanus_rl.records.numbers import NotANumber, as_json_number, as_step, to_number
from openmanus_rl.records.plain import as_text, dump_bytes

__all__ = ["as_number", "as_reward", "as_tool_call", "describe", "known", "metric_record"]

_PLAIN = frozenset({float, int})
_LAST_STEP = 2**63 - 1


def known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def metric_record(run_id: str, step: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a step as a record. Values that are not numbers are listed in `refused`, with the reason.

    The common case, only finite floats and ints, is recognised by the types and one addition.
    """
    try:
        if (
            step.__class__ is int
            and 0 <= step <= _LAST_STEP
            and _PLAIN.issuperset(map(type, values.values()))
            and isfinite(sum(values.values()))
        ):
            return {"run": run_id, "step": step, "values": values}
    except OverflowError:
        pass  # An int beyond the range of floats, which is refused.
    except AttributeError:
        raise InvalidInput(
            f"log: a dict of numbers by name is expected, not {type(values).__name__}",
            field="values",
            hint='run.log({"loss": 0.5}, step=10)',
        ) from None
    return _converted(run_id, step, values)


def _converted(run_id: str, step: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    refused: dict[str, str] = {}
    whole = None
    try:
        whole = as_step(step)
    except NotANumber as error:
        refused = {str(name): str(error) for name, value in values.items() if value is not None}
    else:
        for name, value in values.items():
            try:
                if value is not None:
                    numbers[name] = as_json_number(value)
            except NotANumber as error:
                refused[str(name)] = str(error)
    record = {"run": run_id, "step": whole, "values": numbers}
    return {**record, "refused": refused} if refused else record


def as_reward(value: Any) -> float | None:
    """Return a reward as a float for the total, None if it is not a number."""
    try:
        # Numbers as text, too: the database accepts them.
        return float(value) if value.__class__ is str else float(to_number(value))
    except ValueError:
        return None


def as_tool_call(call: Any) -> Any:
    """Return a tool call as a record, with its output as text."""
    if call.__class__ is not dict and not isinstance(call, Mapping):
        # For example a Pydantic model of a client library. What is not a record is refused by the database.
        return as_tool_call(found) if isinstance(found := orjson.loads(dump_bytes(call)), dict) else found
    output = call.get("tool_output")
    if output is None or isinstance(output, str):
        return call if call.__class__ is dict else dict(call)
    return {**call, "tool_output": as_text(output)}


def describe(error: BaseException) -> str:
    """Return an exception in one line."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
