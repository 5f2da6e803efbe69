"""Tasks, and the validators that check their outcome."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from openmanus_rl.errors import ConflictError, InvalidInput
from openmanus_rl.managers.base import EditableManager, OneOrMany, Paging, containing, known, matching, of_ids
from openmanus_rl.managers.batches import BatchResult, write_many
from openmanus_rl.records.columns import with_numbers
from openmanus_rl.records.ids import Id, as_id, new_id, task_id, validator_id
from openmanus_rl.records.rows import Task, Validator
from openmanus_rl.transport.filters import Filter, Page
from openmanus_rl.transport.rest import Row

__all__ = ["TaskManager", "TaskResult", "TaskSummary", "ValidatorManager"]


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class TaskResult(TypedDict):
    """How the rollouts of a task went with one agent and model."""

    agent: str | None
    model: str | None
    rollouts: int
    completed: int
    verified: int
    solved: int
    success_rate: float | None
    mean_reward: float | None
    mean_turns: float | None
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    last_at: str
    pass_at: Mapping[str, float] | None


class TaskSummary(TypedDict):
    """A task in a list, with how its newest rollouts went; long texts are cut."""

    id: str
    external_id: str | None
    environment: str | None
    name: str | None
    description: str
    expected_answer: str | None
    split: str | None
    created_at: str
    updated_at: str
    validators: int
    rollouts: int
    solved: int
    completed: int
    success_rate: float | None
    mean_reward: float | None
    last_rollout_at: str | None


class TaskManager(EditableManager[Task]):
    """Imports, saves and finds tasks."""

    table = "tasks"
    noun = "task"

    @classmethod
    def save_task(
        cls,
        description: str,
        *,
        environment: str | None = None,
        external_id: str | None = None,
        name: str | None = None,
        expected_answer: str | None = None,
        solution: Mapping[str, Any] | None = None,
        split: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Task:
        """Create a task, or update the one with the same environment and `external_id`, and return it."""
        made_id = None if external_id is None else task_id(environment, external_id)
        return cls._create(
            made_id,
            description=description,
            environment=environment,
            external_id=external_id,
            name=name,
            expected_answer=expected_answer,
            solution=solution,
            split=split,
            metadata=metadata,
        )

    @classmethod
    def import_tasks(cls, tasks: Iterable[Mapping[str, Any]], *, environment: str | None = None) -> BatchResult:
        """Import tasks with their validators; those with a known `external_id` are updated.

        A task may have `validators`, a list of {kind, spec, external_id}: others that it had are retired, which means
        that they keep their verdicts and are no longer run. Invalid records are refused, with the reason, and the
        others are written.
        """
        task_records: list[Row] = []
        validator_records: list[Row] = []
        with_validators: list[str] = []
        for number, task in enumerate(tasks):
            task_record, validators = _records_of(number, task, environment)
            task_records.append(task_record)
            validator_records += validators
            if "validators" in task:
                with_validators.append(task_record["id"])
        client = cls._client()
        of_tasks = write_many(cls.table, task_records, client=client)
        of_validators = write_many(ValidatorManager.table, validator_records, client=client)
        if with_validators:
            kept = [validator["id"] for validator in validator_records]
            client.rpc("keep_validators", {"task_ids": with_validators, "validator_ids": kept})
        return BatchResult(
            received=of_tasks.received + of_validators.received, refused=of_tasks.refused + of_validators.refused
        )

    @classmethod
    def get_task(cls, task: Id) -> Task:
        """Return a task; an unknown id raises `NotFoundError`."""
        return cls._get(task, field="task_id")

    @classmethod
    def get_by_external_id(cls, external_id: str, *, environment: str | None = None) -> Task:
        """Return an imported task; an unknown one raises `NotFoundError`."""
        of_task = Filter.eq("external_id", external_id), Filter.eq("environment", environment)
        return cls._require(*of_task, what=repr(external_id), field="external_id")

    @classmethod
    def list_tasks(
        cls,
        *,
        environment: OneOrMany | None = None,
        split: OneOrMany | None = None,
        description_contains: str | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Task]:
        """Return a page of tasks, newest first."""
        conditions = [*matching(environment=environment, split=split), *containing(description=description_contains)]
        return cls._page(*conditions, **paging)

    @classmethod
    def find_task(cls, reference: str, *, environment: str | None = None) -> Task:
        """Return the task with this id or `external_id`; an unknown or ambiguous one raises an error."""
        known_id = cls._find(Filter.eq("id", reference)) if _UUID.fullmatch(reference) else None
        if known_id is not None:
            return known_id
        found = cls._page(Filter.eq("external_id", reference), *matching(environment=environment), limit=2)
        if not found.rows:
            raise cls._unknown(repr(reference), field="task_id")
        if len(found.rows) > 1:
            raise ConflictError(
                f"task {reference!r}: several environments have one", field="task_id", hint="give its environment or id"
            )
        return found.rows[0]

    @classmethod
    def task_results(cls, task: Id, *, sample: int = 5000) -> list[TaskResult]:
        """Return the results of a task's newest rollouts by agent and model, with pass@k."""
        params = {"task_id": as_id(task, field="task_id"), "sample": sample}
        results: list[TaskResult] = cls._client().rpc("task_results", params)
        return results

    @classmethod
    def list_with_results(
        cls, *, environment: str | None = None, split: str | None = None, search: str | None = None, limit: int = 50
    ) -> list[TaskSummary]:
        """Return the newest tasks, each with how its newest 100 rollouts went."""
        filters = known(environment=environment, split=split, search=search)
        tasks: list[TaskSummary] = cls._client().rpc("list_tasks", {"filters": filters, "page_size": limit})["tasks"]
        return tasks

    @classmethod
    def delete_task(cls, task: Id) -> None:
        """Delete a task with its validators; its rollouts stay."""
        cls._delete(task, field="task_id")


class ValidatorManager(EditableManager[Validator]):
    """Saves and finds the validators that check a task's outcome."""

    table = "validators"
    noun = "validator"
    order_by = "external_id"

    @classmethod
    def save_validator(
        cls, task: Id, *, kind: str, spec: Mapping[str, Any] | None = None, external_id: str = "default"
    ) -> Validator:
        """Create a task's validator, or update the one with the same `external_id`, and return it."""
        parent = as_id(task, field="task_id")
        saved = cls._create(
            validator_id(parent, external_id), task_id=parent, kind=kind, spec=spec, external_id=external_id
        )
        # One that an import retired is in use again.
        return saved if saved["retired_at"] is None else cls._write({"id": saved["id"], "retired_at": None})

    @classmethod
    def get_validator(cls, validator: Id) -> Validator:
        """Return a validator; an unknown id raises `NotFoundError`."""
        return cls._get(validator, field="validator_id")

    @classmethod
    def list_validators(
        cls,
        *,
        task: Id | None = None,
        kind: OneOrMany | None = None,
        include_retired: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[Validator]:
        """Return a page of validators, of one task or of all, without those that an import retired."""
        in_use = () if include_retired else (Filter.is_null("retired_at"),)
        return cls._page(*of_ids(task_id=task), *matching(kind=kind), *in_use, **paging)

    @classmethod
    def delete_validator(cls, validator: Id) -> None:
        """Delete a validator; its verdicts stay."""
        cls._delete(validator, field="validator_id")


def _records_of(number: int, task: Mapping[str, Any], environment: str | None) -> tuple[Row, list[Row]]:
    """Split a task to import into its own record and those of its validators."""
    if not isinstance(task, Mapping):
        raise InvalidInput(f"task {number}: an object is expected, not {type(task).__name__}", field=f"tasks[{number}]")
    given = {"environment": environment, **{key: task[key] for key in task if key != "validators"}}
    record = known(**with_numbers(Task, given))
    external_id = record.get("external_id")
    if external_id is not None:
        record["external_id"] = str(external_id)
        record["id"] = task_id(record.get("environment"), str(external_id))
    record.setdefault("id", new_id())
    validators = task.get("validators") or []
    if not isinstance(validators, Sequence) or not all(isinstance(item, Mapping) for item in validators):
        raise InvalidInput(f"task {number}: validators must be a list of objects", field=f"tasks[{number}].validators")
    return record, list(_validator_records(record["id"], validators))


def _validator_records(of_task: str, validators: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for position, validator in enumerate(validators):
        # Without an external_id, a validator is identified by its position; the first is the default one.
        external_id = str(validator.get("external_id") or ("default" if position == 0 else position))
        yield {
            **known(**with_numbers(Validator, validator)),
            "id": validator_id(of_task, external_id),
            "task_id": of_task,
            "external_id": external_id,
        }
