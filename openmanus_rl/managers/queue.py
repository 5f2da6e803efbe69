"""The queue: rollouts that are asked for, and the workers that claim them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack
from uuid import UUID

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, known, matching
from openmanus_rl.records.ids import Id, as_id, as_optional_id, new_id
from openmanus_rl.records.rows import Evaluation, Rollout, Worker
from openmanus_rl.transport.filters import Page

__all__ = [
    "Claims",
    "Deletion",
    "QueueManager",
    "QueueOverview",
    "Renewal",
    "RequestOptions",
    "RequestedEvaluation",
    "RequestedRollouts",
]


class RequestOptions(TypedDict, total=False):
    """Arguments that requests for rollouts and for evaluations have in common."""

    attempts: int
    """Rollouts per task: 1 by default, at most 1,000."""
    agent: str | None
    """`noop`, `oracle`, `scripted`, `chat`, `browser` or `module:attribute`; by default the task's, or `chat`."""
    model: str | None
    environment: str | None
    """By default the task's own."""
    priority: int
    """From -1000 to 1000; the higher is claimed first."""
    seed: int | None
    """The seed of the first attempt; the next attempts count up from it."""
    limits: Mapping[str, float] | None
    """`max_steps`, `max_seconds`, `max_tokens`, `max_cost_usd`."""
    agent_options: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    max_attempts: int
    """How often a rollout is begun again when its worker is lost: 3 by default."""
    training_run_id: Id | None


@dataclass(frozen=True)
class RequestedRollouts:
    """The rollouts that answer a request; `reused` has the ids of those that had ended before."""

    rollouts: list[Rollout]
    reused: list[str]


@dataclass(frozen=True)
class RequestedEvaluation:
    """An evaluation that was asked for, and its rollouts."""

    evaluation: Evaluation
    rollouts: list[Rollout]


@dataclass(frozen=True)
class Deletion:
    """Ids of rollouts that are deleted, and of those that will be once their worker has stopped them."""

    deleted: list[str]
    stopping: list[str]


@dataclass(frozen=True)
class Claims:
    """What a worker was given: `{rollout, lease_id, task, environment}` each. `state` is the worker's own."""

    state: str
    claims: list[dict[str, Any]]


@dataclass(frozen=True)
class Renewal:
    """The leases that a worker still holds, each with whether its rollout was cancelled."""

    state: str
    held: dict[str, bool]


class QueueOverview(TypedDict):
    """How many rollouts wait, the next ones, those that workers hold, and the workers."""

    waiting: int
    held_count: int
    oldest_waiting_at: str | None
    next: list[Mapping[str, Any]]
    held: list[Mapping[str, Any]]
    workers: list[Mapping[str, Any]]


class QueueManager(Manager[Worker]):
    """Asks for rollouts and evaluations, cancels and retries them, and serves workers."""

    table = "workers"
    noun = "worker"
    order_by = "-heartbeat_at"

    # Asking for rollouts

    @classmethod
    def request_rollouts(
        cls,
        task: Id | Sequence[Id],
        *,
        reuse: bool = False,
        request_id: Id | None = None,
        **options: Unpack[RequestOptions],
    ) -> RequestedRollouts:
        """Put rollouts of one task or of several into the queue, and return them.

        A task is named by its id or `external_id`. With `reuse`, equal rollouts that have ended are returned instead of
        new ones. The same `request_id` again changes nothing.
        """
        request = {**_task_references(task), **_sendable(options), **({"reuse": True} if reuse else {})}
        answer = cls._ask("request_rollouts", request, request_id)
        return RequestedRollouts(rollouts=answer["rollouts"], reused=answer["reused"])

    @classmethod
    def request_evaluation(
        cls,
        *,
        checkpoint_id: Id | None = None,
        task: Id | Sequence[Id] | None = None,
        split: str | None = None,
        name: str | None = None,
        kind: str | None = None,
        step: int | None = None,
        request_id: Id | None = None,
        **options: Unpack[RequestOptions],
    ) -> RequestedEvaluation:
        """Put an evaluation of a checkpoint or a model into the queue, and return it with its rollouts.

        Without `task`, all tasks of the environment (and of the split) are evaluated. The same `request_id` again
        changes nothing.
        """
        request = {
            **({} if task is None else _task_references(task)),
            **known(checkpoint_id=as_optional_id(checkpoint_id, field="checkpoint_id")),
            **known(split=split, name=name, kind=kind, step=step),
            **_sendable(options),
        }
        answer = cls._ask("request_evaluation", request, request_id)
        return RequestedEvaluation(evaluation=answer["evaluation"], rollouts=answer["rollouts"])

    @classmethod
    def cancel_rollouts(cls, rollouts: Iterable[Id]) -> list[Rollout]:
        """Cancel rollouts of the queue and return them; a worker stops those that run within seconds."""
        rows: list[Rollout] = cls._change_rollouts("cancel_rollouts", rollouts)
        return rows

    @classmethod
    def retry_rollouts(cls, rollouts: Iterable[Id]) -> list[Rollout]:
        """Put rollouts that ended without a result back into the queue, and return them."""
        rows: list[Rollout] = cls._change_rollouts("retry_rollouts", rollouts)
        return rows

    @classmethod
    def delete_rollouts(cls, rollouts: Iterable[Id]) -> Deletion:
        """Delete rollouts with their turns; those that run are stopped first, and deleted by then."""
        answer = cls._change_rollouts("delete_rollouts", rollouts)
        return Deletion(deleted=answer["deleted"], stopping=answer["stopping"])

    @classmethod
    def queue_overview(cls, *, listed: int = 100) -> QueueOverview:
        """Return what waits, what workers hold, and the workers, `listed` of each at most."""
        overview: QueueOverview = cls._client().rpc("queue_overview", {"listed": listed})
        return overview

    # Workers

    @classmethod
    def get_worker(cls, worker: Id) -> Worker:
        """Return a worker; an unknown id raises `NotFoundError`."""
        return cls._get(worker, field="worker_id")

    @classmethod
    def list_workers(cls, *, state: OneOrMany | None = None, **paging: Unpack[Paging]) -> Page[Worker]:
        """Return a page of workers, the last seen first."""
        return cls._page(*matching(state=state), **paging)

    @classmethod
    def stop_workers(cls, workers: Iterable[Id]) -> int:
        """Ask workers to finish what they have and to end; return how many were asked."""
        return int(cls._client().rpc("stop_workers", {"worker_ids": _ids(workers, "worker_id")}))

    # For the worker itself

    @classmethod
    def register_worker(cls, **fields: Any) -> str:
        """Register a worker and return its id.

        Fields: `id`, `name`, `host`, `pid`, `version`, `max_rollouts`, `providers`, `infra`.
        """
        worker = known(**{"id": new_id(), **known(**fields)})
        return str(cls._client().rpc("register_worker", {"worker": worker})["worker_id"])

    @classmethod
    def claim(cls, worker_id: Id, *, wanted: int, lease_seconds: float, providers: Sequence[str]) -> Claims:
        """Lease waiting rollouts, in environments of these kinds, to a worker."""
        params = {
            "worker_id": as_id(worker_id, field="worker_id"),
            "wanted": wanted,
            "lease_seconds": lease_seconds,
            "providers": list(providers),
        }
        answer = cls._client().rpc("claim_rollouts", params)
        return Claims(state=answer["state"], claims=answer["claims"])

    @classmethod
    def renew(cls, worker_id: Id, lease_ids: Iterable[Id], *, lease_seconds: float) -> Renewal:
        """Renew a worker's leases, which is its heartbeat; a lease that is not in `held` was lost or has ended."""
        params = {
            "worker_id": as_id(worker_id, field="worker_id"),
            "lease_ids": _ids(lease_ids, "lease_id"),
            "lease_seconds": lease_seconds,
        }
        answer = cls._client().rpc("renew_rollouts", params)
        return Renewal(
            state=answer["state"], held={lease["lease_id"]: lease["cancelled"] for lease in answer["leases"]}
        )

    @classmethod
    def release(cls, worker_id: Id, lease_ids: Iterable[Id], *, reason: str | None = None, counts: bool = False) -> int:
        """Return rollouts to the queue, and how many were still leased; `counts` uses up an attempt."""
        params = {
            "worker_id": as_id(worker_id, field="worker_id"),
            "lease_ids": _ids(lease_ids, "lease_id"),
            "reason": reason,
            "counts": counts,
        }
        return int(cls._client().rpc("release_rollouts", params))

    @classmethod
    def retire(cls, worker_id: Id) -> int:
        """End a worker: what it still holds goes back to the queue. Return how many rollouts that were."""
        return int(cls._client().rpc("retire_worker", {"worker_id": as_id(worker_id, field="worker_id")}))

    @classmethod
    def _ask(cls, function: str, request: Mapping[str, Any], request_id: Id | None) -> Any:
        # An id even if none was given: the client repeats a request whose answer was lost.
        made_id = new_id() if request_id is None else as_id(request_id, field="request_id")
        return cls._client().rpc(function, {"request": request, "request_id": made_id})

    @classmethod
    def _change_rollouts(cls, function: str, rollouts: Iterable[Id]) -> Any:
        return cls._client().rpc(function, {"rollout_ids": _ids(rollouts, "rollout_id")})


def _task_references(task: Id | Sequence[Id]) -> dict[str, Any]:
    return {"task_id": str(task)} if isinstance(task, (str, UUID)) else {"task_ids": [str(one) for one in task]}


def _sendable(options: RequestOptions) -> dict[str, Any]:
    run_id = as_optional_id(options.get("training_run_id"), field="training_run_id")
    return known(**{**options, "training_run_id": run_id})


def _ids(given: Iterable[Id], field: str) -> list[str]:
    return [as_id(one, field=field) for one in given]
