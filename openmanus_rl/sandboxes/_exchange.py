"""One HTTP request over a socket that is already connected, with a limit in time and size."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult

from openmanus_rl.sandboxes.base import HttpResponse

__all__ = ["connect_to_url", "exchange"]


def connect_to_url(parts: SplitResult, timeout_seconds: float) -> socket.socket:
    """Return a connection to the host of a URL."""
    default = 443 if parts.scheme == "https" else 80
    connection = socket.create_connection((parts.hostname or "", parts.port or default), timeout_seconds)
    if parts.scheme != "https":
        return connection
    return ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname)


def exchange(
    connection: socket.socket,
    method: str,
    target: str,
    *,
    host: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_seconds: float,
    limit_bytes: int,
) -> HttpResponse:
    """Send a request and return the answer; redirects are not followed. Raises OSError or HTTPException."""
    client = http.client.HTTPConnection(host)
    client.sock = connection
    connection.settimeout(timeout_seconds)
    # A timeout of the socket starts anew with every byte: a server that drips would hold us for ever.
    is_late = threading.Event()
    alarm = threading.Timer(timeout_seconds, _hang_up, (connection, is_late))
    alarm.daemon = True
    alarm.start()
    try:
        given = {name.lower() for name in headers or {}}
        client.putrequest(method, target, skip_host="host" in given, skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            client.putheader(name, value)
        if body is not None and "content-length" not in given:
            client.putheader("Content-Length", str(len(body)))
        client.putheader("Connection", "close")
        client.endheaders(body)
        answer = client.getresponse()
        content = answer.read(limit_bytes + 1)
        if is_late.is_set():
            raise TimeoutError("timed out")
        return HttpResponse(
            status=answer.status,
            headers=dict(answer.getheaders()),
            body=content[:limit_bytes],
            is_truncated=len(content) > limit_bytes,
        )
    except (OSError, http.client.HTTPException) as error:
        if is_late.is_set():
            raise TimeoutError("timed out") from error
        raise
    finally:
        alarm.cancel()
        client.close()


def _hang_up(connection: socket.socket, is_late: threading.Event) -> None:
    is_late.set()
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
