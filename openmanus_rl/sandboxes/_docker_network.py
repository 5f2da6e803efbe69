"""The network of a sandbox: services reach each other by name, and nothing else.

Ports can't be published on such a network. Where this process may (as root), it makes its connections from inside the
container's network namespace, and the network has no address on the host at all: containers can't reach the host
either. Elsewhere the host keeps an address on the network, which connections are made through.
"""

from __future__ import annotations

import ctypes
import functools
import os
import random
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container
    from docker.models.networks import Network

T = TypeVar("T")

__all__ = ["DNS_OPTIONS", "can_enter_namespaces", "connect_to", "create_network"]

_CLONE_NEWNET = 0x40000000
_SUBNET_ATTEMPTS = 20
# Docker's own pools hold about 30 networks. This range is reserved for tests of network devices and in use nowhere;
# each network gets 32 addresses of it.
_POOL = (198, 18)
# The engine passes names that it does not know on to the host's resolver, also from an internal network: a way out.
# There is nothing at this address, seen from the container.
DNS_OPTIONS = {"dns": ["127.0.0.1"], "dns_opt": ["timeout:1", "attempts:1"]}


def create_network(client: docker.DockerClient, name: str, *, labels: dict[str, str], is_internal: bool) -> Network:
    """Create the network of a sandbox."""
    import docker.errors
    from docker.types import IPAMConfig, IPAMPool

    hides_host = is_internal and can_enter_namespaces()
    options = {"com.docker.network.bridge.inhibit_ipv4": "true"} if hides_host else {}
    for attempt in range(1, _SUBNET_ATTEMPTS + 1):
        number = random.randrange(2 * 256 * 8)
        subnet = f"{_POOL[0]}.{_POOL[1] + number // 2048}.{number // 8 % 256}.{number % 8 * 32}/27"
        try:
            return client.networks.create(
                name,
                driver="bridge",
                internal=is_internal,
                options=options,
                labels=labels,
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]),
            )
        except docker.errors.APIError:
            # Most likely another network has this range.
            if attempt == _SUBNET_ATTEMPTS:
                raise
    raise AssertionError("not reached")


def connect_to(container: Container, network: str, port: int, *, timeout_seconds: float) -> socket.socket:
    """Return a connection to a port of a container, or raise OSError."""
    if can_enter_namespaces():
        return _in_thread(functools.partial(_connect_inside, container, port, timeout_seconds))
    address = container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"]
    if not address:
        raise ConnectionRefusedError("the container is not on its network")
    return socket.create_connection((address, port), timeout_seconds)


@functools.cache
def can_enter_namespaces() -> bool:
    """Return whether this process may enter the network namespaces of containers."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    try:
        _in_thread(lambda: _enter(Path("/proc/self/ns/net")))
    except OSError:
        return False
    return True


def _connect_inside(container: Container, port: int, timeout_seconds: float) -> socket.socket:
    process = Path("/proc") / str(container.attrs["State"]["Pid"])
    try:
        is_right = str(container.id) in (process / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        is_right = False
    if not is_right:
        raise ConnectionRefusedError("the container does not run, or not on this machine")
    _enter(process / "ns" / "net")
    # A socket stays in the namespace that it was made in.
    return socket.create_connection(("127.0.0.1", port), timeout_seconds)


def _enter(namespace: Path) -> None:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"{namespace} can't be entered")
    finally:
        os.close(descriptor)


def _in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread of its own: a thread that entered a namespace is good for nothing else."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-namespace") as thread:
        return thread.submit(function).result()
