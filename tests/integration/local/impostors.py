"""Servers of somebody else on the ports of a stack: they ask for secrets and keep what they are sent."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

# What a server asks for, as a message of type R: a cleartext password, an MD5 digest, or nothing at all.
CLEARTEXT = b"R" + struct.pack(">ii", 8, 3)
MD5 = b"R" + struct.pack(">ii4s", 12, 5, b"salt")
NOTHING = b"R" + struct.pack(">ii", 8, 0) + b"Z" + struct.pack(">ic", 5, b"I")
METHODS = {"cleartext": CLEARTEXT, "md5": MD5, "nothing": NOTHING}

_READY = b"R" + struct.pack(">ii", 8, 0) + b"Z" + struct.pack(">ic", 5, b"I")


class Impostor:
    """Listens on a loopback port; all that it is sent is in `received`."""

    def __init__(self, answer: Callable[[bytes], bytes], *, port: int = 0) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.received = b""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                while data := connection.recv(65536):
                    self.received += data
                    connection.sendall(self._answer(data))
            except OSError:
                return


def postgres_impostor(method: str, *, port: int = 0) -> Impostor:
    """Return a server that lets everyone in by a method of authentication, and takes whatever is sent then."""

    def answer(data: bytes) -> bytes:
        (length,) = struct.unpack(">i", data[:4])
        if data[4:8] == struct.pack(">i", 80877103):  # a question for TLS
            return b"N"
        if length == len(data):  # the first message has no type
            return METHODS[method]
        return _READY if data[:1] == b"p" else b""

    return Impostor(answer, port=port)


def http_impostor(*, port: int = 0) -> Impostor:
    """Return a server that has a friendly answer to every request."""
    body = b'{"status": "ok", "proof": "%s"}' % (b"0" * 64)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return Impostor(lambda _: head + body, port=port)
