"""A gateway whose time is ours, so that no test sleeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from openmanus_rl.transport.client import Client
from openmanus_rl.transport.retry import RetryPolicy

URL = "http://supabase.test"
KEY = "sb_secret_0123456789abcdef"
ANON_KEY = "sb_publishable_0123456789abcdef"


@dataclass
class FakeTime:
    """A clock that moves only when someone sleeps."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def retry(fake_time: FakeTime) -> RetryPolicy:
    return RetryPolicy(clock=fake_time.clock, sleep=fake_time.sleep, random=lambda: 0.5)


@pytest.fixture
def client(retry: RetryPolicy) -> Client:
    return Client.from_url_and_key(URL, KEY, anon_key=ANON_KEY, retry=retry)
