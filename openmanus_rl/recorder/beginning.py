"""Decides where a run starts or resumes.

Two places know how far a run has come: the database, and this machine (`spool.run_state`). The database is asked first,
within a time limit; if it does not answer, or does not have the run yet, this machine's state is used. `job` names the
launch, so that all of its processes get one answer. Environment variables (`membership`) only hand the answer on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from openmanus_rl.connections import open_client
from openmanus_rl.errors import (
    BadResponse,
    ConflictError,
    NotFoundError,
    OpenManusError,
    StackError,
    TimeoutExceeded,
    TransientError,
)
from openmanus_rl.local.embedded import has_database
from openmanus_rl.recorder.asking import within
from openmanus_rl.settings import Settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.run_state import RunState, local_state, rewind_locally
from openmanus_rl.transport.filters import Filter

if TYPE_CHECKING:
    from openmanus_rl.transport.client import Client

__all__ = ["Beginning", "Resume", "RewindTo", "StartRequest", "begin"]

_logger = logging.getLogger(__name__)

Resume = Literal["allow", "must", "never"]
RewindTo = int | Literal["last"]


@dataclass(frozen=True)
class StartRequest:
    """Which run to start or resume, and how."""

    run_id: str
    """Derived from the run's name or its job, so that every process has the same id without asking."""
    run_name: str | None
    launch_id: str
    """The same in all processes of one launch: a rewind by several of them is done once."""
    resume: Resume = "allow"
    rewind_to: RewindTo | None = None
    is_shared: bool = False
    """Whether other processes of the launch start the run too, and must get the same answer."""
    is_given: bool = False
    """Whether the caller gave the id: then only the database knows how far the run has come."""

    @property
    def label(self) -> str:
        """The run's name or id, for messages."""
        return self.run_name or self.run_id

    @property
    def needs_answer(self) -> bool:
        """Whether it is an error if neither the database nor this machine knows the run."""
        return self.resume != "allow" or self.rewind_to is not None


@dataclass(frozen=True)
class Beginning:
    """A run, and where to continue it."""

    run_id: str
    rewinds: tuple[int, ...] = ()
    next_step: int = 0
    next_episode: int = 0
    resumed_by: str | None = None
    """The launch id under which the run was resumed by the database, or by this machine if it knows that it ended."""
    is_new: bool = False
    """Whether the run cannot have existed before this launch."""
    row: Mapping[str, Any] | None = None
    """The run in the database, if it is there."""


def begin(settings: Settings, request: StartRequest, *, is_offline: bool = False) -> Beginning:
    """Return where to start or resume, within `ask_timeout_seconds`; without a database yet, nothing is asked."""
    root = spool_root(settings)
    has_record = not settings.is_embedded or has_database(settings.home)
    if is_offline or not has_record:
        here = local_state(root, request.run_id)
        return _by_this_machine(root, request, here, is_new=not has_record and not here.is_known)
    try:
        found = _ask_in_time(settings, root, request)
    except ConflictError:
        raise
    except OpenManusError as error:
        return _without_answer(root, request, error)
    if isinstance(found, Beginning):
        return found
    # The database does not have the run, but spools may: it may have been recorded while the database was away.
    return _by_this_machine(root, request, found, is_new=not found.is_known)


def _by_this_machine(root: Path, request: StartRequest, here: RunState, *, is_new: bool = False) -> Beginning:
    if request.resume == "must" and not here.is_known:
        raise NotFoundError(
            f"run {request.label}: there is none to resume",
            field="run_id" if request.is_given else "run_name",
            hint="check the id, and that this key may see it" if request.is_given else 'resume="allow" starts it',
        )
    if request.resume == "never" and here.is_known:
        raise _it_is_there(request)
    if request.rewind_to is not None and here.is_known:
        to_step = None if request.rewind_to == "last" else request.rewind_to
        here = rewind_locally(root, request.run_id, to_step, launch_id=request.launch_id)
    # What has failed, for one, does not complete, unless it goes on in between.
    resumed_by = request.launch_id if here.may_go_on else None
    return Beginning(
        request.run_id, here.rewinds, here.next_step, here.next_episode, resumed_by=resumed_by, is_new=is_new
    )


def _without_answer(root: Path, request: StartRequest, error: OpenManusError) -> Beginning:
    here = local_state(root, request.run_id)
    if request.needs_answer and (request.is_given or not here.is_known):
        if request.is_given or not isinstance(error, (TransientError, StackError)):
            raise error
        raise type(error)(
            f"run {request.label}: cannot tell whether it exists: the database does not answer ({error.message}), "
            "and this machine has no record of it",
            hint='try again; resume="allow" without a rewind needs no answer',
        ) from error
    begun = _by_this_machine(root, request, here)
    _logger.warning(
        "run %s: the database does not answer (%s); continuing with step %d, the next one that this machine knows of",
        request.label, error, begun.next_step,
    )  # fmt: skip
    return begun


def _ask_in_time(settings: Settings, root: Path, request: StartRequest) -> Beginning | RunState:
    limit = settings.ask_timeout_seconds
    hasty = settings.model_copy(
        update={
            "connect_timeout_seconds": min(limit, settings.connect_timeout_seconds),
            "request_timeout_seconds": min(limit, settings.request_timeout_seconds),
            # No retries if training can start without an answer.
            "retry_limit_seconds": min(limit, settings.retry_limit_seconds) if request.needs_answer else 0.0,
        }
    )
    is_late = threading.Event()
    try:
        attempt = f"run {request.label}: ask where it is"
        return within(limit, lambda: _ask(hasty, root, request, is_late), attempt=attempt)
    except TimeoutExceeded:
        is_late.set()
        raise


def _ask(settings: Settings, root: Path, request: StartRequest, is_late: threading.Event) -> Beginning | RunState:
    """Resume the run in the database; if it does not have the run, return what the spools say about it."""
    client = open_client(settings)
    try:
        found, here = _find(client, root, request)
        if is_late.is_set():
            return here
        if found is None:
            return _begin_together(client, root, request, here) if request.is_shared else here
        if request.resume == "never":
            raise _it_is_there(request)
        return _resume(client, request, here, found)
    finally:
        client.http.close()


def _find(client: Client, root: Path, request: StartRequest) -> tuple[dict[str, Any] | None, RunState]:
    """Return the run's row in the database, None if there is none, and its state in the spools before that."""
    name = request.run_name
    of_run = Filter.eq("run_name", name) if name is not None else Filter.eq("id", request.run_id)
    # Spools first: what is delivered in between moves from them to the database, so neither look misses it.
    here = local_state(root, request.run_id, undelivered_only=True)
    found = client.select_one("training_runs", filters=[of_run])
    if found is not None and str(found["id"]) != request.run_id:
        # It was created by other means than `init`, with an id that is not derived from its name.
        here = local_state(root, str(found["id"]), undelivered_only=True)
    return found, here


def _begin_together(client: Client, root: Path, request: StartRequest, here: RunState) -> Beginning:
    """Start a run that the database does not have, at the step at which the launch's first process starts it."""
    begun = _by_this_machine(root, request, here, is_new=not here.is_known)
    params = {
        "run_id": request.run_id,
        "change_id": request.launch_id,
        "known_step": begun.next_step - 1,
        "may_begin": True,
    }
    answer = client.rpc("resume_run", params)
    try:
        return replace(begun, next_step=int(answer["next_step"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadResponse(f"begin run {request.run_id}: the answer does not say where") from error


def _resume(client: Client, request: StartRequest, here: RunState, row: dict[str, Any]) -> Beginning:
    run_id = str(row["id"])
    if here.changes:
        # Delivered after the run was resumed, they would end it again. Delivered twice, they change nothing.
        client.rpc("ingest", {"batch": {"training_runs": [_dated(at, record) for at, record in here.changes]}})
    params: dict[str, Any] = {
        "run_id": run_id,
        "change_id": request.launch_id,
        "rewind_to_step": request.rewind_to if isinstance(request.rewind_to, int) else None,
        "rewind_to_last": request.rewind_to == "last",
        "known_step": here.step,
        "known_metric_step": here.metric_step,
        "known_rewinds": list(here.rewinds),
        "known_timeline": int(row["timeline"]),
    }
    answer = client.rpc("resume_run", params)
    try:
        return Beginning(
            run_id,
            tuple(int(step) for step in answer["rewinds"]),
            int(answer["next_step"]),
            next_episode=max(int(answer["next_episode"]), here.next_episode),
            resumed_by=request.launch_id,
            row=row,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadResponse(f"resume run {run_id}: the answer does not say where it is") from error


def _dated(at: float, record: Mapping[str, Any]) -> dict[str, Any]:
    is_end = record["status"] != "running"
    return {**record, **({"finished_at": datetime.fromtimestamp(at, UTC).isoformat()} if is_end else {})}


def _it_is_there(request: StartRequest) -> ConflictError:
    return ConflictError(
        f"run {request.label}: it is there already",
        field="run_name",
        hint='resume="allow" continues it; another run_name starts another run',
    )
