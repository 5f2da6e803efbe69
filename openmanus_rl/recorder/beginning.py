"""Where a run begins or goes on: by the database if it answers in time, else by what this machine knows."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
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
from openmanus_rl.spool.reached import Reached, reached_here, rewind_here
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.transport.filters import Filter

if TYPE_CHECKING:
    from openmanus_rl.transport.client import Client

__all__ = ["Beginning", "Resume", "RewindTo", "Wish", "begin"]

_logger = logging.getLogger(__name__)

Resume = Literal["allow", "must", "never"]
RewindTo = int | Literal["last"]


@dataclass(frozen=True)
class Wish:
    """Which run is to be begun or gone on with, and how."""

    run_id: str
    """The id that follows from its name or its job: the same in every process, also while nobody can be asked."""
    run_name: str | None
    launch_id: str
    """What all processes of one launch say, so that what they do together is done once."""
    resume: Resume = "allow"
    rewind_to: RewindTo | None = None
    is_shared: bool = False
    """Whether other processes of the launch begin it too, and must be told the same."""

    @property
    def label(self) -> str:
        """What to call the run in messages."""
        return self.run_name or self.run_id

    @property
    def needs_answer(self) -> bool:
        """Whether a guess would not do."""
        return self.resume != "allow" or self.rewind_to is not None


@dataclass(frozen=True)
class Beginning:
    """A run, and where it is gone on with."""

    run_id: str
    rewinds: tuple[int, ...] = ()
    next_step: int = 0
    next_episode: int = 0
    resumed_by: str | None = None
    """The launch that the database knows to have gone on with it."""
    is_new: bool = False
    """Whether nobody can have begun it before this launch."""


def begin(settings: Settings, wish: Wish, *, is_offline: bool = False) -> Beginning:
    """Return where to begin or go on; within the time limit for asking, and nothing is asked where nobody can know."""
    root = spool_root(settings)
    has_record = not settings.is_embedded or has_database(settings.home)
    if is_offline or not has_record:
        here = reached_here(root, wish.run_id)
        return _by_this_machine(root, wish, here, is_new=not has_record and not here.is_known)
    try:
        found = _ask_in_time(settings, root, wish)
    except ConflictError:
        raise
    except OpenManusError as error:
        return _without_answer(root, wish, error)
    if isinstance(found, Beginning):
        return found
    # The database does not have it, but it may have begun while that was away, and still lie in a spool.
    return _by_this_machine(root, wish, found, is_new=not found.is_known)


def _by_this_machine(root: Path, wish: Wish, here: Reached, *, is_new: bool = False) -> Beginning:
    if wish.resume == "must" and not here.is_known:
        raise NotFoundError(
            f"run {wish.label}: there is none to resume", field="run_name", hint='resume="allow" begins it'
        )
    if wish.resume == "never" and here.is_known:
        raise _it_is_there(wish)
    if wish.rewind_to is not None and here.is_known:
        to_step = None if wish.rewind_to == "last" else wish.rewind_to
        here = rewind_here(root, wish.run_id, to_step, launch_id=wish.launch_id)
    next_episode = 0 if here.episode is None else here.episode + 1
    return Beginning(wish.run_id, here.rewinds, here.next_step, next_episode=next_episode, is_new=is_new)


def _without_answer(root: Path, wish: Wish, error: OpenManusError) -> Beginning:
    here = reached_here(root, wish.run_id)
    if wish.needs_answer and not here.is_known:
        if not isinstance(error, (TransientError, StackError)):
            raise error
        raise type(error)(
            f"run {wish.label}: whether it is there can't be asked now ({error.message}), and nobody here knows",
            hint='try again; resume="allow" without a rewind needs no answer',
        ) from error
    begun = _by_this_machine(root, wish, here)
    _logger.warning(
        "run %s: whether it is there can't be asked now (%s); going on with step %d, by what this machine knows",
        wish.label, error, begun.next_step,
    )  # fmt: skip
    return begun


def _ask_in_time(settings: Settings, root: Path, wish: Wish) -> Beginning | Reached:
    limit = settings.ask_timeout_seconds
    hasty = settings.model_copy(
        update={
            "connect_timeout_seconds": min(limit, settings.connect_timeout_seconds),
            "request_timeout_seconds": min(limit, settings.request_timeout_seconds),
            # Once is enough where training can go on without an answer.
            "retry_limit_seconds": min(limit, settings.retry_limit_seconds) if wish.needs_answer else 0.0,
        }
    )
    is_late = threading.Event()
    try:
        return within(limit, lambda: _ask(hasty, root, wish, is_late), attempt=f"run {wish.label}: ask where it is")
    except TimeoutExceeded:
        is_late.set()
        raise


def _ask(settings: Settings, root: Path, wish: Wish, is_late: threading.Event) -> Beginning | Reached:
    """Return where the run is, gone on with; if the database does not have it, what is on its way there."""
    client = open_client(settings)
    try:
        found, here = _find(client, root, wish)
        if is_late.is_set():
            return here
        if found is None:
            return _begin_together(client, root, wish, here) if wish.is_shared else here
        if wish.resume == "never":
            raise _it_is_there(wish)
        return _resume(client, wish, here, str(found["id"]), int(found["timeline"]))
    finally:
        client.door.close()


def _find(client: Client, root: Path, wish: Wish) -> tuple[dict[str, Any] | None, Reached]:
    """Return a run as the database has it, None if it does not, and what of it was still in spools then."""
    of_run = Filter.eq("run_name", wish.run_name) if wish.run_name is not None else Filter.eq("id", wish.run_id)
    # In this order: what is delivered between the two looks went from the first place to the second.
    here = reached_here(root, wish.run_id, undelivered_only=True)
    found = client.select_one("training_runs", filters=[of_run])
    if found is not None and str(found["id"]) != wish.run_id:
        # Somebody else made it, with an id that does not follow from its name.
        here = reached_here(root, str(found["id"]), undelivered_only=True)
    return found, here


def _begin_together(client: Client, root: Path, wish: Wish, here: Reached) -> Beginning:
    """Begin a run that the database does not have where the first process of this launch began it."""
    begun = _by_this_machine(root, wish, here, is_new=not here.is_known)
    params = {"run_id": wish.run_id, "change_id": wish.launch_id, "known_step": begun.next_step - 1, "may_begin": True}
    answer = client.rpc("resume_run", params)
    try:
        return replace(begun, next_step=int(answer["next_step"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadResponse(f"begin run {wish.run_id}: the answer does not say where") from error


def _resume(client: Client, wish: Wish, here: Reached, run_id: str, timeline: int) -> Beginning:
    params: dict[str, Any] = {
        "run_id": run_id,
        "change_id": wish.launch_id,
        "rewind_to_step": wish.rewind_to if isinstance(wish.rewind_to, int) else None,
        "rewind_to_last": wish.rewind_to == "last",
        "known_step": here.step,
        "known_metric_step": here.metric_step,
        "known_rewinds": list(here.rewinds),
        "known_timeline": timeline,
    }
    answer = client.rpc("resume_run", params)
    try:
        return Beginning(
            run_id,
            tuple(int(step) for step in answer["rewinds"]),
            int(answer["next_step"]),
            next_episode=max(int(answer["next_episode"]), -1 if here.episode is None else here.episode + 1),
            resumed_by=wish.launch_id,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadResponse(f"resume run {run_id}: the answer does not say where it is") from error


def _it_is_there(wish: Wish) -> ConflictError:
    return ConflictError(
        f"run {wish.label}: it is there already",
        field="run_name",
        hint='resume="allow" goes on with it; another run_name begins another',
    )
