"""From an entry of a task set, in whatever state it is, to the record of a task, or to what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.tasks.base import CheckEnvironment, Problem, ReadTask
from openmanus_rl.verification import check_spec

__all__ = ["BadEntry", "check_environment_spec", "check_json", "plain_dates", "problem_of", "read_entry", "renamed"]

MAX_DEPTH = 100
MAX_NAME_CHARACTERS = 500
_ALIASES = {"id": "external_id", "task": "description", "answer": "expected_answer"}
_FIELDS = (
    "external_id",
    "description",
    "expected_answer",
    "name",
    "split",
    "environment",
    "validators",
    "solution",
    "metadata",
)
_SOLUTIONS = ("script", "answer", "actions")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class BadEntry(Exception):
    """Something in an entry is wrong; it has the field and the message."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field


def read_entry(entry: Any, *, environment: str | None, check_environment: CheckEnvironment | None) -> ReadTask:
    """Return the task of an entry, or raise `BadEntry`.

    Fields that are not ours are kept in the task's metadata.
    """
    if not isinstance(entry, Mapping):
        raise BadEntry(None, f"an object is expected, not {_described(entry)}")
    given, others = _sorted_out(entry)
    check_json(others, "metadata")
    record: dict[str, Any] = {
        "external_id": _external_id(given.get("external_id")),
        "description": _description(given.get("description")),
        "expected_answer": _expected_answer(given.get("expected_answer")),
        "name": _text(given.get("name"), "name"),
        "split": _text(given.get("split"), "split"),
        "solution": _solution(given.get("solution")),
        "metadata": _metadata(given.get("metadata"), others) or None,
        "validators": list(_validators(given.get("validators"))) or None,
    }
    made = _environment(given.get("environment"), check_environment)
    record["environment"] = made.get("name") if made else environment
    return ReadTask(
        {key: value for key, value in record.items() if value is not None},
        environment=made if made and "kind" in made else None,
    )


def renamed(entry: Any, columns: Mapping[str, str] | None) -> Any:
    """Return an entry's chosen columns by our names; without a choice, the entry itself."""
    if columns is None or not isinstance(entry, Mapping):
        return entry
    return {field: entry[column] for field, column in columns.items() if column in entry}


def problem_of(error: BadEntry, where: str) -> Problem:
    """Return the problem that an error is."""
    message = str(error)
    named = error.field and not message.startswith(error.field)
    return Problem(where, error.field, f"{error.field}: {message}" if named else message)


def check_json(value: Any, field: str, depth: int = 0) -> None:
    """Raise `BadEntry` if a value is not JSON that Postgres can store."""
    if depth > MAX_DEPTH:
        raise BadEntry(field[:200], f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        _check_characters(value, field)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadEntry(field, "a number is not finite")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadEntry(field, "a key is not text")
            _check_characters(key, field)
            check_json(item, f"{field}.{key}"[:200], depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            check_json(item, f"{field}[{position}]"[:200], depth + 1)
    elif not (value is None or isinstance(value, (bool, int, float))):
        raise BadEntry(field, f"{type(value).__name__} is not JSON")


def plain_dates(value: Any) -> Any:
    """Return a value with dates and times, which TOML and tables have and JSON lacks, as text."""
    if isinstance(value, Mapping):
        return {key: plain_dates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_dates(item) for item in value]
    return value.isoformat() if isinstance(value, (date, time)) else value


def _sorted_out(entry: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return our fields by their full names, and the others."""
    ours: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, value in entry.items():
        name = _ALIASES.get(key, key)
        if name not in _FIELDS:
            others[key] = value
        elif ours.get(name) is not None and value is not None and ours[name] != value:
            raise BadEntry(name, f"it is given twice, as {name} and as {_other_name(name)}")
        elif value is not None:
            ours[name] = value
    return ours, others


def _other_name(name: str) -> str:
    return next(alias for alias, field in _ALIASES.items() if field == name)


def _external_id(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = _digits(value, "external_id")
    text = _text(value, "external_id", max_characters=MAX_NAME_CHARACTERS)
    if text is None:
        return None
    if not text.strip() or _CONTROL.search(text):
        raise BadEntry("external_id", "it is empty, or has control characters")
    parts = re.split(r"[/\\]", text)
    if "" in (parts[0], parts[-1]) or not {".", ".."}.isdisjoint(parts):
        raise BadEntry("external_id", f"{text!r:.100} reads as a path to another folder")
    return text


def _description(value: Any) -> str:
    text = _text(value, "description")
    if text is None or not text.strip():
        raise BadEntry("description", "it is missing or empty: give the task's text as `task` or `description`")
    return text


def _expected_answer(value: Any) -> str | None:
    """Return the expected answer as text: JSON that is not text is written as JSON."""
    if value is None or isinstance(value, str):
        text = _text(value, "expected_answer")
        return text if text is None or text.strip() else None
    check_json(value, "expected_answer")
    if isinstance(value, int) and not isinstance(value, bool):
        return _digits(value, "expected_answer")
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise BadEntry("expected_answer", f"it cannot be written as JSON: {error}") from None


def _digits(value: int, field: str) -> str:
    try:
        return str(value)
    except ValueError:
        raise BadEntry(field, "the integer is too long") from None


def _solution(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not any(name in value for name in _SOLUTIONS):
        raise BadEntry("solution", f"it must be an object with one of {', '.join(_SOLUTIONS)}")
    for name, kind, words in (("script", str, "text"), ("actions", list, "a list")):
        if name in value and not isinstance(value[name], kind):
            raise BadEntry(f"solution.{name}", f"it must be {words}, not {_described(value[name])}")
    check_json(value, "solution")
    return value


def _metadata(value: Any, others: Mapping[str, Any]) -> dict[str, Any]:
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise BadEntry("metadata", f"it must be an object, not {_described(value)}")
    check_json(value, "metadata")
    twice = sorted(value.keys() & others.keys())
    if twice:
        raise BadEntry(f"metadata.{twice[0]}", "it is given twice, in the metadata and beside it")
    return {**value, **others}


def _validators(value: Any) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadEntry("validators", f"it must be a list, not {_described(value)}")
    check_json(list(value), "validators")
    names: set[str] = set()
    for position, validator in enumerate(value):
        field = f"validators[{position}]"
        if not isinstance(validator, Mapping):
            raise BadEntry(field, f"it must be an object, not {_described(validator)}")
        if unknown := sorted(validator.keys() - {"kind", "spec", "external_id"}):
            raise BadEntry(f"{field}.{unknown[0]}"[:200], "it is not known: a validator has kind, spec and external_id")
        name = _text(validator.get("external_id"), f"{field}.external_id", max_characters=MAX_NAME_CHARACTERS)
        # As the database names those without a name.
        name = name or ("default" if position == 0 else str(position))
        if name in names:
            raise BadEntry(f"{field}.external_id", f"another validator of this task is named {name!r:.100}")
        names.add(name)
        spec = validator.get("spec")
        try:
            check_spec(validator.get("kind"), {} if spec is None else spec)
        except InvalidInput as error:
            raise BadEntry(f"{field}.{error.field}"[:200], error.message) from None
        yield {"kind": validator["kind"], "spec": {} if spec is None else spec, "external_id": name}


def _environment(value: Any, check: CheckEnvironment | None) -> dict[str, Any] | None:
    """Return an environment's name, with kind and spec if it is given in full."""
    if value is None or isinstance(value, str):
        return None if value is None else {"name": _environment_name(value, "environment")}
    if not isinstance(value, Mapping):
        raise BadEntry("environment", f"it must be a name or a spec, not {_described(value)}")
    check_json(value, "environment")
    spec = {key: item for key, item in value.items() if key != "name"}
    if not isinstance(spec.get("kind"), str) or not spec["kind"]:
        raise BadEntry("environment.kind", "it is missing")
    check_environment_spec(spec, check)
    name = value.get("name")
    if name is None:
        # The same spec has the same name wherever it is given.
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
        name = f"{spec['kind']}-{digest}"
    kind = spec.pop("kind")
    return {"name": _environment_name(name, "environment.name"), "kind": kind, "spec": spec}


def check_environment_spec(spec: Mapping[str, Any], check: CheckEnvironment | None) -> None:
    """Raise `BadEntry` if an environment's spec is wrong."""
    try:
        if check is not None:
            check(spec)
    except InvalidInput as error:
        raise BadEntry(f"environment.{error.field or 'spec'}", error.message) from None


def _environment_name(value: Any, field: str) -> str:
    name = _text(value, field, max_characters=MAX_NAME_CHARACTERS)
    if not name or not name.strip() or _CONTROL.search(name):
        raise BadEntry(field, "it is empty, or has control characters")
    return name


def _text(value: Any, field: str, *, max_characters: int | None = None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadEntry(field, f"it must be text, not {_described(value)}")
    _check_characters(value, field)
    if max_characters is not None and len(value) > max_characters:
        raise BadEntry(field, f"it is longer than {max_characters} characters")
    return value


def _check_characters(text: str, field: str) -> None:
    if "\0" in text:
        raise BadEntry(field, "it has a NUL character, which Postgres can't store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadEntry(
            field.encode(errors="replace").decode(), "it is not UTF-8 text, or has half a surrogate pair"
        ) from None


def _described(value: Any) -> str:
    names = {"str": "text", "list": "a list", "dict": "an object", "NoneType": "null", "bool": "true or false"}
    return names.get(type(value).__name__, "a number" if isinstance(value, (int, float)) else type(value).__name__)
