"""Loopback ports: find free ones, and name the program that uses a port."""

from __future__ import annotations

import errno
import socket

import psutil

from openmanus_rl.errors import StackError

HOST = "127.0.0.1"
DEFAULT_PORT = 54321


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    return _bind_error(port) is None


def _bind_error(port: int) -> OSError | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this option too; without it, a port with connections in TIME_WAIT looks taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error
    return None


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def holder(port: int) -> str | None:
    """Return the name and pid of the program that listens on a port, if the system allows to see it."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    for connection in connections:
        if (
            connection.status == psutil.CONN_LISTEN
            and connection.laddr
            and connection.laddr.port == port
            and connection.pid
        ):
            try:
                return f"{psutil.Process(connection.pid).name()}, pid {connection.pid}"
            except psutil.Error:
                return f"pid {connection.pid}"
    return None


def describe_holder(port: int) -> str:
    """Return who uses a port, for an error message."""
    who = holder(port)
    return f"taken by {who}" if who else "taken by another program"


def require_free(port: int) -> None:
    """Raise if a port that the user chose cannot be used."""
    if not 0 <= port <= 65535:
        raise StackError(f"port {port} does not exist; choose one from 1 to 65535, or `--port 0` for any free one")
    error = _bind_error(port) if port else None
    if error is not None and error.errno == errno.EACCES:
        raise StackError(
            f"port {port} is reserved for root; choose one above 1023, or `--port 0` for any free one"
        ) from error
    if error is not None:
        raise StackError(
            f"port {port} is {describe_holder(port)}; "
            "stop that program, choose another port, or use `--port 0` for any free one"
        ) from error
