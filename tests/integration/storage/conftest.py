"""Storage of the running stack, watched: every request that leaves is counted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.retry import RetryPolicy


class WatchedTransport(httpx.BaseTransport):
    """Real HTTP that notes what was asked, and fails instead as often as it is told to."""

    def __init__(self) -> None:
        self._real = httpx.HTTPTransport()
        self.requests: list[str] = []
        self.failures: list[Callable[[httpx.Request, httpx.BaseTransport], httpx.Response]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(f"{request.method} {request.url.path}")
        if self.failures:
            return self.failures.pop(0)(request, self._real)
        return self._real.handle_request(request)

    def close(self) -> None:
        self._real.close()


@pytest.fixture
def transport() -> WatchedTransport:
    """What the manager's requests go through."""
    return WatchedTransport()


@pytest.fixture
def client(stack: Any, transport: WatchedTransport) -> Iterator[Client]:
    """The stack with its secret key; a retry waits next to nothing."""
    retry = RetryPolicy(first_delay_seconds=0.001, max_delay_seconds=0.05)
    opened = Client.from_url_and_key(
        stack.url, stack.secret_key, anon_key=stack.publishable_key, retry=retry, transport=transport
    )
    yield opened
    opened.http.close()


@pytest.fixture
def manager(client: Client) -> type[StorageManager]:
    """The manager on that client."""
    return StorageManager.using(client)


@pytest.fixture
def run_id() -> str:
    """A folder that no other test writes to."""
    return str(uuid.uuid4())


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Make a file of this name and content."""

    def make(name: str, content: bytes = b"content") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make
