"""Forwards connections from a port on the loopback interface to a service that only this process can reach."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from openmanus_rl.sandboxes.base import Address

__all__ = ["Forwarder"]

_CHUNK_BYTES = 64 * 1024
_CONNECT_SECONDS = 10.0


class Forwarder:
    """A port, chosen by the kernel, whose connections are passed on; it ends with this process."""

    def __init__(self, connect: Callable[[float], socket.socket]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._accept, daemon=True, name="sandbox-forwarder").start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # Closed.
            threading.Thread(target=self._forward, args=(client,), daemon=True, name="sandbox-connection").start()

    def _forward(self, client: socket.socket) -> None:
        with client:
            try:
                service = self._connect(_CONNECT_SECONDS)
            except OSError:
                return
            with service, self._remember(client, service):
                service.settimeout(None)
                back = threading.Thread(target=_copy, args=(service, client), daemon=True)
                back.start()
                _copy(client, service)
                back.join()

    @contextlib.contextmanager
    def _remember(self, *connections: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.update(connections)
            is_closed = self._is_closed
        if is_closed:
            _hang_up(connections)
        try:
            yield
        finally:
            with self._lock:
                self._open.difference_update(connections)

    def close(self) -> None:
        """Stop listening and end all connections."""
        with self._lock:
            self._is_closed = True
            connections = tuple(self._open)
        # Closing alone would not wake the thread that waits in accept.
        _hang_up((self._listener, *connections))
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _hang_up(connections: tuple[socket.socket, ...]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
