"""Builds the paths of files from names, which are checked so that they can't lead to another folder."""

from __future__ import annotations

import operator
import re
from pathlib import PurePath
from typing import SupportsIndex
from uuid import UUID

from openmanus_rl.errors import InvalidInput
from openmanus_rl.transport.objects import check_object_path

__all__ = [
    "Name",
    "check_path",
    "checkpoint_path",
    "dataset_path",
    "environment_in_path",
    "environment_of_path",
    "evaluation_result_path",
    "extension_of",
    "log_path",
    "media_path",
]

Name = str | UUID
"""A folder's or file's name; ids may be text or `UUID`."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_EXTENSION = re.compile(r"\.(?=[^.]*[A-Za-z])[A-Za-z0-9_-]{1,16}")
_COMPRESSIONS = frozenset({".bz2", ".gz", ".lz4", ".xz", ".zst"})
_MAX_NAME_CHARACTERS = 255
# A slash is encoded as =2F, since Storage does not accept %. If a name itself contains =2F, its = is encoded as =3D,
# and so on: each encoding adds one 3D and each decoding removes one.
_SLASH_OR_ITS_CODE = re.compile(r"/|=((?:3D)*2F)")
_CODE_OF_SLASH = re.compile(r"=(3D)?((?:3D)*2F)")


def dataset_path(environment: str, dataset_name: str, file_name: str) -> str:
    """Return `{environment}/{dataset_name}{ext}`, the environment as `environment_in_path` writes it."""
    folder, name = environment_in_path(environment), _name(dataset_name, "dataset_name")
    return check_path(f"{folder}/{name}{extension_of(file_name)}")


def checkpoint_path(training_run_id: Name, checkpoint_number: SupportsIndex, file_name: str) -> str:
    """Return `{training_run_id}/checkpoint_{n}{ext}`."""
    number = _number(checkpoint_number, "checkpoint_number")
    return check_path(f"{_name(training_run_id, 'training_run_id')}/checkpoint_{number}{extension_of(file_name)}")


def log_path(training_run_id: Name, log_type: str, file_name: str) -> str:
    """Return `{training_run_id}/{log_type}{ext}`."""
    folder, name = _name(training_run_id, "training_run_id"), _name(log_type, "log_type")
    return check_path(f"{folder}/{name}{extension_of(file_name)}")


def evaluation_result_path(checkpoint_id: Name, environment: str, file_name: str) -> str:
    """Return `{checkpoint_id}/{environment}_results{ext}`, the environment as `environment_in_path` writes it."""
    folder, name = _name(checkpoint_id, "checkpoint_id"), environment_in_path(environment)
    return check_path(f"{folder}/{name}_results{extension_of(file_name)}")


def media_path(training_run_id: Name, media_name: str, file_name: str, *, rollout_id: Name | None = None) -> str:
    """Return `{training_run_id}/{media_name}{ext}`, or `{training_run_id}/{rollout_id}/{media_name}{ext}`."""
    folder = _name(training_run_id, "training_run_id")
    if rollout_id is not None:
        folder = f"{folder}/{_name(rollout_id, 'rollout_id')}"
    return check_path(f"{folder}/{_name(media_name, 'media_name')}{extension_of(file_name)}")


def environment_in_path(environment: str) -> str:
    """Encode an environment's name as one name of a path: `ALE/Pong-v5` becomes `ALE=2FPong-v5`.

    Other names are unchanged, and no two become the same: `environment_of_path` returns the original.
    """
    if isinstance(environment, str):
        for part in environment.split("/"):
            _check_name(part, "environment", whole=environment)
        environment = _SLASH_OR_ITS_CODE.sub(lambda found: f"=3D{found[1]}" if found[1] else "=2F", environment)
    return _name(environment, "environment")


def environment_of_path(name: str) -> str:
    """Decode an environment's name in a path."""
    return _CODE_OF_SLASH.sub(lambda found: f"={found[2]}" if found[1] else "/", name)


def check_path(path: str) -> str:
    """Return a path of names joined by / if each name is valid, else raise `InvalidInput`."""
    if not isinstance(path, str):
        raise InvalidInput(f"path {path!r} is not text", field="path", hint='give it as "folder/name.ext"')
    for segment in path.split("/"):
        _check_name(segment, "path", whole=path)
    return check_object_path(path)


def extension_of(file_name: str) -> str:
    """Return a file's extension with its dot, both for a compressed file (`.jsonl.gz`), or "" if it has none.

    What follows the last dot of `policy-0.95` is a number, not an extension.
    """
    path = PurePath(file_name)
    last = path.suffix
    if not _EXTENSION.fullmatch(last):
        return ""
    inner = PurePath(path.stem).suffix
    return inner + last if last.lower() in _COMPRESSIONS and _EXTENSION.fullmatch(inner) else last


def _name(value: Name, field: str) -> str:
    """Return the name of one folder or file, checked; ids in lower case, as the access policies expect."""
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        raise InvalidInput(f"{field} {value!r} is not text", field=field, hint="give a name or an id")
    if "/" in value:
        raise InvalidInput(f"{field} {value!r} holds a /", field=field, hint="give one name, without folders")
    _check_name(value, field, whole=value)
    return value.lower() if _UUID.fullmatch(value) else value


def _check_name(name: str, field: str, *, whole: str) -> None:
    reason = _refusal(name)
    if reason is not None:
        raise InvalidInput(
            f"{field} {whole!r} {reason}", field=field, hint="use letters, digits, dots, dashes and underscores"
        )


def _refusal(name: str) -> str | None:
    if not name:
        return "is empty, or holds an empty name"
    if name in (".", ".."):
        return "leads to another folder"
    if name != name.strip():
        return "starts or ends with a space"
    if "\\" in name:
        return "holds a backslash"
    if not name.isprintable():
        return "holds a control character"
    if not name.isascii():
        return "holds characters outside ASCII, which Storage does not take"
    if len(name) > _MAX_NAME_CHARACTERS:
        return f"is longer than {_MAX_NAME_CHARACTERS} characters"
    return None


def _number(value: SupportsIndex, field: str) -> int:
    # A bool is an int in Python, but not a valid number here.
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InvalidInput(f"{field} {value!r} is not a whole number", field=field, hint="count from 0 or 1")
    number = operator.index(value)
    if number < 0:
        raise InvalidInput(f"{field} {number} is negative", field=field, hint="count from 0 or 1")
    return number
