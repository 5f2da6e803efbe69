"""Translates the errors of supabase-py's parts and psycopg; used by `translate` only."""

from __future__ import annotations

import psycopg
from postgrest.exceptions import APIError
from storage3.exceptions import StorageApiError
from supabase_auth.errors import AuthApiError, AuthRetryableError
from supabase_auth.errors import AuthError as SupabaseAuthError
from supabase_functions.errors import FunctionsError

from openmanus_rl.errors import (
    AuthError,
    ConnectionFailed,
    InvalidInput,
    NotFoundError,
    OpenManusError,
    TimeoutExceeded,
)
from openmanus_rl.transport.sqlstate import class_for_code, field_of
from openmanus_rl.transport.translate import HINTS, Failure, build_error, hint_for, parse_details, worded

__all__ = ["error_from_library"]


def error_from_library(error: Exception, attempt: str) -> OpenManusError:
    """Return our error for one of postgrest, storage3, supabase_functions, supabase_auth, supabase or psycopg."""
    if isinstance(error, APIError):
        code = error.code or ""
        status = int(code) if code.isdigit() and len(code) == 3 else 0
        return build_error(Failure(status, code, error.message or str(error), error.details, error.hint), attempt)
    if isinstance(error, StorageApiError):
        return build_error(Failure(int(error.status), str(error.code), error.message), attempt)
    if isinstance(error, FunctionsError):
        return build_error(Failure(error.status, "", str(error.message)), attempt)
    if isinstance(error, AuthRetryableError):
        return ConnectionFailed(f"{attempt}: {error.message}", status=error.status or None)
    if isinstance(error, AuthApiError):
        return build_error(Failure(error.status, error.code or "", error.message), attempt)
    if isinstance(error, SupabaseAuthError):
        return AuthError(f"{attempt}: {error.message}", hint=HINTS[AuthError])
    if isinstance(error, psycopg.Error):
        return _error_from_psycopg(error, attempt)
    return InvalidInput(f"{attempt}: {error}")


def _error_from_psycopg(error: psycopg.Error, attempt: str) -> OpenManusError:
    # libpq spreads a failed connection over several lines.
    message = " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
    details = parse_details(error.diag.message_detail)
    code = error.sqlstate or ""
    field = error.diag.column_name or field_of(message, details) or error.diag.constraint_name
    cls = class_for_code(code, field=field) or _class_for_connection_text(error, message)
    hint = hint_for(cls, error.diag.message_hint)
    if cls is AuthError or (cls is NotFoundError and not code):
        hint = "check the user, password and database name in DATABASE_URL"
    return cls(
        worded(code, message, attempt),
        code=code or None,
        details=details,
        hint=hint,
        field=field,
    )


def _class_for_connection_text(error: psycopg.Error, message: str) -> type[OpenManusError]:
    """Return the class of an error without a known code; libpq reports failed connections only as text."""
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return TimeoutExceeded
    if "password authentication failed" in message or "no password supplied" in message:
        return AuthError
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        missing = "does not exist" in message and not error.sqlstate
        return NotFoundError if missing else ConnectionFailed
    return InvalidInput
