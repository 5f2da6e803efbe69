"""Every failure of the package, in one tree.

    OpenManusError
    ├── SettingsError            a setting is missing, wrong or a placeholder    .setting
    ├── InvalidInput             400, something given is not acceptable
    │   ├── TooLargeError        413, over a size limit
    │   └── UnsupportedError     405, 406, 415, 501: the server can't do that
    ├── AuthError                401, the key or token was not accepted
    ├── ForbiddenError           403, accepted, but not allowed to do this
    ├── NotFoundError            404, unknown id or name
    ├── ConflictError            409, something else is already there
    │   └── TransitionError      a status can't follow the present one
    ├── SchemaMismatch           the database lacks a table or function we need
    ├── ChecksumMismatch         a stored file is not the one that was uploaded
    ├── LocalFileError           a file on this machine can't be read or written .path
    ├── StackError               the embedded stack can't start, run or stop
    ├── LaunchError              SkyPilot can't start, list or end workers
    └── TransientError           may work when tried again                       .retry_after_seconds
        ├── ConnectionFailed     no connection, or it broke
        ├── TimeoutExceeded      no answer in time
        ├── RateLimited          429
        ├── ServerError          5xx, deadlocks, a database that is starting
        └── BadResponse          an answer that is not the API's: HTML, torn JSON

Each has .code, .message, .details, .hint, .status and, where one thing given is to blame, .field.
A class knows whether it is ``transient``; transient failures are retried by `transport` before they are raised.
Keys, tokens and passwords are masked in every message.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

__all__ = [
    "AuthError",
    "BadResponse",
    "ChecksumMismatch",
    "ConflictError",
    "ConnectionFailed",
    "ForbiddenError",
    "InvalidInput",
    "LaunchError",
    "LocalFileError",
    "NotFoundError",
    "OpenManusError",
    "RateLimited",
    "SchemaMismatch",
    "ServerError",
    "SettingsError",
    "StackError",
    "TimeoutExceeded",
    "TooLargeError",
    "TransientError",
    "TransitionError",
    "UnsupportedError",
    "redact",
]

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bsb_secret_[A-Za-z0-9_\-]+"), "sb_secret_***"),
    (re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]*)?"), "<token ***>"),
    # The password of a URL: everything between the user and the last @ before a slash or space.
    (re.compile(r"(\b[a-z][a-z0-9+.\-]*://[^\s:/@]*):[^\s/]*@", re.IGNORECASE), r"\1:***@"),
    # A user without a password is a token, as of a git server.
    (re.compile(r"(\bhttps?://)[^\s:/@]+@", re.IGNORECASE), r"\1***@"),
    (re.compile(r"(\bpassword\s*=\s*)('[^']*'|\S+)", re.IGNORECASE), r"\1***"),
    (re.compile(r"(\bBearer\s+)[A-Za-z0-9._~+/\-]{8,}=*", re.IGNORECASE), r"\1***"),
    (re.compile(r"([?&]token=)[^&\s]+", re.IGNORECASE), r"\1***"),
)


def redact(value: Any) -> Any:
    """Return the value with keys, tokens and passwords masked in every string of it."""
    if isinstance(value, str):
        for pattern, replacement in _SECRETS:
            value = pattern.sub(replacement, value)
        return value
    if isinstance(value, dict):
        return {redact(key): redact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(redact(item) for item in value)
    return value


class OpenManusError(Exception):
    """A failure that names the object, the attempt and the way out."""

    transient: ClassVar[bool] = False
    default_code: ClassVar[str] = "error"
    default_status: ClassVar[int | None] = None

    # Every argument but the message has a default: unpickling calls the class with the message alone.
    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Any = None,
        hint: str | None = None,
        status: int | None = None,
        field: str | None = None,
    ) -> None:
        self.message: str = redact(message)
        self.code: str = code or self.default_code
        self.details: Any = redact(details)
        self.hint: str | None = redact(hint) if hint else None
        self.status: int | None = status if status is not None else self.default_status
        self.field: str | None = field
        self.attempts: int = 1
        self.elapsed_seconds: float = 0.0
        super().__init__(self.message)

    def note_attempts(self, attempts: int, *, elapsed_seconds: float) -> None:
        """Note how often and for how long this was tried before it was raised."""
        self.attempts = attempts
        self.elapsed_seconds = elapsed_seconds

    def as_dict(self) -> dict[str, Any]:
        """Return the error in the shape that the HTTP functions answer with."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}

    def __str__(self) -> str:
        text = self.message
        if self.transient and self.attempts > 1:
            text += f" (gave up after {self.attempts} attempts in {self.elapsed_seconds:.1f} s)"
        return f"{text}; {self.hint}" if self.hint else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r}, code={self.code!r})"


class SettingsError(OpenManusError):
    """A setting is missing, malformed, contradicts another or still holds a placeholder."""

    default_code = "settings"

    def __init__(self, message: str, *, setting: str = "", hint: str | None = None, details: Any = None) -> None:
        super().__init__(message, hint=hint, details=details, field=setting or None)
        self.setting = setting


class InvalidInput(OpenManusError):
    """Something given is not acceptable; `field` names it where known."""

    default_code = "invalid_input"
    default_status = 400


class TooLargeError(InvalidInput):
    """What was given is over a size limit."""

    default_code = "too_large"
    default_status = 413


class UnsupportedError(InvalidInput):
    """The server does not offer this operation, media type or route."""

    default_code = "unsupported"
    default_status = 415


class AuthError(OpenManusError):
    """The key or token was not accepted."""

    default_code = "unauthorized"
    default_status = 401


class ForbiddenError(OpenManusError):
    """The caller is known but not allowed to do this."""

    default_code = "forbidden"
    default_status = 403


class NotFoundError(OpenManusError):
    """There is nothing under this id or name, or the caller may not see it."""

    default_code = "not_found"
    default_status = 404


class ConflictError(OpenManusError):
    """What is already recorded forbids this write; `field` names the key where known."""

    default_code = "conflict"
    default_status = 409


class TransitionError(ConflictError):
    """A status can't follow the present one, such as running after completed."""

    default_code = "bad_transition"


class SchemaMismatch(OpenManusError):
    """The database lacks a table, view or function that this version needs."""

    default_code = "schema_mismatch"


class ChecksumMismatch(OpenManusError):
    """A stored file does not have the checksum that was recorded when it was uploaded."""

    default_code = "checksum_mismatch"


class LocalFileError(OpenManusError):
    """A file on this machine can't be read or written."""

    default_code = "local_file"

    def __init__(self, message: str, *, path: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint, details={"path": path})
        self.path = path


class StackError(OpenManusError):
    """The embedded stack can't be started, used or stopped as asked."""

    default_code = "stack"


class LaunchError(OpenManusError):
    """Workers on other machines can't be started, listed or ended as asked."""

    default_code = "launch"


class TransientError(OpenManusError):
    """A failure that may pass when the same call is made again; the server may have said when."""

    transient = True
    default_code = "transient"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Any = None,
        hint: str | None = None,
        status: int | None = None,
        field: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, code=code, details=details, hint=hint, status=status, field=field)
        self.retry_after_seconds = retry_after_seconds


class ConnectionFailed(TransientError):
    """No connection could be made, or it broke before the answer was complete."""

    default_code = "connection_failed"


class TimeoutExceeded(TransientError):
    """No answer came in time."""

    default_code = "timeout"


class RateLimited(TransientError):
    """The server asks for a pause."""

    default_code = "rate_limited"
    default_status = 429


class ServerError(TransientError):
    """The server failed on its own side."""

    default_code = "server_error"
    default_status = 500


class BadResponse(TransientError):
    """The answer is not one the API gives: a proxy's page, a torn body, another shape."""

    default_code = "bad_response"
