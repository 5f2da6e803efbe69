"""A short conversation with a running stack, with its secret key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openmanus_rl.local.stack_file import StackInfo

if TYPE_CHECKING:
    from openmanus_rl.transport.client import Client

_TIMEOUT_SECONDS = 5.0


@contextmanager
def client_of(running: StackInfo) -> Iterator[Client]:
    """Yield a client of a stack that proves to be this one; it does not try again."""
    # Imported here because they load the HTTP clients, which `up` and `status` do not need.
    from openmanus_rl.transport.client import Client
    from openmanus_rl.transport.retry import RetryPolicy

    client = Client.from_url_and_key(
        running.url,
        running.secret_key,
        proof_key=running.secret_key,
        request_timeout_seconds=_TIMEOUT_SECONDS,
        retry=RetryPolicy(limit_seconds=0),
    )
    try:
        yield client
    finally:
        client.http.close()
