"""Retrying: what is tried again, how long, and what is said when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from openmanus_rl.errors import ConflictError, OpenManusError, RateLimited, ServerError
from openmanus_rl.transport.retry import RetryPolicy

if TYPE_CHECKING:
    from .conftest import FakeTime


def call_with(outcomes: Sequence[OpenManusError | str]) -> tuple[list[float], Callable[[float], str]]:
    """Return a list of the seconds given to each attempt, and the call."""
    given: list[float] = []
    remaining_outcomes = iter(outcomes)

    def call(remaining_seconds: float) -> str:
        given.append(remaining_seconds)
        outcome = next(remaining_outcomes)
        if isinstance(outcome, OpenManusError):
            raise outcome
        return outcome

    return given, call


def test_a_transient_failure_is_tried_again_until_it_passes(retry: RetryPolicy, fake_time: FakeTime) -> None:
    given, call = call_with([ServerError("one"), ServerError("two"), "done"])

    assert retry.run(call) == "done"
    assert len(given) == 3
    assert fake_time.slept == [0.1, 0.2]


def test_the_delay_doubles_up_to_its_ceiling_and_is_jittered_in_full(fake_time: FakeTime) -> None:
    draws = iter([1.0] * 5 + [0.0])
    retry = RetryPolicy(
        first_delay_seconds=1, max_delay_seconds=4, clock=fake_time.clock, sleep=fake_time.sleep,
        random=lambda: next(draws),
    )  # fmt: skip
    _, call = call_with([*[ServerError("no")] * 6, "done"])

    retry.run(call)

    assert fake_time.slept == [1, 2, 4, 4, 4, 0]


def test_what_is_not_transient_is_raised_at_once(retry: RetryPolicy, fake_time: FakeTime) -> None:
    _, call = call_with([ConflictError("there already")])

    with pytest.raises(ConflictError):
        retry.run(call)
    assert fake_time.slept == []


def test_a_call_declared_not_retryable_is_made_once(retry: RetryPolicy) -> None:
    given, call = call_with([ServerError("no"), "done"])

    with pytest.raises(ServerError):
        retry.run(call, retryable=False)
    assert len(given) == 1


def test_the_servers_own_delay_is_honoured(retry: RetryPolicy, fake_time: FakeTime) -> None:
    _, call = call_with([RateLimited("slow down", retry_after_seconds=7), "done"])

    assert retry.run(call) == "done"
    assert fake_time.slept == [7]


def test_a_delay_beyond_the_limit_ends_retrying_without_waiting(retry: RetryPolicy, fake_time: FakeTime) -> None:
    _, call = call_with([RateLimited("slow down", retry_after_seconds=3600)])

    with pytest.raises(RateLimited):
        retry.run(call)
    assert fake_time.slept == []


def test_the_time_limit_ends_retrying_and_the_error_says_so(retry: RetryPolicy, fake_time: FakeTime) -> None:
    given, call = call_with([ServerError("select from rollouts: no")] * 100)

    with pytest.raises(ServerError, match=r"gave up after \d+ attempts in \d+\.\d s") as caught:
        retry.run(call)
    assert caught.value.attempts == len(given) > 5
    assert fake_time.now - 100 < 30
    assert given == sorted(given, reverse=True)
    assert min(given) > 0


def test_whoever_waits_long_is_told_why_once(retry: RetryPolicy, caplog: pytest.LogCaptureFixture) -> None:
    _, call = call_with([ServerError("select from rollouts: no")] * 100)

    with pytest.raises(ServerError):
        retry.run(call)

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "select from rollouts: no; trying again for up to" in caplog.text


def test_a_short_wait_is_not_worth_a_word(retry: RetryPolicy, caplog: pytest.LogCaptureFixture) -> None:
    _, call = call_with([ServerError("no"), ServerError("no"), "done"])

    retry.run(call)

    assert caplog.records == []


def test_without_retries_the_one_attempt_has_its_full_time() -> None:
    given, call = call_with([ServerError("no")])

    with pytest.raises(ServerError):
        RetryPolicy(limit_seconds=0).run(call)

    assert given == [float("inf")]
