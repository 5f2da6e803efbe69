"""Managers on the running stack, with a network that can lose answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.utils.supabase_db import RolloutManager, TrainingRunManager


class LossyTransport(httpx.BaseTransport):
    """Real HTTP that delivers a request and then loses its answer, as often as it is told to."""

    def __init__(self) -> None:
        self._real = httpx.HTTPTransport()
        self.answers_to_lose = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._real.handle_request(request)
        if self.answers_to_lose > 0:
            self.answers_to_lose -= 1
            response.read()
            response.close()
            raise httpx.ReadError("the answer was lost", request=request)
        return response

    def close(self) -> None:
        self._real.close()


@pytest.fixture
def transport() -> LossyTransport:
    return LossyTransport()


@pytest.fixture
def client(stack: Any, transport: LossyTransport) -> Iterator[Client]:
    """The stack with its secret key; a retry waits next to nothing."""
    retry = RetryPolicy(first_delay_seconds=0.001, max_delay_seconds=0.01)
    opened = Client.from_url_and_key(
        stack.url,
        stack.secret_key,
        anon_key=stack.publishable_key,
        database_url=stack.database_url,
        retry=retry,
        transport=transport,
    )
    yield opened
    opened.http.close()


@pytest.fixture
def runs(client: Client) -> type[TrainingRunManager]:
    return TrainingRunManager.using(client)


@pytest.fixture
def rollouts(client: Client) -> type[RolloutManager]:
    return RolloutManager.using(client)


@pytest.fixture
def run(runs: type[TrainingRunManager]) -> Row:
    return runs.create_run("a run", algorithm="gigpo", environment="alfworld", config={"lr": 1e-4})


@pytest.fixture
def rollout(rollouts: type[RolloutManager], run: Row) -> Row:
    return rollouts.create_rollout(run["id"], 0, "alfworld", "find the red ball")
