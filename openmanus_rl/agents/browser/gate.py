"""The only way out of the browser: a proxy on the loopback interface that connects to the environment and nothing else.

A proxy, not rules inside the browser: whatever a page does, by scripts, redirects, frames, workers or sockets, its
connections come here. It also works on while the agent waits for its model.
"""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from openmanus_rl.agents.browser.chromium import OWN_HOST
from openmanus_rl.sandboxes.base import Address, Sandbox

__all__ = ["Gate", "addresses_of"]

_LARGEST_HEAD_BYTES = 256 * 1024
_CHUNK_BYTES = 64 * 1024
_CONNECT_SECONDS = 10.0
_MOST_ATTEMPTS = 50
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

Target = tuple[str, int]


def addresses_of(environment: Sandbox) -> dict[Target, Address]:
    """Return where a page may connect to: the environment's URL and its services, by their addresses."""
    places = list(environment.services.values())
    if environment.url is not None:
        parts = urlsplit(environment.url)
        places.append(Address(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 80)))
    return {(name, place.port): place for place in places for name in _names(place.host)}


def _names(host: str) -> Iterable[str]:
    return _LOOPBACK if host in _LOOPBACK else (host.lower(),)


class Gate:
    """A proxy for one browser. `take_attempts` says what was refused since the last call."""

    def __init__(self, allowed: Mapping[Target, Address], *, services: Mapping[str, Address] | None = None) -> None:
        self._allowed = dict(allowed)
        self._services = {name.lower(): place for name, place in (services or {}).items()}
        self._attempts: list[dict[str, str]] = []
        self._left_out = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._is_closed = False
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.gate = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="browser gate", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the proxy's address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def allows(self, url: str) -> bool:
        """Return whether a URL belongs to the environment."""
        try:
            parts = urlsplit(url)
            return (
                parts.scheme in _PORTS
                and self.find(parts.hostname or "", parts.port or _PORTS[parts.scheme]) is not None
            )
        except ValueError:
            return False

    def find(self, host: str, port: int) -> Address | None:
        """Return where a host and port lead to; a service's name leads to its address, at any port."""
        return self._allowed.get((host.lower(), port)) or self._services.get(host.lower())

    def refuse(self, url: str, *, how: str) -> None:
        """Note an attempt to leave the environment."""
        with self._lock:
            attempt = {"url": url[:500], "how": how}
            if attempt in self._attempts:
                return
            if len(self._attempts) < _MOST_ATTEMPTS:
                self._attempts.append(attempt)
            else:
                self._left_out += 1

    def take_attempts(self) -> list[dict[str, Any]]:
        """Return the attempts since the last call; a page that makes very many is not listed in full."""
        with self._lock:
            attempts: list[dict[str, Any]] = list(self._attempts)
            if self._left_out:
                attempts.append({"further": self._left_out})
            self._attempts, self._left_out = [], 0
            return attempts

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._is_closed = True
            sockets = list(self._sockets)
        self._server.shutdown()
        self._server.server_close()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def watch(self, *sockets: socket.socket) -> bool:
        """Note open connections; False if the gate is closed."""
        with self._lock:
            self._sockets.update(sockets)
            return not self._is_closed

    def forget(self, *sockets: socket.socket) -> None:
        """Forget closed connections."""
        with self._lock:
            self._sockets.difference_update(sockets)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    gate: Gate


class _Handler(socketserver.BaseRequestHandler):
    """One connection of the browser. It leads to one target only, whatever is sent over it later."""

    server: _Server
    request: socket.socket

    def handle(self) -> None:
        gate = self.server.gate
        try:
            if gate.watch(self.request):
                self._serve(gate)
        except OSError:
            # Either side hung up, as browsers do all the time.
            pass
        finally:
            gate.forget(self.request)

    def _serve(self, gate: Gate) -> None:
        head, rest = self._read_head()
        line, _, headers = head.partition(b"\r\n")
        method, _, target = line.decode("latin-1").rpartition(" ")[0].partition(" ")
        is_tunnel = method == "CONNECT"
        url, parts = f"//{target}" if is_tunnel else target, None
        try:
            parts = urlsplit(url)
            place = gate.find(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443 if is_tunnel else 80))
        except ValueError:
            place = None
        if place is None:
            if (parts.hostname if parts else None) != OWN_HOST:
                gate.refuse(target, how="connection" if is_tunnel else method)
            self.request.sendall(_answer(403, "outside of the environment"))
            return
        try:
            upstream = socket.create_connection((place.host, place.port), timeout=_CONNECT_SECONDS)
        except OSError:
            self.request.sendall(_answer(502, "the environment does not answer"))
            return
        with upstream:
            upstream.settimeout(None)
            gate.watch(upstream)
            try:
                if is_tunnel:
                    self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    upstream.sendall(rest)
                else:
                    upstream.sendall(_origin_form(method, url, headers) + rest)
                _relay(self.request, upstream)
            finally:
                gate.forget(upstream)

    def _read_head(self) -> tuple[bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = self.request.recv(_CHUNK_BYTES)
            if not chunk or len(data) > _LARGEST_HEAD_BYTES:
                raise ConnectionError("no request")
            data += chunk
        head, _, rest = data.partition(b"\r\n\r\n")
        return head, rest


def _origin_form(method: str, url: str, headers: bytes) -> bytes:
    """Return a request's head as the server itself expects it; one request a connection, as each is checked anew."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [
        line
        for line in headers.split(b"\r\n")
        if line.partition(b":")[0].strip().lower() not in (b"proxy-connection", b"connection", b"proxy-authorization")
    ]
    return b"\r\n".join([f"{method} {path} HTTP/1.1".encode("latin-1"), *kept, b"Connection: close"]) + b"\r\n\r\n"


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes on in both directions until both sides have ended."""
    peers = {one: other, other: one}
    while peers:
        ready, _, _ = select.select(list(peers), [], [])
        for source in ready:
            data = source.recv(_CHUNK_BYTES)
            if data:
                peers[source].sendall(data)
                continue
            target = peers.pop(source)
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)
            if target is one:
                # The server has said all. A browser keeps its side open to ask again, which is not possible here.
                return


def _answer(status: int, reason: str) -> bytes:
    body = f"{status}: {reason}\n".encode()
    return (
        f"HTTP/1.1 {status} {'Forbidden' if status == 403 else 'Bad Gateway'}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body
