"""Answers of SkyPilot that are kept for a while."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from openmanus_rl.jobs.backends.skypilot_answers import Answers


def test_an_answer_is_asked_for_once_until_it_is_forgotten() -> None:
    answers, asked = Answers(), iter(range(10))

    assert [answers.keep("a", 60, lambda: next(asked)) for _ in range(3)] == [0, 0, 0]
    assert answers.keep("b", 60, lambda: next(asked)) == 1
    answers.forget("a", "c")
    assert answers.keep("a", 60, lambda: next(asked)) == 2
    assert answers.keep("b", 60, lambda: next(asked)) == 1


def test_a_question_that_failed_is_asked_again() -> None:
    answers = Answers()
    for _ in range(2):
        try:
            answers.keep("a", 60, lambda: 1 // 0)
        except ZeroDivisionError:
            continue
    assert answers.keep("a", 60, lambda: 3) == 3


def test_an_answer_that_was_on_its_way_when_it_was_forgotten_is_not_kept() -> None:
    """Otherwise a list of jobs from before a launch tells that the job is gone."""
    answers, is_asked, may_answer = Answers(), threading.Event(), threading.Event()

    def slow() -> str:
        is_asked.set()
        assert may_answer.wait(30)
        return "old"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(answers.keep, "a", 60.0, slow)
        assert is_asked.wait(30)
        answers.forget("a")
        second = pool.submit(answers.keep, "a", 60.0, lambda: "new")
        may_answer.set()

        assert first.result(30) == "old"
        assert second.result(30) == "new"
    assert answers.keep("a", 60, lambda: "newest") == "new"
