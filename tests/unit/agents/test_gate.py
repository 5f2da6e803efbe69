"""The browser's gate connects to the environment, whatever is asked of it, and survives what is no request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from openmanus_rl.agents.browser.gate import Gate, addresses_of
from openmanus_rl.sandboxes.base import Address

from ...support.agents import LocalSandbox


class Listener:
    """A server that answers each connection with a fixed text, and keeps what it was sent."""

    def __init__(self, text: bytes) -> None:
        self.received: list[bytes] = []
        self._text = text
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.received.append(connection.recv(65536))
                connection.sendall(self._text)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def inside() -> Iterator[Listener]:
    server = Listener(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ninside")
    yield server
    server.close()


@pytest.fixture
def outside() -> Iterator[Listener]:
    server = Listener(b"outside")
    yield server
    server.close()
    assert server.received == []


@pytest.fixture
def gate(inside: Listener, tmp_path: Path) -> Iterator[Gate]:
    sandbox = LocalSandbox(tmp_path, url=f"http://127.0.0.1:{inside.port}/")
    opened = Gate(addresses_of(sandbox), services=sandbox.services)
    yield opened
    opened.close()


def send(gate: Gate, request: bytes) -> bytes:
    host, _, port = gate.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def test_requests_to_the_environment_pass_without_the_proxys_headers(gate: Gate, inside: Listener) -> None:
    head = f"GET http://127.0.0.1:{inside.port}/a?b=c HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\n\r\n"
    assert send(gate, head.encode()).endswith(b"inside")
    assert inside.received == [b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]
    for name in ("localhost", "[::1]", "web", "LOCALHOST"):
        assert send(gate, f"GET http://{name}:{inside.port}/ HTTP/1.1\r\n\r\n".encode()).endswith(b"inside")
    assert send(gate, f"CONNECT 127.0.0.1:{inside.port} HTTP/1.1\r\n\r\nhello".encode()).endswith(b"inside")
    assert gate.take_attempts() == []


@pytest.mark.parametrize(
    "target",
    [
        "GET http://127.0.0.1:{out}/",
        "GET http://127.0.0.1:{ins}@127.0.0.1:{out}/",
        "GET http://127.0.0.1:{out}#@127.0.0.1:{ins}/",
        "GET http://127.0.0.1:{out}?@127.0.0.1:{ins}/",
        "GET //127.0.0.1:{out}/",
        "GET http://localhost.:{out}/",
        "GET http://0x7f000001:{out}/",
        "GET http://127.1:{out}/",
        "GET ftp://127.0.0.1:{out}/",
        "CONNECT 127.0.0.1:{out}",
        "CONNECT localhost:{out}",
        "CONNECT [::1]:{out}",
    ],
)
def test_nothing_else_is_connected_to_and_it_is_noted(
    gate: Gate, inside: Listener, outside: Listener, target: str
) -> None:
    line = target.format(ins=inside.port, out=outside.port)
    # The host that the request itself names does not matter.
    request = f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{inside.port}\r\n\r\n"
    assert send(gate, request.encode()).startswith(b"HTTP/1.1 403")
    assert len(gate.take_attempts()) == 1


def test_a_second_request_on_a_connection_goes_no_further_than_the_first(
    gate: Gate, inside: Listener, outside: Listener
) -> None:
    first = f"GET http://127.0.0.1:{inside.port}/ HTTP/1.1\r\n\r\n"
    second = f"GET http://127.0.0.1:{outside.port}/ HTTP/1.1\r\n\r\n"
    assert send(gate, (first + second).encode()).endswith(b"inside")


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"GET http://a:99999999/ HTTP/1.1\r\n\r\n",
        b"x" * 600_000,
    ],
)
def test_what_is_no_request_is_not_answered_and_harms_nobody(gate: Gate, inside: Listener, garbage: bytes) -> None:
    # The connection may be ended before all of it was read.
    with suppress(OSError):
        assert b"inside" not in send(gate, garbage)
    assert send(gate, f"GET http://127.0.0.1:{inside.port}/ HTTP/1.1\r\n\r\n".encode()).endswith(b"inside")


def test_an_environment_that_has_gone_is_told_as_such() -> None:
    gate = Gate({("127.0.0.1", 9): Address("127.0.0.1", 9)})
    assert send(gate, b"GET http://127.0.0.1:9/ HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 502")
    gate.close()


def test_a_page_that_tries_very_often_does_not_fill_the_record(gate: Gate) -> None:
    for number in range(500):
        gate.refuse(f"http://example.com/{number}" + "x" * 10_000, how="GET")
    attempts = gate.take_attempts()
    assert len(attempts) == 51
    assert attempts[-1] == {"further": 450}
    assert all(len(str(attempt)) < 600 for attempt in attempts)
    assert gate.take_attempts() == []


def test_only_urls_of_the_environment_are_allowed(gate: Gate, inside: Listener) -> None:
    assert gate.allows(f"http://127.0.0.1:{inside.port}/x")
    assert gate.allows(f"ws://localhost:{inside.port}")
    for url in (f"file://127.0.0.1:{inside.port}/", "http://127.0.0.1/", "javascript:1", "", "http://[", "about:blank"):
        assert not gate.allows(url)
