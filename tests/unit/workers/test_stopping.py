"""Signals stop an attempt, but never its clean-up."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from openmanus_rl.workers.stopping import SIGNALS, Reason, Stopped, Stopper


@pytest.fixture
def stopper() -> Iterator[Stopper]:
    handlers = {number: signal.getsignal(number) for number in (*SIGNALS.values(), signal.SIGINT)}
    yield Stopper()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def send(reason: Reason) -> None:
    os.kill(os.getpid(), SIGNALS[reason])


def wait_after(reason: Reason) -> None:
    send(reason)
    time.sleep(10)


@pytest.mark.parametrize("reason", ["cancelled", "returned"])
def test_a_signal_stops_work_that_may_be_cut_short(stopper: Stopper, reason: Reason) -> None:
    with pytest.raises(Stopped) as stopped, stopper.interruptible():
        wait_after(reason)

    assert stopped.value.reason == reason


def test_an_agent_that_catches_every_exception_is_stopped(stopper: Stopper) -> None:
    def go_on() -> None:
        while True:
            with suppress(Exception):
                wait_after("cancelled")

    with pytest.raises(Stopped), stopper.interruptible():
        go_on()


def test_a_signal_during_the_clean_up_waits_for_the_next_work(stopper: Stopper) -> None:
    send("cancelled")
    time.sleep(0.01)

    with pytest.raises(Stopped), stopper.interruptible():
        pytest.fail("it must not begin")


def test_a_second_signal_does_not_interrupt_the_unwinding(stopper: Stopper) -> None:
    cleaned: list[str] = []

    def work() -> None:
        try:
            wait_after("cancelled")
        finally:
            send("cancelled")
            time.sleep(0.05)
            cleaned.append("all")

    with pytest.raises(Stopped), stopper.interruptible():
        work()

    assert cleaned == ["all"]


def test_a_block_times_out_and_the_next_one_does_not(stopper: Stopper) -> None:
    with pytest.raises(Stopped) as stopped, stopper.interruptible(seconds=0.05):
        time.sleep(10)
    assert stopped.value.reason == "timeout"

    with stopper.interruptible(seconds=10):
        time.sleep(0.1)


def test_the_next_attempt_begins_anew(stopper: Stopper) -> None:
    stopper.begin("one")
    send("cancelled")
    stopper.begin("two")
    # Too late, for one that has ended.
    stopper.stop("one", "cancelled")

    with stopper.interruptible():
        time.sleep(0.05)


def test_an_attempt_that_is_stopped_before_it_begins_does_not_begin(stopper: Stopper) -> None:
    stopper.begin("one")
    stopper.stop("two", "returned")
    with stopper.interruptible():
        time.sleep(0.05)

    stopper.begin("two")

    with pytest.raises(Stopped) as stopped, stopper.interruptible():
        pytest.fail("it must not begin")
    assert stopped.value.reason == "returned"


def test_another_thread_stops_what_the_main_thread_waits_for(stopper: Stopper) -> None:
    stopper.begin("one")
    timer = threading.Timer(0.1, stopper.stop, ("one", "cancelled"))

    timer.start()
    with pytest.raises(Stopped), stopper.interruptible():
        time.sleep(30)

    timer.join()
