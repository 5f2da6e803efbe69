"""How long a transfer is retried: the ordinary limit before it moves, a few fresh starts once it has for long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pytest_httpx import HTTPXMock

from openmanus_rl.errors import ConnectionFailed, LocalFileError, OpenManusError, RateLimited, ServerError
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.transfer_retry import Moved, TransferRetry

from .conftest import KEY, URL

if TYPE_CHECKING:
    from .conftest import FakeTime

LIMIT_SECONDS = 30.0


def no_retry(fake_time: FakeTime) -> RetryPolicy:
    return RetryPolicy(limit_seconds=0, clock=fake_time.clock, sleep=fake_time.sleep, random=lambda: 0.5)


def transfer_with(
    fake_time: FakeTime, *, moving_seconds: float, error: OpenManusError
) -> tuple[list[float], Callable[[Moved], Any]]:
    """Return the times of the attempts, and a transfer that fails after its bytes have moved for a while."""
    began: list[float] = []

    def transfer(moved: Moved) -> None:
        began.append(fake_time.now)
        if moving_seconds:
            moved()
            fake_time.now += moving_seconds
            moved()
        raise error

    return began, transfer


def test_a_transfer_that_never_moves_a_byte_ends_with_the_ordinary_limit(
    retry: RetryPolicy, fake_time: FakeTime
) -> None:
    began, transfer = transfer_with(fake_time, moving_seconds=0, error=ConnectionFailed("refused"))

    with pytest.raises(ConnectionFailed):
        TransferRetry(retry).run(transfer)

    assert len(began) > 5
    assert fake_time.now - began[0] < LIMIT_SECONDS


def test_what_a_silent_server_swallows_at_once_earns_no_fresh_start(retry: RetryPolicy, fake_time: FakeTime) -> None:
    def transfer(moved: Moved) -> None:
        moved()
        fake_time.now += LIMIT_SECONDS
        raise ConnectionFailed("no answer")

    started = fake_time.now
    with pytest.raises(ConnectionFailed):
        TransferRetry(retry).run(transfer)

    assert fake_time.now - started == LIMIT_SECONDS


def test_a_long_transfer_that_is_cut_off_is_started_over_a_few_times(
    retry: RetryPolicy, fake_time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    began, transfer = transfer_with(fake_time, moving_seconds=600, error=ConnectionFailed("upload a.pt: broke"))

    with pytest.raises(ConnectionFailed, match="gave up after 4 attempts in 24"):
        TransferRetry(retry).run(transfer)

    assert len(began) == 4
    assert "upload a.pt: broke; starting over (1 of at most 3)" in caplog.text


def test_a_server_that_stays_away_after_a_long_transfer_gets_the_ordinary_limit(
    retry: RetryPolicy, fake_time: FakeTime
) -> None:
    first = [600.0]
    cut_off_at = [0.0]

    def transfer(moved: Moved) -> None:
        if first:
            fake_time.now += first.pop()
            moved()
            cut_off_at[0] = fake_time.now
        raise ConnectionFailed("refused")

    with pytest.raises(ConnectionFailed):
        TransferRetry(retry).run(transfer)

    assert 10 < fake_time.now - cut_off_at[0] < LIMIT_SECONDS + retry.max_delay_seconds


def test_a_long_transfer_that_comes_through_the_second_time_succeeds(retry: RetryPolicy, fake_time: FakeTime) -> None:
    failures = [ServerError("busy")]

    def transfer(moved: Moved) -> str:
        fake_time.now += 600
        moved()
        if failures:
            raise failures.pop()
        return "stored"

    assert TransferRetry(retry).run(transfer) == "stored"


@pytest.mark.parametrize("error", [LocalFileError("a.pt: changed"), RateLimited("later", retry_after_seconds=3600)])
def test_what_would_not_pass_in_time_is_not_started_over(
    retry: RetryPolicy, fake_time: FakeTime, error: OpenManusError
) -> None:
    began, transfer = transfer_with(fake_time, moving_seconds=600, error=error)

    with pytest.raises(type(error)):
        TransferRetry(retry).run(transfer)

    assert len(began) == 1
    assert fake_time.slept == []


@pytest.mark.parametrize("moving_seconds", [0, 600])
def test_a_limit_of_zero_means_one_attempt(fake_time: FakeTime, moving_seconds: float) -> None:
    began, transfer = transfer_with(fake_time, moving_seconds=moving_seconds, error=ConnectionFailed("broke"))

    with pytest.raises(ConnectionFailed):
        TransferRetry(no_retry(fake_time)).run(transfer)

    assert len(began) == 1


def test_an_upload_to_a_dead_server_ends_with_the_retry_limit(
    client: Client, httpx_mock: HTTPXMock, fake_time: FakeTime, tmp_path: Path
) -> None:
    httpx_mock.add_exception(httpx.ConnectError("refused"), is_reusable=True)
    file = tmp_path / "a.bin"
    file.write_bytes(b"content")
    started = fake_time.now

    with pytest.raises(ConnectionFailed, match="gave up after"):
        client.storage.upload("media", "a.bin", file)

    assert 10 < fake_time.now - started < LIMIT_SECONDS


def test_a_download_from_a_dead_server_ends_with_the_retry_limit(
    client: Client, httpx_mock: HTTPXMock, fake_time: FakeTime, tmp_path: Path
) -> None:
    httpx_mock.add_exception(httpx.ConnectError("refused"), is_reusable=True)
    started = fake_time.now

    with pytest.raises(ConnectionFailed, match="gave up after"):
        client.storage.download("media", "a.bin", tmp_path / "a.bin")

    assert 10 < fake_time.now - started < LIMIT_SECONDS


def test_without_retries_an_upload_is_sent_once_and_may_take_its_time(
    httpx_mock: HTTPXMock, fake_time: FakeTime
) -> None:
    client = Client.from_url_and_key(URL, KEY, retry=no_retry(fake_time))
    httpx_mock.add_exception(httpx.ConnectError("refused"))

    with pytest.raises(ConnectionFailed):
        client.storage.upload_bytes("media", "a.bin", b"content")

    (request,) = httpx_mock.get_requests()
    # The server may need a while to store a large file: no retry is no reason to wait less for its answer.
    assert request.extensions["timeout"]["read"] == 30.0


def test_bytes_that_move_for_long_are_noticed_as_they_leave(
    httpx_mock: HTTPXMock, retry: RetryPolicy, fake_time: FakeTime, tmp_path: Path
) -> None:
    client = Client.from_url_and_key(URL, KEY, retry=retry)
    httpx_mock.add_exception(httpx.WriteError("broke"))
    httpx_mock.add_response(json={"Key": "media/a.bin"})
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(3 * 1024 * 1024))

    def slow(_sent_bytes: int, _total_bytes: int) -> None:
        fake_time.now += 60

    started = fake_time.now
    client.storage.upload("media", "a.bin", file, on_progress=slow)

    assert len(httpx_mock.get_requests()) == 2
    assert fake_time.now - started > 2 * LIMIT_SECONDS
