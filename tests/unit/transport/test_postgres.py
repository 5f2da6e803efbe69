"""Postgres connections: what fails before any server is asked, and when none answers."""

from __future__ import annotations

import socket

import pytest

from openmanus_rl.errors import ConnectionFailed, SettingsError
from openmanus_rl.transport.postgres import connect, session
from openmanus_rl.transport.retry import RetryPolicy


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_does_not_answer_is_tried_again_and_then_named(retry: RetryPolicy) -> None:
    with pytest.raises(ConnectionFailed, match=r"connect to Postgres: .*gave up after") as caught:
        connect(f"postgresql://postgres:hunter2@127.0.0.1:{free_port()}/postgres", retry=retry)

    assert caught.value.attempts > 3
    assert "hunter2" not in str(caught.value)


def test_a_url_that_is_not_postgres_is_refused_before_connecting() -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL"), session("http://x", attempt="migrate"):
        pytest.fail("no connection should have been made")
