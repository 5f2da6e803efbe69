"""HTTP to model servers: time limits, retries, and errors that say what happened without saying the key."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from openmanus_rl.agents.base import AgentError
from openmanus_rl.errors import (
    AuthError,
    BadResponse,
    ConnectionFailed,
    InvalidInput,
    NotFoundError,
    OpenManusError,
    RateLimited,
    ServerError,
    TimeoutExceeded,
    TooLargeError,
)
from openmanus_rl.records.plain import dump_bytes
from openmanus_rl.transport.retry import RetryPolicy

__all__ = ["ModelServer", "events_in", "read_object"]

T = TypeVar("T")

LARGEST_ANSWER_BYTES = 64 * 1024 * 1024
_CONNECT_SECONDS = 10.0
_LONGEST_MESSAGE_CHARACTERS = 500


class ModelServer:
    """A server of models. Failures that may pass are retried; what is left over is raised as `AgentError`."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        secret: str | None,
        key_name: str,
        request_timeout_seconds: float,
        retry_limit_seconds: float,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._key_name = key_name
        self._request_timeout_seconds = request_timeout_seconds
        self._retry_limit_seconds = retry_limit_seconds
        # A redirect would send the key to another host.
        self._client = httpx.Client(headers={"Content-Type": "application/json", **headers}, follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def post(
        self, path: str, body: Any, *, read: Callable[[Iterator[bytes]], T], timeout_seconds: float | None = None
    ) -> T:
        """Return what `read` makes of the answer's chunks. All attempts together end at the time limit."""
        deadline = time.monotonic() + timeout_seconds if timeout_seconds is not None else None
        content = dump_bytes(body)
        limit = (
            self._retry_limit_seconds if timeout_seconds is None else min(self._retry_limit_seconds, timeout_seconds)
        )
        try:
            return RetryPolicy(limit_seconds=limit, first_delay_seconds=0.5, max_delay_seconds=20.0).run(
                lambda _: self._send(path, content, read, deadline)
            )
        except OpenManusError as error:
            raise AgentError(
                self._masked(f"the model at {urlsplit(self._base_url).netloc.rpartition('@')[2]}: {error}"),
                code=error.code,
                status=error.status,
            ) from error

    def _send(self, path: str, content: bytes, read: Callable[[Iterator[bytes]], T], deadline: float | None) -> T:
        seconds = self._request_timeout_seconds
        if deadline is not None:
            seconds = min(seconds, max(0.05, deadline - time.monotonic()))
        ends = time.monotonic() + seconds
        timeout = httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        try:
            with self._client.stream("POST", f"{self._base_url}/{path}", content=content, timeout=timeout) as response:
                chunks = _limited(response.iter_bytes(), ends=ends, seconds=seconds)
                if response.status_code != 200:
                    raise self._refused(response, b"".join(chunks))
                return read(chunks)
        except httpx.TimeoutException as error:
            raise TimeoutExceeded(f"no answer within {seconds:g} s") from error
        except (httpx.TransportError, httpx.StreamError) as error:
            # Resets, refused connections, bodies that break off.
            raise ConnectionFailed(f"the connection failed: {type(error).__name__}: {error}") from error
        except (httpx.InvalidURL, httpx.DecodingError) as error:
            raise BadResponse(f"the answer cannot be read: {error}") from error

    def _refused(self, response: httpx.Response, body: bytes) -> OpenManusError:
        status = response.status_code
        message = self._masked(f"it answered {status}: {_message_in(body)}")
        if status in (401, 403):
            # Errors of a key are not retried: that could lock an account.
            hint = f"check {self._key_name} in the worker's environment" + (
                "" if self._secret else "; no key was sent, because keys are sent only to the address they belong to"
            )
            return AuthError(message, status=status, hint=hint)
        if status == 404:
            return NotFoundError(message, hint="check the model's name and the base URL")
        if status in (408, 409, 425, 429) or status >= 500:
            kind = RateLimited if status == 429 else ServerError
            return kind(message, status=status, retry_after_seconds=_retry_after(response))
        return InvalidInput(message, status=status)

    def _masked(self, text: str) -> str:
        return text.replace(self._secret, "***") if self._secret else text


def events_in(chunks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events, up to `[DONE]`."""
    # Joined only at the end of a line: a long one in small pieces would be copied for each of them.
    pending: list[bytes] = []
    for chunk in chunks:
        pending.append(chunk)
        if b"\n" not in chunk:
            continue
        *lines, rest = b"".join(pending).split(b"\n")
        pending = [rest]
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield read_object(data)


def read_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object; anything else is a `BadResponse`, which is retried."""
    try:
        # Not orjson: token texts may be half of a surrogate pair, which it refuses.
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadResponse(f"it answered malformed JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadResponse(f"it answered {type(found).__name__} where an object was due")
    return found


def _limited(chunks: Iterator[bytes], *, ends: float, seconds: float) -> Iterator[bytes]:
    """Yield the chunks until the time or the size is over: a server that trickles never times out by itself."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > LARGEST_ANSWER_BYTES:
            raise TooLargeError(f"its answer has more than {LARGEST_ANSWER_BYTES} bytes")
        if time.monotonic() > ends:
            raise TimeoutExceeded(f"the answer was not complete within {seconds:g} s")
        yield chunk


def _message_in(body: bytes) -> str:
    """Return the server's own words: OpenAI, vLLM and Gemini put them under `error.message`."""
    text = body.decode(errors="replace")
    try:
        found = json.loads(text)
        error = found.get("error", found) if isinstance(found, dict) else found
        text = str(error.get("message") or error) if isinstance(error, dict) else str(error)
    except (ValueError, RecursionError):
        pass
    return " ".join(text.split())[:_LONGEST_MESSAGE_CHARACTERS] or "(no message)"


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (email.utils.parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
