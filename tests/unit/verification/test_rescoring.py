"""Scoring again says what would change, and claims nothing about what it cannot repeat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openmanus_rl.verification import ValidatorSpec
from openmanus_rl.verification.rescoring import PastRollout, PastVerdict, Rescored, rescore, summarize

STRICT = ValidatorSpec("exact", {"expected": "Paris"}, id="v1", version=1)
LENIENT = ValidatorSpec("exact", {"expected": "Paris", "ignore_case": True}, id="v1", version=2)
SCRIPT = ValidatorSpec("script", {}, name="tests", id="v2")


def past(answer: Any, outcome: Any, *, status: str = "failed", **more: Any) -> PastRollout:
    verdicts = [] if outcome is None else [PastVerdict("v1", "default", outcome, float(outcome == "pass"), 1)]
    return PastRollout(
        id=str(answer), status=status, answer=answer, **{"validators": [LENIENT], "verdicts": verdicts} | more
    )


def only(rollout: PastRollout) -> Rescored:
    ((found,),) = rescore([rollout])
    return found


def test_a_new_version_changes_what_it_decides_otherwise() -> None:
    found = only(past("paris", "fail"))

    assert found.change == "changed"
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.validator.version) == ("pass", 2)
    assert (found.status_before, found.status_after) == ("failed", "success")


def test_what_is_decided_as_before_is_unchanged() -> None:
    found = only(past("Rome", "fail"))

    assert (found.change, found.status_after) == ("unchanged", "failed")


def test_another_score_is_a_change_of_its_own() -> None:
    verdicts = [PastVerdict("v1", "default", "fail", 0.5, 1)]

    assert only(past("Rome", None, verdicts=verdicts)).change == "changed"


def test_a_validator_that_is_new_gives_a_verdict_where_there_was_none() -> None:
    found = only(past("paris", None, status="completed"))

    assert (found.change, found.before, found.status_after) == ("new", None, "success")


def test_what_needs_the_environment_stays_as_it_is_recorded() -> None:
    recorded = [PastVerdict("v1", "default", "fail", 0.0), PastVerdict("v2", "tests", "pass", 1.0)]
    rollout = past("paris", None, validators=[LENIENT, SCRIPT], verdicts=recorded)

    ((first, second),) = rescore([rollout])

    assert (first.change, second.change) == ("changed", "kept")
    assert "environment" in (second.reason or "")
    assert first.status_after == "success"


def test_without_a_verdict_of_each_validator_the_status_stays() -> None:
    ((first, second),) = rescore([past("paris", "fail", validators=[LENIENT, SCRIPT])])

    assert (first.change, second.change) == ("changed", "kept")
    assert first.status_after == "failed"


def test_rollouts_that_were_never_verified_are_not_scored() -> None:
    for status in ("error", "cancelled", "timeout", "running"):
        found = only(past(None, None, status=status))
        assert (found.change, found.status_after) == ("kept", status)
        assert status in (found.reason or "")


def test_a_validators_own_error_can_be_repaired() -> None:
    found = only(past("paris", "error", status="error"))

    assert (found.change, found.status_after) == ("changed", "success")


def test_a_truncated_rollout_stays_truncated_unless_it_passes() -> None:
    assert only(past("Rome", "pass", status="truncated")).status_after == "truncated"
    assert only(past("paris", "fail", status="truncated")).status_after == "success"


def test_an_expected_answer_alone_is_scored_by_the_default_validator() -> None:
    recorded = [PastVerdict(None, "default", "fail", 0.0)]
    found = only(past("[2, 1]", None, validators=[], verdicts=recorded, expected_answer="[2,1]"))

    assert found.change == "changed"
    assert list(rescore([past("x", None, status="completed", validators=[])])) == [[]]


def test_a_validator_that_is_wrong_is_an_error_of_its_own() -> None:
    wrong: Any = ValidatorSpec("python", ["no object"], id="v1")  # type: ignore[arg-type]

    for validator in (wrong, ValidatorSpec("magic", id="v1")):
        found = only(past("paris", "fail", validators=[validator]))
        assert (found.change, found.status_after) == ("changed", "error")


def test_validators_are_chosen_by_id_or_name() -> None:
    other = ValidatorSpec("exact", {"expected": "x"}, name="second", id="v3")
    rollout = past("paris", "fail", validators=[LENIENT, other])

    for choice in (["v3"], ["second"]):
        ((found,),) = rescore([rollout], only=choice)
        assert found.validator is other
    assert list(rescore([rollout], only=["none"])) == [[]]


def test_the_report_counts_what_would_change_without_keeping_it_all() -> None:
    def rollouts() -> Iterator[PastRollout]:
        for number in range(3000):
            yield past("paris" if number % 3 else "Rome", "fail")
        yield past("Rome", "pass", status="success")
        yield past(None, None, status="cancelled")

    report = summarize(rescore(rollouts()))

    assert report.rollouts == 3002
    assert report.changes == {("fail", "pass"): 2000, ("pass", "fail"): 1}
    assert report.statuses == {("failed", "success"): 2000, ("success", "failed"): 1}
    assert report.unchanged == 1000
    assert sum(report.kept.values()) == 1
    assert len(report.examples) == 1000
    assert {"from": "fail", "to": "pass", "count": 2000} in report.as_dict()["changes"]


def test_the_same_version_changes_nothing() -> None:
    first = [only(past(answer, None, status="completed", validators=[STRICT])) for answer in ("Paris", "paris", None)]
    again = []
    for found in first:
        assert found.verdict is not None
        recorded = PastVerdict("v1", "default", found.verdict.outcome, found.verdict.score, 1)
        again.append(only(past(found.rollout_id, None, validators=[STRICT], verdicts=[recorded])))

    assert {found.change for found in again} == {"unchanged"}
