"""The types of the fields of specs, each with the check that belongs to it."""

from __future__ import annotations

import posixpath
import re
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from openmanus_rl.environments._models import Line

__all__ = [
    "GIB",
    "MIB",
    "AbsolutePath",
    "Command",
    "Line",
    "Mode",
    "Port",
    "RelativePath",
    "Seconds",
    "ServiceName",
    "Size",
    "Text",
    "Url",
    "UrlPath",
    "Variables",
    "check_inside",
]

MIB = 1024**2
GIB = 1024**3
_UNITS = {"": 1, "k": 1024, "m": MIB, "g": GIB, "t": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SERVICE_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_text(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _read_command(value: Any) -> Any:
    # One field, one error: a union of types would report a wrong value once for each of them.
    if isinstance(value, str) and value.strip():
        return ("sh", "-c", value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise ValueError("must be a shell command, or a list of a program and its arguments")


def _read_size(value: Any) -> Any:
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise ValueError('must be a number of bytes, or a size such as "512m" or "2g"')
        return int(float(found[1]) * _UNITS[found[2].lower()])
    return value


def _read_mode(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"0?[0-7]{3}", value):
        return int(value, 8)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0o777:
        return value
    raise ValueError('must be the permissions in octal, such as "755"')


def _check_service_name(value: str) -> str:
    if _SERVICE_NAME.fullmatch(value) is None:
        raise ValueError("must be up to 31 lower-case letters, digits and hyphens, starting with a letter")
    return value


def _check_variable(value: str) -> str:
    if _VARIABLE.fullmatch(value) is None:
        raise ValueError("is not the name of a variable")
    return value


def check_inside(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError("must be a relative path that does not leave its folder")
    return str(path)


def _check_absolute(value: str) -> str:
    if not value.startswith("/") or ".." in PurePosixPath(value).parts or posixpath.normpath(value) in ("/", "//"):
        raise ValueError('must be an absolute path without "..", such as /data/dump.sql')
    return posixpath.normpath(value)


Text = Annotated[str, AfterValidator(_check_text)]
Url = Annotated[str, Field(max_length=4096, pattern=r"^https?://[^\x00-\x20\x7f]+$")]
UrlPath = Annotated[str, Field(max_length=4096, pattern=r"^/[^\x00-\x20\x7f]*$")]
Command = Annotated[tuple[Text, ...], BeforeValidator(_read_command)]
Size = Annotated[int, BeforeValidator(_read_size), Field(gt=0)]
Mode = Annotated[int, BeforeValidator(_read_mode)]
ServiceName = Annotated[str, AfterValidator(_check_service_name)]
Variables = dict[Annotated[str, AfterValidator(_check_variable)], Text]
Port = Annotated[int, Field(gt=0, lt=65536)]
Seconds = Annotated[float, Field(gt=0, le=24 * 3600, allow_inf_nan=False)]
RelativePath = Annotated[Text, AfterValidator(check_inside)]
AbsolutePath = Annotated[Text, AfterValidator(_check_absolute)]
