"""From what training code hands over to fields of records."""

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
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}


def metric_record(run_id: str, step: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points of a step as a record; what is no number stands under `refused`, by name, with the reason.

    Most are finite floats and ints, which their types and one addition show.
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
        pass  # An int beyond the range of floats: that one is refused.
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
    """Return what a reward adds to the total, None if it is no number."""
    try:
        # The database reads text that says a number, so the total does too.
        return float(value) if value.__class__ is str else float(to_number(value))
    except ValueError:
        return None


def as_tool_call(call: Any) -> Any:
    """Return a tool call as a record, whose output is text."""
    if call.__class__ is not dict and not isinstance(call, Mapping):
        # Such as a model of a client library; what is no record is refused where it arrives.
        return as_tool_call(found) if isinstance(found := orjson.loads(dump_bytes(call)), dict) else found
    output = call.get("tool_output")
    if output is None or isinstance(output, str):
        return call if call.__class__ is dict else dict(call)
    return {**call, "tool_output": as_text(output)}


def describe(error: BaseException) -> str:
    """Return an exception in one line."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
