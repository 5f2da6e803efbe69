"""`openmanus_rl.init`: begin a run, go on with one, or join one of another process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import uuid5

from openmanus_rl.errors import BadResponse, ConflictError, InvalidInput, NotFoundError, OpenManusError
from openmanus_rl.gateway import Filter, get_gateway
from openmanus_rl.recorder.destination import spool_root
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.recorder.resuming import Reached, reached_here
from openmanus_rl.recorder.run import Run
from openmanus_rl.records.ids import NAMESPACE, as_id, new_id
from openmanus_rl.settings import RUN_ID_VARIABLE, Settings, load_settings, pass_on_run

__all__ = ["init"]

_logger = logging.getLogger(__name__)

Resume = Literal["allow", "must", "never"]
RewindTo = int | Literal["last"]


def init(
    name: str | None = None,
    *,
    algorithm: str | None = None,
    environment: str | None = None,
    config: Mapping[str, Any] | None = None,
    run_name: str | None = None,
    resume: Resume = "allow",
    rewind_to_step: RewindTo | None = None,
    tags: Sequence[str] | None = None,
    description: str | None = None,
    total_steps: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Run:
    """Begin a run and return it; with a `run_name` that is there already, `resume` says what to do.

    "allow" goes on with it or begins it, "must" only goes on, "never" only begins. `rewind_to_step` goes on from that
    step and hides what came after it, such as the step of the checkpoint that training starts from; "last" is the last
    step that was completed. A process that finds OPENMANUS_RL_RUN_ID in its environment, as workers of a run do, joins
    that run instead.
    """
    settings = load_settings()
    if settings.run_id is not None and name is None and run_name is None:
        run_id = as_id(settings.run_id, field=RUN_ID_VARIABLE)
        return Run(Recording(settings, run_id=run_id, rewinds=settings.rewinds), create=None, is_owner=False)
    _check(name, run_name, resume, rewind_to_step)
    found = {} if run_name is None else _find(settings, run_name, resume, rewind_to_step)
    create = {
        "name": name or run_name,
        "run_name": run_name,
        "algorithm": algorithm,
        "environment": environment,
        "config": dict(config) if config is not None else None,
        "tags": list(tags) if tags is not None else None,
        "description": description,
        "total_steps": total_steps,
        "metadata": dict(metadata) if metadata is not None else None,
    }
    recording = Recording(settings, run_id=found.pop("run_id", None) or new_id(), rewinds=found.pop("rewinds", ()))
    # Of the processes that torchrun starts, the first speaks for the run.
    run = Run(recording, create=create, is_owner=settings.rank == 0, **found)
    pass_on_run(recording.run_id, rewinds=recording.rewinds)
    return run


def _check(name: str | None, run_name: str | None, resume: Resume, rewind_to_step: RewindTo | None) -> None:
    if name is None and run_name is None:
        raise InvalidInput("a run needs a name", field="name", hint='init(name="cartpole-ppo", …)')
    if resume not in ("allow", "must", "never"):
        raise InvalidInput(f'resume is {resume!r}, and must be "allow", "must" or "never"', field="resume")
    if rewind_to_step is None:
        return
    is_step = isinstance(rewind_to_step, int) and rewind_to_step >= -1
    if not (is_step or rewind_to_step == "last"):
        raise InvalidInput(
            f'rewind_to_step is {rewind_to_step!r}, and must be a step, -1 to begin anew, or "last"',
            field="rewind_to_step",
        )
    if run_name is None:
        raise InvalidInput(
            "rewind_to_step: which run is to be rewound, its run_name says", field="run_name", hint="give a run_name"
        )


def _find(settings: Settings, run_name: str, resume: Resume, rewind_to: RewindTo | None) -> dict[str, Any]:
    """Return what the run of this name is begun or gone on with: its id, and where it is."""
    # The same name gives the same id in every process, also while the database can't be asked.
    derived = str(uuid5(NAMESPACE, f"run:{run_name}"))
    try:
        found = get_gateway().select_one("training_runs", filters=[Filter.eq("run_name", run_name)])
    except OpenManusError as error:
        if resume != "allow" or rewind_to is not None:
            raise
        here = reached_here(spool_root(settings), derived)
        _logger.warning(
            "run %s: whether it is there can't be asked now (%s); going on with step %d, by what this machine knows",
            run_name, error, here.next_step,
        )  # fmt: skip
        return {"run_id": derived, "rewinds": here.rewinds, "next_step": here.next_step}
    if found is None:
        return _begin(settings, run_name, derived, resume)
    if resume == "never":
        raise ConflictError(
            f"run {run_name}: it is there already",
            field="run_name",
            hint='resume="allow" goes on with it; another run_name begins another',
        )
    return _resume(settings, str(found["id"]), int(found["timeline"]), rewind_to)


def _begin(settings: Settings, run_name: str, run_id: str, resume: Resume) -> dict[str, Any]:
    if resume == "must":
        raise NotFoundError(
            f"run {run_name}: there is none to resume", field="run_name", hint='resume="allow" begins it'
        )
    # It may have begun while the database was away, and still lie in a spool.
    here = reached_here(spool_root(settings), run_id)
    return {"run_id": run_id, "rewinds": here.rewinds, "next_step": here.next_step}


def _resume(settings: Settings, run_id: str, timeline: int, rewind_to: RewindTo | None) -> dict[str, Any]:
    here = reached_here(spool_root(settings), run_id)
    if len(here.rewinds) != timeline:
        here = Reached()
    change_id = new_id()
    params = {
        "run_id": run_id,
        "change_id": change_id,
        "rewind_to_step": rewind_to if isinstance(rewind_to, int) else None,
        "rewind_to_last": rewind_to == "last",
        "known_step": here.step,
        "known_metric_step": here.metric_step,
    }
    answer = get_gateway().rpc("resume_run", params)
    try:
        return {
            "run_id": run_id,
            "rewinds": [int(step) for step in answer["rewinds"]],
            "next_step": int(answer["next_step"]),
            "next_episode": int(answer["rollouts"]),
            "resumed_by": change_id,
        }
    except (KeyError, TypeError, ValueError) as error:
        raise BadResponse(f"resume run {run_id}: the answer does not say where it is") from error
