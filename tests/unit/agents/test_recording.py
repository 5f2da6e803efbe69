"""A limited recorder records until a limit is reached, and no agent gets past it."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from openmanus_rl.agents.base import AgentError, LimitReached, Limits
from openmanus_rl.agents.recording import LimitedRecorder

from ...support.agents import Remembered

NO_LIMITS = Limits(max_steps=None, max_seconds=None)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limited(**limits: Any) -> tuple[LimitedRecorder, Remembered, Clock]:
    rollout, clock = Remembered(), Clock()
    given: dict[str, Any] = {"max_steps": None, "max_seconds": None, **limits}
    return LimitedRecorder(rollout, Limits(**given), clock), rollout, clock


def test_as_many_turns_as_allowed_are_recorded_and_not_one_more() -> None:
    recorder, rollout, _ = limited(max_steps=2)
    recorder.log_turn(action="one")
    recorder.check_limits()
    recorder.log_turn(action="two")

    with pytest.raises(LimitReached) as reached:
        recorder.check_limits()
    assert reached.value.kind == "steps"
    for _ in range(3):
        with pytest.raises(LimitReached):
            recorder.log_turn(action="three")
    assert [turn["action"] for turn in rollout.turns] == ["one", "two"]


def test_threads_together_record_no_more_than_the_limit() -> None:
    recorder, rollout, _ = limited(max_steps=50)

    def flood() -> None:
        while True:
            try:
                recorder.log_turn(action="x")
            except LimitReached:
                return

    threads = [threading.Thread(target=flood) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rollout.turns) == 50


def test_an_agent_that_swallows_the_limit_is_stopped_again_by_its_next_call() -> None:
    recorder, rollout, clock = limited(max_seconds=10)
    clock.now += 11

    for _ in range(3):
        with pytest.raises(LimitReached) as reached:
            recorder.check_limits()
        assert reached.value.kind == "seconds"
    with pytest.raises(LimitReached):
        recorder.add_usage(input_tokens=1)
    with pytest.raises(LimitReached):
        recorder.log_turn(action="late")
    # What was done is recorded, and the video can still be kept.
    assert [turn["action"] for turn in rollout.turns] == ["late"]
    assert recorder.log_media(b"video", kind="video") == "path"
    assert recorder.remaining_seconds == 0


def test_the_remaining_time_counts_down() -> None:
    recorder, _, clock = limited(max_seconds=10)
    clock.now += 4
    assert recorder.remaining_seconds == pytest.approx(6)
    assert LimitedRecorder(Remembered(), NO_LIMITS).remaining_seconds is None


def test_tokens_up_to_the_limit_are_allowed_and_then_nothing_more_begins() -> None:
    recorder, _, _ = limited(max_tokens=100)
    recorder.add_usage(input_tokens=60, output_tokens=40)

    with pytest.raises(LimitReached) as reached:
        recorder.check_limits()
    assert reached.value.kind == "tokens"
    with pytest.raises(LimitReached):
        recorder.add_usage(output_tokens=1)
    assert recorder.usage.tokens == 101


def test_costs_add_up_to_the_limit() -> None:
    recorder, _, _ = limited(max_cost_usd=1.0)
    recorder.add_usage(cost_usd=0.6)
    with pytest.raises(LimitReached) as reached:
        recorder.add_usage(cost_usd=0.6)
    assert reached.value.kind == "cost"
    assert recorder.usage.cost_usd == pytest.approx(1.2)


def test_an_unknown_cost_is_none_never_zero() -> None:
    recorder, _, _ = limited()
    assert recorder.usage.cost_usd is None
    recorder.add_usage(input_tokens=5, cost_usd=0.5)
    assert recorder.usage.cost_usd == 0.5
    recorder.add_usage(input_tokens=5)
    recorder.add_usage(input_tokens=5, cost_usd=0.5)
    assert recorder.usage.cost_usd is None
    assert recorder.usage.input_tokens == 15


@pytest.mark.parametrize("cost", [None, math.nan, math.inf, -1.0])
def test_a_limit_of_the_cost_is_not_passed_by_costs_that_are_no_numbers(cost: float | None) -> None:
    recorder, _, _ = limited(max_cost_usd=1.0)
    with pytest.raises(AgentError, match="unknown"):
        recorder.add_usage(cost_usd=cost)


def test_negative_tokens_do_not_win_tokens_back() -> None:
    recorder, _, _ = limited(max_tokens=100)
    recorder.add_usage(input_tokens=90)
    recorder.add_usage(input_tokens=-80)
    assert recorder.usage.tokens == 90
