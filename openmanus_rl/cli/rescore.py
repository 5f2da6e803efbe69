"""`rescore`: run validators again over past rollouts, and show what changes before it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import track

from openmanus_rl.cli.console import messages, output, print_json
from openmanus_rl.cli.options import EnvironmentOption, JsonOption
from openmanus_rl.cli.references import find_rollout
from openmanus_rl.cli.rendering import new_table, print_table, shortened, status_text
from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.batches import write_batch
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.managers.tasks import TaskManager, ValidatorManager
from openmanus_rl.managers.validations import ValidationManager
from openmanus_rl.records.ids import new_id, validation_id
from openmanus_rl.records.rows import Rollout, Task
from openmanus_rl.verification.base import ValidatorSpec
from openmanus_rl.verification.rescoring import (
    PastRollout,
    PastVerdict,
    Rescored,
    RescoreReport,
    rescore,
    summarize,
)

__all__ = ["rescore_command"]

_PAGE = 200
# Past rollouts that have an answer, or had a validator that failed.
_STATUSES = ("success", "failed", "completed", "truncated", "error")


def rescore_command(
    validator: Annotated[
        list[str], typer.Option("--validator", help="The validators to run: names such as `default`, or ids.")
    ],
    task: Annotated[list[str] | None, typer.Option("--task", help="Only rollouts of these tasks: their ids.")] = None,
    rollout: Annotated[list[str] | None, typer.Option("--rollout", help="Only these rollouts.")] = None,
    environment: EnvironmentOption = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write the new verdicts and statuses.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the current version of validators over past rollouts.

    Without --apply, nothing is written: the changes are only shown. Validators that need the environment, such as
    scripts and SQL, cannot run again; their verdicts stay.

    \b
    openmanus-rl rescore --validator default --environment shop
    openmanus-rl rescore --validator default --task order-1003 --apply
    """
    tasks = _find_tasks(task or [], environment) if not rollout else None
    rollouts = [find_rollout(one) for one in rollout] if rollout else _rollouts_of(tasks or [])
    past = [(row, _past(row)) for row in track(list(rollouts), "Reading", console=messages, transient=True)]
    scored = list(rescore((one for _, one in past), only=validator))
    report = summarize(scored)
    if apply:
        _apply([row for row, _ in past], scored)
    if as_json:
        print_json(
            {**report.as_dict(), "applied": apply, "rescored": [_as_dict(each) for one in scored for each in one]}
        )
        return
    _show(report, applied=apply)


def _find_tasks(references: list[str], environment: str | None) -> list[Task]:
    if references:
        return [_find_task(reference, environment) for reference in references]
    if environment is None:
        raise InvalidInput("say which rollouts to score again: --task, --environment or --rollout", field="task")
    return list(_all_pages(lambda offset: TaskManager.list_tasks(environment=environment, limit=_PAGE, offset=offset)))


def _find_task(reference: str, environment: str | None) -> Task:
    try:
        return TaskManager.get_task(reference)
    except InvalidInput:
        return TaskManager.get_by_external_id(reference, environment=environment)


def _rollouts_of(tasks: Iterable[Task]) -> Iterator[Rollout]:
    for task in tasks:
        yield from _all_pages(
            lambda offset, task=task: RolloutManager.list_rollouts(
                task_id=task["id"], status=_STATUSES, limit=_PAGE, offset=offset
            )
        )


def _all_pages(read: Any) -> Iterator[Any]:
    offset = 0
    while rows := read(offset).rows:
        yield from rows
        offset += len(rows)


def _past(row: Rollout) -> PastRollout:
    """Return a rollout with its task's validators as they are now, and the verdicts that are recorded."""
    task = TaskManager.get_task(row["task_id"]) if row["task_id"] else None
    validators = ValidatorManager.list_validators(task=task["id"], limit=_PAGE).rows if task else []
    verdicts = ValidationManager.list_validations(rollout_id=row["id"], limit=_PAGE).rows
    return PastRollout(
        id=row["id"],
        status=row["status"],
        answer=_answer_of(row),
        validators=[ValidatorSpec.from_row(one) for one in validators],
        verdicts=[PastVerdict.from_row(one) for one in verdicts],
        expected_answer=task["expected_answer"] if task else None,
        metadata=task["metadata"] if task else {},
    )


def _answer_of(row: Rollout) -> Any:
    """Return the whole answer: a large one is a file."""
    result = row["result"]
    if isinstance(result, dict) and result.keys() == {"shortened", "size_bytes", "path"} and result["path"]:
        return StorageManager.download_bytes("media", result["path"]).decode("utf-8", "replace")
    return result


def _apply(rows: list[Rollout], scored: list[list[Rescored]]) -> None:
    for row, of_rollout in track(list(zip(rows, scored, strict=True)), "Writing", console=messages, transient=True):
        changed = [each for each in of_rollout if each.change in ("changed", "new")]
        batch: dict[str, list[dict[str, Any]]] = {"validations": [_record(row["id"], each) for each in changed]}
        if of_rollout and of_rollout[0].status_after != row["status"]:
            message = f"scored again by {', '.join(sorted({each.validator.name for each in of_rollout}))}"
            change = {"status": of_rollout[0].status_after, "status_message": message, "status_change_id": new_id()}
            batch["rollouts"] = [{"id": row["id"], **change}]
        if any(batch.values()):
            write_batch({kind: records for kind, records in batch.items() if records}, all_or_nothing=True)


def _record(rollout_id: str, each: Rescored) -> dict[str, Any]:
    verdict = each.verdict
    assert verdict is not None, "only verdicts that were made again are applied"
    return {
        "id": validation_id(rollout_id, each.validator.id, each.validator.name),
        "rollout_id": rollout_id,
        "validator_id": each.validator.id,
        "validator_name": each.validator.name,
        "validator_version": each.validator.version,
        "verdict": verdict.outcome,
        "score": verdict.score,
        "expected": verdict.expected,
        "actual": verdict.actual,
        "message": verdict.message,
        "details": dict(verdict.details) if verdict.details is not None else None,
    }


def _as_dict(each: Rescored) -> dict[str, Any]:
    return {
        "rollout_id": each.rollout_id,
        "validator": each.validator.name,
        "change": each.change,
        "before": each.before.outcome if each.before else None,
        "after": each.verdict.outcome if each.verdict else None,
        "reason": each.reason,
        "status_before": each.status_before,
        "status_after": each.status_after,
    }


def _show(report: RescoreReport, *, applied: bool) -> None:
    changed = sum(report.changes.values())
    output.print(f"{report.rollouts} rollouts: {changed} verdicts {'changed' if applied else 'would change'}, "
                 f"{report.unchanged} stay, {sum(report.kept.values())} cannot be made again")  # fmt: skip
    for reason, count in report.kept.items():
        output.print(f"  [dim]{count}: {escape(reason)}[/]")
    if report.statuses:
        table = new_table("status before", "after", "rollouts", right=("rollouts",))
        for (before, after), count in report.statuses.items():
            table.add_row(status_text(before), status_text(after), str(count))
        print_table(table)
    if report.examples:
        table = new_table("rollout", "validator", "before", "after", "why")
        for each in report.examples:
            verdict = each.verdict
            assert verdict is not None
            before = each.before.outcome if each.before else "–"
            why = escape(shortened(verdict.message, 60))
            table.add_row(each.rollout_id, escape(each.validator.name), before, verdict.outcome, why)
        print_table(table)
    if changed and not applied:
        output.print("[dim]Nothing was written; --apply writes it[/]")
