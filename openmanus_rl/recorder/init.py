"""`openmanus_rl.init`: begin a run, go on with one, or join one of another process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import uuid5

from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError, OpenManusError
from openmanus_rl.gateway import Filter, Gateway, Order, get_gateway
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.recorder.run import Run
from openmanus_rl.records.ids import NAMESPACE, as_id, new_id
from openmanus_rl.settings import RUN_ID_VARIABLE, load_settings, pass_on_run

__all__ = ["init"]

_logger = logging.getLogger(__name__)

Resume = Literal["allow", "must", "never"]


def init(
    name: str | None = None,
    *,
    algorithm: str | None = None,
    environment: str | None = None,
    config: Mapping[str, Any] | None = None,
    run_name: str | None = None,
    resume: Resume = "allow",
    tags: Sequence[str] | None = None,
    description: str | None = None,
    total_steps: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Run:
    """Begin a run and return it; with a `run_name` that is there already, `resume` says what to do.

    "allow" goes on with it or begins it, "must" only goes on, "never" only begins. A process that finds
    OPENMANUS_RL_RUN_ID in its environment, as workers of a run do, joins that run instead.
    """
    settings = load_settings()
    if settings.run_id is not None and name is None and run_name is None:
        run_id = as_id(settings.run_id, field=RUN_ID_VARIABLE)
        return Run(Recording(settings, run_id=run_id), run_id, next_step=0, create=None)
    if name is None and run_name is None:
        raise InvalidInput("a run needs a name", field="name", hint='init(name="cartpole-ppo", …)')
    if resume not in ("allow", "must", "never"):
        raise InvalidInput(f'resume is {resume!r}, and must be "allow", "must" or "never"', field="resume")
    run_id, next_step, resumed = _find(run_name, resume) if run_name is not None else (new_id(), 0, False)
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
    run = Run(Recording(settings, run_id=run_id), run_id, next_step=next_step, create=create, resumed=resumed)
    pass_on_run(run_id)
    return run


def _find(run_name: str, resume: Resume) -> tuple[str, int, bool]:
    """Return the id of the run of this name, the step to go on with, and whether it was there."""
    # The same name gives the same id in every process, also while the database can't be asked.
    derived = str(uuid5(NAMESPACE, f"run:{run_name}"))
    try:
        gateway = get_gateway()
        found = gateway.select_one("training_runs", filters=[Filter.eq("run_name", run_name)])
    except OpenManusError as error:
        if resume != "allow":
            raise
        _logger.warning("run %s: whether it is there can't be asked now (%s); going on", run_name, error)
        return derived, 0, False
    if found is None:
        if resume == "must":
            raise NotFoundError(
                f"run {run_name}: there is none to resume", field="run_name", hint='resume="allow" begins it'
            )
        return derived, 0, False
    if resume == "never":
        raise ConflictError(
            f"run {run_name}: it is there already",
            field="run_name",
            hint='resume="allow" goes on with it; another run_name begins another',
        )
    if found["status"] == "completed":
        raise ConflictError(
            f"run {run_name}: it is completed and cannot go on", field="run_name", hint="begin another run"
        )
    return str(found["id"]), _next_step(gateway, str(found["id"])), True


def _next_step(gateway: Gateway, run_id: str) -> int:
    last = gateway.select(
        "training_steps",
        columns="step",
        filters=[Filter.eq("training_run_id", run_id), Filter.eq("status", "completed")],
        order=[Order("step", descending=True)],
        limit=1,
    ).rows
    return int(last[0]["step"]) + 1 if last else 0
