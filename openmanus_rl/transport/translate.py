"""Translates the errors of client libraries and services to our own error classes."""

from __future__ import annotations

import email.utils
import json
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openmanus_rl.errors import (
    AuthError,
    BadResponse,
    ConflictError,
    ConnectionFailed,
    ForbiddenError,
    InvalidInput,
    NotFoundError,
    OpenManusError,
    RateLimited,
    SchemaMismatch,
    ServerError,
    SettingsError,
    TimeoutExceeded,
    TooLargeError,
    TransientError,
    UnsupportedError,
)
from openmanus_rl.transport.sqlstate import OWN_CODES, class_for_code, field_of

if TYPE_CHECKING:
    import httpx

__all__ = ["error_from_exception", "error_from_response", "translated"]

_BY_STATUS: dict[int, type[OpenManusError]] = {
    400: InvalidInput,
    401: AuthError,
    # A hosted project that is over its quota.
    402: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    405: UnsupportedError,
    406: UnsupportedError,
    408: TimeoutExceeded,
    409: ConflictError,
    412: InvalidInput,
    413: TooLargeError,
    415: UnsupportedError,
    416: InvalidInput,
    422: InvalidInput,
    425: ServerError,
    429: RateLimited,
    501: UnsupportedError,
    504: TimeoutExceeded,
}
# What a page may say: proxies know nothing of what was given, only of sizes, keys and themselves.
_NOT_OF_PAGES = (InvalidInput, NotFoundError, ConflictError)
# A longer one is taken for a mistake: it would stop a delivery for days.
_LONGEST_RETRY_AFTER_SECONDS = 600.0
HINTS: dict[type[OpenManusError], str] = {
    AuthError: "check SUPABASE_KEY (or SUPABASE_SERVICE_ROLE_KEY), or sign in again if a user's token was used",
    SchemaMismatch: "restart the stack with `openmanus-rl down` and `openmanus-rl up`; elsewhere apply the migrations "
    "with `openmanus-rl migrate`, or install the version of openmanus-rl that matches the database",
}
_MISSING_FUNCTION = {"42883", "PGRST202"}
_LIBRARY_ERRORS: dict[str, tuple[str, ...]] = {
    "httpx": ("HTTPError", "InvalidURL", "StreamError"),
    "postgrest.exceptions": ("APIError",),
    "psycopg": ("Error",),
    "storage3.utils": ("StorageException",),
    "supabase": ("SupabaseException",),
    "supabase_auth.errors": ("AuthError",),
    "supabase_functions.errors": ("FunctionsError",),
}


@dataclass(frozen=True)
class Failure:
    """The error in a response, whichever service wrote it."""

    status: int
    code: str
    message: str
    details: Any = None
    hint: str | None = None


@contextmanager
def translated(attempt: str) -> Iterator[None]:
    """Raise errors of client libraries inside the block as our own, chained."""
    try:
        yield
    except _library_errors() as error:
        raise error_from_exception(error, attempt) from error


def _library_errors() -> tuple[type[Exception], ...]:
    """Return the error classes of the libraries that were imported; importing the others would be slow."""
    # A module that another thread is importing may not have the name yet.
    named = (
        getattr(sys.modules.get(module), name, None) for module, names in _LIBRARY_ERRORS.items() for name in names
    )
    return tuple(error for error in named if error is not None)


def error_from_response(response: httpx.Response, attempt: str) -> OpenManusError:
    """Return the error for a response with a status outside 2xx."""
    if 300 <= response.status_code < 400:
        target = response.headers.get("location", "elsewhere")
        return SettingsError(
            f"{attempt}: {response.url.host} redirects to {target}",
            setting="SUPABASE_URL",
            hint="set SUPABASE_URL to the API's own address",
        )
    failure = _read_failure(response)
    if failure is None:
        return _error_from_page(response, attempt)
    return build_error(failure, attempt, retry_after_seconds=_retry_after_seconds(response))


def error_from_exception(error: Exception, attempt: str) -> OpenManusError:
    """Return our error for one raised by supabase-py, httpx, storage3 or psycopg."""
    # Imported here: the libraries are slow to import.
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error_from_response(error.response, attempt)
    if isinstance(error, (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)):
        return _error_from_httpx(error, attempt)
    from openmanus_rl.transport.translate_libraries import error_from_library

    return error_from_library(error, attempt)


def build_error(failure: Failure, attempt: str, *, retry_after_seconds: float | None = None) -> OpenManusError:
    status = failure.status
    field = field_of(failure.message, failure.details)
    if status in (429, 502, 503):
        cls = _BY_STATUS.get(status, ServerError)
    else:
        cls = class_for_code(failure.code, field=field) or _class_for_status(status)
    if cls is InvalidInput and not failure.code:
        # Every part of the API names what it refuses by a code: this is somebody on the way to it.
        cls = BadResponse
    arguments: dict[str, Any] = {
        "code": failure.code or None,
        "details": failure.details,
        "hint": hint_for(cls, failure.hint),
        "status": status or None,
        "field": field,
    }
    if issubclass(cls, TransientError):
        arguments["retry_after_seconds"] = retry_after_seconds
    return cls(worded(failure.code, failure.message, attempt), **arguments)


def hint_for(cls: type[OpenManusError], given: str | None) -> str | None:
    """Return the hint: the server's, except for a version mismatch, where it only guesses at names and types."""
    return HINTS[cls] if cls is SchemaMismatch else given or HINTS.get(cls)


def worded(code: str, message: str, attempt: str) -> str:
    """Prefix the message with the attempt, unless it is from our own SQL, which already names it."""
    if code in _MISSING_FUNCTION:
        return f"{attempt}: the database is of another version than this program ({message})"
    return message if code in OWN_CODES else f"{attempt}: {message}"


def _class_for_status(status: int) -> type[OpenManusError]:
    return _BY_STATUS.get(status, ServerError if status >= 500 else BadResponse)


def _read_failure(response: httpx.Response) -> Failure | None:
    """Read an error of PostgREST, Storage, Auth, the API gateway or our functions; None if it is none of these."""
    try:
        body = json.loads(response.content)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    if isinstance(inner := body.get("error"), dict):
        # Our functions: {"error": {"code", "message", "details"}}.
        body = inner
    message = body.get("message") or body.get("msg") or body.get("error_description") or body.get("error")
    if not isinstance(message, str):
        return None
    status = response.status_code
    # Hosted Storage always responds with 400 and has the real status in the body.
    told = str(body.get("statusCode", ""))
    if told.isdigit() and 400 <= int(told) < 600:
        status = int(told)
    code = body.get("code") or body.get("error_code") or body.get("error") or ""
    hint = body.get("hint")
    return Failure(
        status=status,
        code=str(code) if code != message else "",
        message=message,
        details=parse_details(body.get("details")),
        hint=hint if isinstance(hint, str) else None,
    )


def parse_details(details: Any) -> Any:
    """Return details as an object if our SQL wrote them as JSON text."""
    if isinstance(details, str) and details.startswith("{"):
        try:
            return json.loads(details)
        except ValueError:
            return details
    return details


def _error_from_page(response: httpx.Response, attempt: str) -> OpenManusError:
    """Return the error for a response that is not from Supabase, such as a proxy's page, by its status."""
    status = response.status_code
    kind = response.headers.get("content-type", "no content type")
    cls = _class_for_status(status)
    if cls in _NOT_OF_PAGES:
        # The API would have said it in JSON: this request never reached it.
        cls = BadResponse
    arguments: dict[str, Any] = {"status": status, "details": {"body_start": response.text[:200]}}
    if issubclass(cls, TransientError):
        arguments["retry_after_seconds"] = _retry_after_seconds(response)
    said = f"{kind}: {response.text[:200].strip()}" if kind.startswith("text/plain") and response.text else kind
    return cls(
        f"{attempt}: {response.url.host} answered {status} with a body that is not the API's ({said})",
        hint="check SUPABASE_URL and any proxy in between",
        **arguments,
    )


def _retry_after_seconds(response: httpx.Response) -> float | None:
    """Read Retry-After, given in seconds or as a date."""
    text = response.headers.get("retry-after", "").strip()
    try:
        if text.isascii() and text.replace(".", "", 1).isdigit():
            seconds = float(text)
        else:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), _LONGEST_RETRY_AFTER_SECONDS)


def _error_from_httpx(error: Exception, attempt: str) -> OpenManusError:
    import httpx

    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        kind = "connecting took" if isinstance(error, httpx.ConnectTimeout) else "the answer took"
        return TimeoutExceeded(f"{attempt}: {kind} too long", hint=_where(error))
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return SettingsError(f"{attempt}: {reason}", setting="SUPABASE_URL", hint="check SUPABASE_URL")
    if _caused_by(error, ssl.SSLCertVerificationError):
        return SettingsError(
            f"{attempt}: the server's certificate is not trusted: {reason}",
            setting="SUPABASE_URL",
            hint="check SUPABASE_URL, or give Python the certificate authority with SSL_CERT_FILE",
        )
    if isinstance(error, (httpx.DecodingError, httpx.TooManyRedirects)):
        return BadResponse(f"{attempt}: {reason}")
    return ConnectionFailed(f"{attempt}: {reason}", hint=_where(error))


def _where(error: Exception) -> str | None:
    request: httpx.Request | None = getattr(error, "_request", None)
    if request is None:
        return None
    address = request.url.host + (f":{request.url.port}" if request.url.port else "")
    return f"is {address} reachable and running?"


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
