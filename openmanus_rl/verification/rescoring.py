"""Scores past rollouts again with new validators, and says what would change before anything is applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from openmanus_rl.verification.base import Outcome, ValidatorSpec, Verdict, status_of
from openmanus_rl.verification.specs import needs_sandbox
from openmanus_rl.verification.validators import default_validator, verify

__all__ = ["PastRollout", "PastVerdict", "RescoreReport", "Rescored", "rescore", "summarize"]

Change = Literal["changed", "unchanged", "new", "kept"]

# These got as far as an answer; of all others, those that were verified did.
_ANSWERED = frozenset({"success", "failed", "completed", "truncated"})
_MAX_SHOWN = 1000


@dataclass(frozen=True)
class PastVerdict:
    """A recorded verdict: what a row of `validations` says of it."""

    validator_id: str | None
    name: str
    outcome: Outcome
    score: float | None = None
    version: int | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> PastVerdict:
        """Return the verdict of a row of `validations`."""
        return cls(
            validator_id=row.get("validator_id"),
            name=row.get("validator_name") or "default",
            outcome=row["verdict"],
            score=row.get("score"),
            version=row.get("validator_version"),
        )


@dataclass(frozen=True)
class PastRollout:
    """A finished rollout, with its task's validators as they are now."""

    id: str
    status: str
    answer: Any
    validators: Sequence[ValidatorSpec] = ()
    verdicts: Sequence[PastVerdict] = ()
    expected_answer: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    task_files: Path | None = None


@dataclass(frozen=True)
class Rescored:
    """What a validator says of a rollout now, beside what is recorded."""

    rollout_id: str
    validator: ValidatorSpec
    before: PastVerdict | None
    verdict: Verdict | None
    """None if it cannot be scored again; the recorded verdict then stays."""
    reason: str | None = None
    """Why it cannot be scored again."""
    status_before: str = ""
    status_after: str = ""
    """The status that follows from all verdicts of the rollout, those that stay included."""

    @property
    def change(self) -> Change:
        """Return what applying it would do; a score that changes is a change as well."""
        if self.verdict is None:
            return "kept"
        if self.before is None:
            return "new"
        now = (self.verdict.outcome, self.verdict.score)
        return "unchanged" if now == (self.before.outcome, self.before.score) else "changed"


@dataclass
class RescoreReport:
    """What scoring again would change, for all rollouts together."""

    rollouts: int = 0
    changes: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    """How many verdicts go from which outcome to which; from None, if there was none."""
    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many rollouts would go from which status to which other."""
    unchanged: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    """How many verdicts stay since they can't be made again, by reason."""
    examples: list[Rescored] = field(default_factory=list)
    """The first verdicts that change."""

    def as_dict(self) -> dict[str, Any]:
        """Return the report in machine-readable form."""
        return {
            "rollouts": self.rollouts,
            "changes": [{"from": one, "to": other, "count": count} for (one, other), count in self.changes.items()],
            "statuses": [{"from": one, "to": other, "count": count} for (one, other), count in self.statuses.items()],
            "unchanged": self.unchanged,
            "kept": dict(self.kept),
        }


def rescore(rollouts: Iterable[PastRollout], *, only: Sequence[str] | None = None) -> Iterator[list[Rescored]]:
    """Yield, for each rollout, what its validators say now; `only` chooses validators by id or name.

    Nothing is written: to apply it, record the verdicts of those whose `change` is `changed` or `new`, and the status
    where `status_after` is another.
    """
    for rollout in rollouts:
        default = default_validator(rollout.expected_answer)
        validators = rollout.validators or ([] if default is None else [default])
        scored = [
            _rescored(rollout, validator)
            for validator in validators
            if only is None or validator.id in only or validator.name in only
        ]
        status = _status_after(rollout, validators, scored)
        yield [replace(each, status_before=rollout.status, status_after=status) for each in scored]


def summarize(rescored: Iterable[Sequence[Rescored]]) -> RescoreReport:
    """Return what would change, of what `rescore` yields."""
    report = RescoreReport()
    for of_rollout in rescored:
        report.rollouts += 1
        for each in of_rollout:
            if each.verdict is None:
                report.kept[each.reason or ""] += 1
            elif each.change == "unchanged":
                report.unchanged += 1
            else:
                report.changes[each.before.outcome if each.before else None, each.verdict.outcome] += 1
                if len(report.examples) < _MAX_SHOWN:
                    report.examples.append(each)
        if of_rollout and of_rollout[0].status_before != of_rollout[0].status_after:
            report.statuses[of_rollout[0].status_before, of_rollout[0].status_after] += 1
    return report


def _rescored(rollout: PastRollout, validator: ValidatorSpec) -> Rescored:
    before = _recorded(rollout, validator)
    reason = None
    if rollout.status not in _ANSWERED and not rollout.verdicts:
        reason = f"the rollout ended with {rollout.status}, before it was verified"
    elif needs_sandbox(validator.kind, validator.spec):
        reason = f"a {validator.kind} validator needs the environment, which is gone"
    if reason is not None:
        return Rescored(rollout.id, validator, before, None, reason)
    (verdict,) = verify(
        [validator],
        answer=rollout.answer,
        expected_answer=rollout.expected_answer,
        task_files=rollout.task_files,
        metadata=rollout.metadata,
    )
    return Rescored(rollout.id, validator, before, verdict)


def _recorded(rollout: PastRollout, validator: ValidatorSpec) -> PastVerdict | None:
    """Return a validator's recorded verdict: by its id, or by its name if it has none."""
    for verdict in rollout.verdicts:
        if verdict.validator_id == validator.id and (validator.id is not None or verdict.name == validator.name):
            return verdict
    return None


def _status_after(rollout: PastRollout, validators: Sequence[ValidatorSpec], scored: Sequence[Rescored]) -> str:
    """Return the status that follows from the new verdicts, and from the recorded ones where there is no new one."""
    now = {id(each.validator): each.verdict for each in scored}
    verdicts: list[Verdict] = []
    for validator in validators:
        verdict, before = now.get(id(validator)), _recorded(rollout, validator)
        if verdict is None and before is not None:
            verdict = Verdict(validator, before.outcome, before.score)
        if verdict is None:
            # Not verified by all of its validators, so that nothing follows from the others.
            return rollout.status
        verdicts.append(verdict)
    status = status_of(verdicts)
    # Limits that were reached stay reached, unless the answer passes.
    stays = status == "completed" or (rollout.status == "truncated" and status != "success")
    return rollout.status if stays else status
