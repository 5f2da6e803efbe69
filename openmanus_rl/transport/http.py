"""HTTP: sends requests, retries them, and validates responses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from openmanus_rl.errors import BadResponse, ConnectionFailed
from openmanus_rl.transport.held import HeldBody
from openmanus_rl.transport.json_codec import encode
from openmanus_rl.transport.proof import ProvingTransport
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.translate import error_from_response, translated

__all__ = ["NO_BODY", "HttpClient", "read_json", "read_object", "read_rows"]

T = TypeVar("T")

NO_BODY: Any = object()

_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=30.0)
# The minimum timeout of the last attempt before the limit, so that a slow success is not discarded.
_LEAST_TIMEOUT_SECONDS = 1.0


class HttpClient:
    """Sends requests with timeouts and retries; safe to share between threads and across forks."""

    def __init__(
        self,
        *,
        retry: RetryPolicy | None = None,
        connect_timeout_seconds: float = 5.0,
        request_timeout_seconds: float = 30.0,
        use_environment_proxies: bool = True,
        transport: httpx.BaseTransport | None = None,
        on_unreachable: Callable[[], None] | None = None,
        proof_key: str | None = None,
    ) -> None:
        """With a `proof_key`, only connect to a gateway that proves, on each connection, that it has that key."""
        self.retry = retry or RetryPolicy()
        self._connect_timeout_seconds = connect_timeout_seconds
        self._request_timeout_seconds = request_timeout_seconds
        self._use_environment_proxies = use_environment_proxies
        self._transport = transport
        self._on_unreachable = on_unreachable
        self._proof_key = proof_key
        self._clients: dict[int, httpx.Client] = {}

    @property
    def client(self) -> httpx.Client:
        """The httpx client of this process; after a fork, a new one, since the old one's sockets are shared."""
        process_id = os.getpid()
        client = self._clients.get(process_id)
        if client is None:
            # No lock: one held by another thread at the fork would never be released in the child.
            client = self._clients.setdefault(process_id, self._new_client())
        return client

    def _new_client(self) -> httpx.Client:
        return httpx.Client(
            limits=_LIMITS,
            timeout=self.timeout(self._request_timeout_seconds),
            # A redirect would send the key to another host.
            follow_redirects=False,
            trust_env=self._use_environment_proxies,
            # Also without the environment's proxies: SSL_CERT_FILE names the authority of a laboratory's own.
            verify=httpx.create_ssl_context(),
            transport=ProvingTransport(self._proof_key, limits=_LIMITS) if self._proof_key else self._transport,
        )

    def timeout(self, seconds: float) -> httpx.Timeout:
        """Return the httpx timeout for one attempt."""
        seconds = max(min(seconds, self._request_timeout_seconds), _LEAST_TIMEOUT_SECONDS)
        return httpx.Timeout(seconds, connect=min(seconds, self._connect_timeout_seconds))

    def close(self) -> None:
        """Close this process's connections; the next request opens new ones."""
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def request(
        self,
        method: str,
        url: str,
        *,
        attempt: str,
        read: Callable[[httpx.Response], T],
        headers: Mapping[str, str] | httpx.Headers | None = None,
        params: Mapping[str, Any] | httpx.QueryParams | None = None,
        body: Any = NO_BODY,
        content: bytes | HeldBody | None = None,
        retryable: bool = True,
    ) -> T:
        """Send a request, with retries, and return the result of `read` for a 2xx response.

        The `body` is sent as JSON, `content` as it is.
        """
        all_headers = httpx.Headers(headers)
        if body is not NO_BODY:
            content = encode(body)
            all_headers.setdefault("Content-Type", "application/json")
        if isinstance(content, HeldBody):
            all_headers["Content-Length"] = str(len(content))

        def send(remaining_seconds: float) -> T:
            with self.watched(attempt):
                response = self.client.request(
                    method,
                    url,
                    content=content,
                    params=params,
                    headers=all_headers,
                    timeout=self.timeout(remaining_seconds),
                )
            if not response.is_success:
                raise error_from_response(response, attempt)
            return read(response)

        return self.retry.run(send, retryable=retryable)

    @contextmanager
    def watched(self, attempt: str) -> Iterator[None]:
        """Translate errors raised inside the block, and notify the owner if the server can't be reached."""
        try:
            with translated(attempt):
                yield
        except ConnectionFailed:
            if self._on_unreachable is not None:
                self._on_unreachable()
            raise


def read_json(response: httpx.Response, attempt: str) -> Any:
    """Return the JSON of a response, or None if it is empty; anything else raises `BadResponse`."""
    if not response.content:
        return None
    kind = response.headers.get("content-type", "")
    if "json" not in kind:
        raise _not_the_apis(response, attempt, f"answered {kind or 'no content type'} where JSON was due")
    try:
        return json.loads(response.content)
    except ValueError as error:
        raise _not_the_apis(response, attempt, f"answered JSON that breaks off or is malformed ({error})") from error


def read_rows(response: httpx.Response, attempt: str) -> list[dict[str, Any]]:
    """Return the rows of a response; another shape raises `BadResponse`."""
    rows = read_json(response, attempt)
    if rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _not_the_apis(response, attempt, f"answered {type(rows).__name__} where a list of rows was due")
    return rows


def read_object(response: httpx.Response, attempt: str) -> dict[str, Any]:
    """Return the object of a response; another shape raises `BadResponse`."""
    found = read_json(response, attempt)
    if not isinstance(found, dict):
        raise _not_the_apis(response, attempt, f"answered {type(found).__name__} where an object was due")
    return found


def _not_the_apis(response: httpx.Response, attempt: str, reason: str) -> BadResponse:
    return BadResponse(
        f"{attempt}: {response.url.host} {reason}",
        status=response.status_code,
        details={"body_start": response.text[:200]},
        hint="check SUPABASE_URL and any proxy in between",
    )
