"""Verifies that the embedded gateway itself is listening before a key is sent to its port.

While a stack is down, any user of the machine may listen on its port. Before the first request on a connection the
client therefore sends a random number, and the gateway answers with a digest that only a holder of the secret key can
make. The digest covers the port, so that the request cannot be relayed to a gateway on another port.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

__all__ = ["ProvingTransport"]

_PATH = "/.well-known/openmanus-rl/proof"
_MAX_ANSWER_BYTES = 16 * 1024


class ProvingTransport(httpx.HTTPTransport):
    """Sends requests only to a gateway that proves that it has the key."""

    def __init__(self, key: str, *, limits: httpx.Limits) -> None:
        super().__init__(limits=limits, trust_env=False)
        # httpx has no setting for the network backend of its pool.
        self._pool = httpcore.ConnectionPool(
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_ProvingBackend(key),
        )


class _ProvingBackend(httpcore.NetworkBackend):
    def __init__(self, key: str) -> None:
        self._key = key
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._network.connect_tcp(host, port, timeout, local_address, socket_options)
        try:
            if not _is_proven(stream, self._key, host, port, timeout):
                raise httpcore.ConnectError(
                    f"port {port} is not this stack's: the process that listens there lacks its secret key; "
                    "no key was sent to it (a stack of an earlier version is replaced by `openmanus-rl down` and `up`)"
                )
        except BaseException:
            stream.close()
            raise
        return stream

    def sleep(self, seconds: float) -> None:
        self._network.sleep(seconds)


def _is_proven(stream: httpcore.NetworkStream, key: str, host: str, port: int, timeout: float | None) -> bool:
    nonce = secrets.token_hex(32)
    question = f"GET {_PATH}?nonce={nonce} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n"
    stream.write(question.encode("ascii"), timeout)
    body = _read_answer(stream, timeout)
    if body is None:
        return False
    try:
        proof = json.loads(body)["proof"]
    except (ValueError, KeyError, TypeError):
        return False
    wanted = hmac.new(key.encode(), f"openmanus-rl proof\n{port}\n{nonce}".encode(), hashlib.sha256).hexdigest()
    return isinstance(proof, str) and proof.isascii() and hmac.compare_digest(proof, wanted)


def _read_answer(stream: httpcore.NetworkStream, timeout: float | None) -> bytes | None:
    """Read one small HTTP response with a Content-Length; return None for anything else."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = stream.read(_MAX_ANSWER_BYTES, timeout)
        received += chunk
        if not chunk or len(received) > _MAX_ANSWER_BYTES:
            return None
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length", "")
    if status.split(" ")[1:2] != ["200"] or not (length.isascii() and length.isdigit()):
        return None
    if int(length) > _MAX_ANSWER_BYTES:
        return None
    while len(body) < int(length):
        chunk = stream.read(_MAX_ANSWER_BYTES, timeout)
        if not chunk:
            return None
        body += chunk
    return body if len(body) == int(length) else None
