"""Maps error codes of Postgres, PostgREST and our own SQL to error classes."""

from __future__ import annotations

import re

from openmanus_rl.errors import (
    AuthError,
    ConflictError,
    ConnectionFailed,
    ForbiddenError,
    InvalidInput,
    NotFoundError,
    OpenManusError,
    SchemaMismatch,
    ServerError,
    TimeoutExceeded,
    TooLargeError,
    TransitionError,
    UnsupportedError,
)

__all__ = ["OWN_CODES", "class_for_code", "error_for_code", "field_of"]

ErrorClass = type[OpenManusError]

OWN_CODES: dict[str, ErrorClass] = {
    "OM400": InvalidInput,
    "OM403": ForbiddenError,
    "OM404": NotFoundError,
    "OM409": ConflictError,
    "OM413": TooLargeError,
}
"""The codes that our own SQL raises."""

# Looked up by the whole code, then by its first two characters (SQLSTATE class) or four (PostgREST group).
_BY_CODE: dict[str, ErrorClass] = {
    **OWN_CODES,
    # PostgREST.
    "PGRST000": ConnectionFailed,
    "PGRST001": ConnectionFailed,
    "PGRST002": ServerError,
    "PGRST003": TimeoutExceeded,
    "PGRST105": UnsupportedError,
    "PGRST106": SchemaMismatch,
    "PGRST107": UnsupportedError,
    "PGRST116": NotFoundError,
    "PGRST117": UnsupportedError,
    "PGRST200": SchemaMismatch,
    "PGRST201": SchemaMismatch,
    "PGRST202": SchemaMismatch,
    "PGRST203": SchemaMismatch,
    "PGRST204": InvalidInput,
    "PGRST205": SchemaMismatch,
    "PGRST300": ServerError,
    "PGRST301": AuthError,
    "PGRST302": AuthError,
    "PGRST303": AuthError,
    # Postgres.
    # A missing parent. The code also means that a row is still referenced, but our foreign keys all cascade or set
    # null.
    "23503": NotFoundError,
    "23505": ConflictError,
    "23P01": ConflictError,
    "23502": InvalidInput,
    "23514": InvalidInput,
    "25006": UnsupportedError,
    "28000": AuthError,
    "28P01": AuthError,
    "3D000": NotFoundError,
    "3F000": SchemaMismatch,
    "42501": ForbiddenError,
    "42703": InvalidInput,
    "42883": SchemaMismatch,
    "42P01": SchemaMismatch,
    "53100": ServerError,
    "54000": TooLargeError,
    "54001": TooLargeError,
    "55P03": TimeoutExceeded,
    "57014": TimeoutExceeded,
    "P0001": InvalidInput,
}
_BY_PREFIX: dict[str, ErrorClass] = {
    "PGRST1": InvalidInput,
    "PGRSTX": ServerError,
    "08": ConnectionFailed,
    "0A": UnsupportedError,
    "22": InvalidInput,
    "40": ServerError,
    "53": ServerError,
    "57": ConnectionFailed,
    "58": ServerError,
}
_KEY_DETAIL = re.compile(r"Key \(([^)]*)\)=")
_QUOTED = re.compile(r'(?:column|constraint|field) "([^"]+)"|\'([^\']+)\' column', re.IGNORECASE)


def class_for_code(code: str, *, field: str | None = None) -> ErrorClass | None:
    """Return the error class for a code and field, or None if they don't determine one."""
    if code == "OM409" and field == "status":
        return TransitionError
    if found := _BY_CODE.get(code):
        return found
    if code.startswith("PGRST"):
        return _BY_PREFIX.get(code[:6])
    return _BY_PREFIX.get(code[:2]) if len(code) == 5 else None


def error_for_code(code: str, message: str, *, details: object = None, field: str | None = None) -> OpenManusError:
    """Return the error for a code that our own SQL returned in a result instead of raising it."""
    return (class_for_code(code, field=field) or InvalidInput)(message, code=code, details=details, field=field)


def field_of(message: str, details: object) -> str | None:
    """Return the column or constraint that a database error names, if it names one.

    Our own SQL gives it in JSON. For errors of Postgres itself the API passes on only English text; a field found there
    is informational.
    """
    if isinstance(details, dict) and isinstance(details.get("field"), str):
        return str(details["field"])
    if isinstance(details, str) and (match := _KEY_DETAIL.search(details)):
        return match[1]
    if match := _QUOTED.search(message):
        return match[1] or match[2]
    return None
