"""The status and the reward that verdicts give a rollout."""

from __future__ import annotations

import pytest

from openmanus_rl.agents.base import LimitReached
from openmanus_rl.verification.base import Outcome, ValidatorSpec, Verdict
from openmanus_rl.workers.attempt import judge, mean_score

SECONDS, STEPS = LimitReached("seconds", 5), LimitReached("steps", 5)


def verdicts(*outcomes: Outcome) -> list[Verdict]:
    return [Verdict(ValidatorSpec("exact"), outcome) for outcome in outcomes]


@pytest.mark.parametrize(
    ("outcomes", "limit", "status"),
    [
        ((), None, "completed"),
        (("pass",), None, "success"),
        (("pass", "fail"), None, "failed"),
        (("pass", "error"), None, "error"),
        # A limit that was reached does not take away what was achieved, and nothing else follows from it.
        (("pass",), SECONDS, "success"),
        (("fail",), SECONDS, "timeout"),
        (("fail",), STEPS, "truncated"),
        ((), SECONDS, "timeout"),
        (("error",), STEPS, "truncated"),
    ],
)
def test_the_status(outcomes: tuple[Outcome, ...], limit: LimitReached | None, status: str) -> None:
    assert judge(verdicts(*outcomes), limit)[0] == status


def test_a_reward_is_known_only_if_every_validator_gave_a_verdict() -> None:
    assert mean_score([]) is None
    assert mean_score(verdicts("pass", "error")) is None
    assert mean_score(verdicts("pass", "fail")) == 0.5
    assert mean_score([Verdict(ValidatorSpec("script"), "fail", score=0.25)]) == 0.25
