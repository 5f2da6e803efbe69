"""`openmanus_rl.init`: start a run, resume one, or join the run of another process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid5

from openmanus_rl._launchers import Launch
from openmanus_rl.errors import InvalidInput
from openmanus_rl.local.embedded import is_supervised
from openmanus_rl.recorder.beginning import Beginning, Resume, RewindTo, StartRequest, begin
from openmanus_rl.recorder.disabled import NoRecording
from openmanus_rl.recorder.job import Job, identify_job
from openmanus_rl.recorder.membership import (
    OWN_RUN_ID_VARIABLE,
    RUN_ID_VARIABLE,
    Mode,
    choose_mode,
    find_own_run,
    pass_on_run,
    read_membership,
    take_own_run,
)
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.recorder.run import Run
from openmanus_rl.records.ids import NAMESPACE, Id, as_id, new_id
from openmanus_rl.settings import Settings, load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.run_state import local_state

__all__ = ["init", "join"]

_logger = logging.getLogger(__name__)


def init(
    name: str | None = None,
    *,
    algorithm: str | None = None,
    environment: str | None = None,
    config: Mapping[str, Any] | None = None,
    run_name: str | None = None,
    run_id: Id | None = None,
    resume: Resume = "allow",
    rewind_to_step: RewindTo | None = None,
    tags: Sequence[str] | None = None,
    description: str | None = None,
    total_steps: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    mode: Mode | None = None,
) -> Run:
    """Start a run and return it; `resume` says what to do if the `run_name` exists.

    "allow" resumes the run or creates it, "must" only resumes, "never" only creates. `run_id` resumes the run with that
    id, such as one created in the dashboard; it must exist, and the database must answer. `rewind_to_step` resumes
    after that step and hides everything later; give the step of the checkpoint that training continues from, or "last"
    for the last completed step. `mode` is "online", "offline" (records stay in the spool until `openmanus-rl sync`) or
    "disabled" (nothing is recorded); it defaults to OPENMANUS_RL_MODE.

    The processes of a job (torchrun, accelerate, mpirun, srun) record to one run, and rank 0 sets its status. A process
    with OPENMANUS_RL_RUN_ID in its environment, such as a worker of a run, joins that run instead. With
    OPENMANUS_RL_OWN_RUN_ID, the first `init` of a process resumes that run, whatever name it gives.
    """
    own_id = find_own_run(run_name) if run_id is None else None
    given_id = None
    if own_id is not None or run_id is not None:
        given_id = as_id(own_id or run_id or "", field=OWN_RUN_ID_VARIABLE if own_id else "run_id")
    is_unnamed = name is None and run_name is None and given_id is None
    chosen = choose_mode(mode, joins=is_unnamed)
    _check(resume, rewind_to_step, run_name, run_id, is_given=given_id is not None)
    if chosen == "disabled":
        joined = os.environ.get(RUN_ID_VARIABLE) if is_unnamed else None
        run = Run(NoRecording(joined or given_id or new_id()), create=None, is_owner=False)
        return run if joined else _passed_on(run, chosen)
    settings, membership = load_settings(), read_membership()
    if membership.run_id is not None and is_unnamed:
        return _join(settings, as_id(membership.run_id, field=RUN_ID_VARIABLE), membership.rewinds, chosen)
    if is_unnamed:
        raise InvalidInput("a run needs a name", field="name", hint='init(name="cartpole-ppo", …)')
    given = {
        "name": name,
        "run_name": run_name,
        "algorithm": algorithm,
        "environment": environment,
        "config": dict(config) if config is not None else None,
        "tags": list(tags) if tags is not None else None,
        "description": description,
        "total_steps": total_steps,
        "metadata": dict(metadata) if metadata is not None else None,
    }
    start = _Start(settings, membership.launch, chosen)
    if given_id is not None:
        begun = start.begin_given(given_id, rewind_to_step)
        given = _without_known(given, begun)
        if own_id is not None:
            take_own_run(given_id, run_name)
    else:
        begun = start.begin(run_name, resume, rewind_to_step)
    start.announce_stack()
    return _passed_on(start.run(begun, given, resume, is_given=given_id is not None), mode)


def join(run_id: str, rewinds: Sequence[int] = (), *, mode: Mode | None = None) -> Run:
    """Return an object that records to the run of another process; the same one each time. Used by unpickling."""
    chosen = choose_mode(mode)
    if chosen == "disabled":
        return Run(NoRecording(run_id), create=None, is_owner=False)
    key = (as_id(run_id, field="run_id"), tuple(rewinds), chosen)
    known = _joined.get(key)
    if known is None or known.is_closed:
        known = _joined[key] = _join(load_settings(), *key)
    return known


_joined: dict[tuple[str, tuple[int, ...], Mode], Run] = {}


def _passed_on(run: Run, mode: Mode | None) -> Run:
    """Let child processes join the run until it is finished."""
    pass_on_run(run.id, rewinds=run.rewinds, mode=mode)
    run.is_passed_on = True
    return run


def _join(settings: Settings, run_id: str, rewinds: Sequence[int], mode: Mode) -> Run:
    recording = Recording(settings, run_id=run_id, rewinds=rewinds, mode=mode, launch=read_membership().launch)
    # Workers do not know which episode numbers the others use.
    return Run(recording, create=None, is_owner=False, next_episode=None)


@dataclass(frozen=True)
class _Start:
    """Starts a run in this process."""

    settings: Settings
    launch: Launch
    mode: Mode

    def begin(self, run_name: str | None, resume: Resume, rewind_to: RewindTo | None) -> Beginning:
        """Return the run, and where to continue it."""
        launch = self.launch
        job = self._identify_job(run_name, rewind_to)
        if run_name is None:
            return Beginning(new_id(), is_new=True) if job is None else self._begin_job(job)
        # Only rank 0 of the first start checks that the run does not exist: for the others, it may.
        if resume == "never" and (launch.rank > 0 or launch.restarts > 0):
            resume = "allow"
        # Derived from the name, so that every process has the same id without asking the database.
        run_id = str(uuid5(NAMESPACE, f"run:{run_name}"))
        launch_id = new_id() if job is None else job.next_launch_id(run_name)
        is_shared = job is not None and launch.world_size > 1
        return self._ask(StartRequest(run_id, run_name, launch_id, resume, rewind_to, is_shared=is_shared))

    def begin_given(self, run_id: str, rewind_to: RewindTo | None) -> Beginning:
        """Return where to continue the run with this id, which must exist."""
        job = self._identify_job(run_id, rewind_to)
        launch_id = new_id() if job is None else job.next_launch_id(run_id)
        is_shared = job is not None and self.launch.world_size > 1
        return self._ask(
            StartRequest(run_id, None, launch_id, "must", rewind_to, is_shared=is_shared, is_given=True),
        )

    def _identify_job(self, label: str | None, rewind_to: RewindTo | None) -> Job | None:
        job = identify_job(self.launch, timeout_seconds=self.settings.ask_timeout_seconds)
        if job is None and self.launch.world_size > 1:
            _tell_of_unknown_job(self.launch, label, rewind_to)
        return job

    def _begin_job(self, job: Job) -> Beginning:
        run_id = job.next_run_id()
        if self.launch.restarts == 0 and not local_state(spool_root(self.settings), run_id).is_left:
            return Beginning(run_id, is_new=True)
        return self._ask(StartRequest(run_id, None, job.next_launch_id(run_id), is_shared=True))

    def _ask(self, request: StartRequest) -> Beginning:
        return begin(self.settings, request, is_offline=self.mode == "offline")

    def announce_stack(self) -> None:
        """Print that the courier will start the embedded stack, unless it is running."""
        settings = self.settings
        if settings.is_embedded and settings.autostart and self.mode == "online" and not is_supervised(settings.home):
            print(
                f"openmanus-rl: starting the embedded stack beside this process; data in {settings.home}",
                file=sys.stderr,
            )

    def run(self, begun: Beginning, given: dict[str, Any], resume: Resume, *, is_given: bool = False) -> Run:
        """Return the run, with a spool for this process."""
        recording = Recording(
            self.settings, run_id=begun.run_id, rewinds=begun.rewinds, mode=self.mode, launch=self.launch
        )
        is_first = self.launch.rank == 0
        may_be_there = not begun.is_new or self.launch.world_size > 1
        # With resume="never", only rank 0 creates the run, after it has checked.
        is_made_here = (is_first or resume != "never") and not is_given
        return Run(
            recording,
            create={**given, "name": given["name"] or given["run_name"]} if is_made_here else None,
            again={**given, "rewinds": list(begun.rewinds) or None} if is_first and may_be_there else None,
            is_owner=is_first,
            resumed_by=begun.resumed_by,
            next_step=begun.next_step,
            next_episode=begun.next_episode,
        )


def _tell_of_unknown_job(launch: Launch, run_name: str | None, rewind_to: RewindTo | None) -> None:
    """Warn or raise if the ranks of this job can't agree on a run, or on a rewind."""
    place = f"rank {launch.rank} of {launch.world_size}"
    ways = "call init after torch.distributed.init_process_group(), or hand run.worker_env() to the others"
    if run_name is None and launch.rank > 0:
        raise InvalidInput(f"{place}: its job's run is unknown", field="run_name", hint=f"give a run_name; or {ways}")
    if rewind_to is not None and launch.rank > 0:
        raise InvalidInput(
            f"{place}: it is unknown whether rank 0 of this job has rewound run {run_name}",
            field="rewind_to_step",
            hint=f"let rank 0 alone rewind; or {ways}",
        )
    if run_name is None:
        _logger.warning("%s: its job cannot be identified; the other ranks need a run_name to join", place)


def _without_known(given: dict[str, Any], begun: Beginning) -> dict[str, Any]:
    """Return the fields for a run that others created: what it is called and trains stays as they said."""
    row = begun.row or {}
    kept = {name for name in ("algorithm", "environment", "description", "tags") if row.get(name)}
    return {name: None if name in kept | {"name", "run_name"} else value for name, value in given.items()}


def _check(
    resume: Resume, rewind_to_step: RewindTo | None, run_name: str | None, run_id: Id | None, *, is_given: bool
) -> None:
    if resume not in ("allow", "must", "never"):
        raise InvalidInput(f'resume is {resume!r}, and must be "allow", "must" or "never"', field="resume")
    if run_id is not None and (run_name is not None or resume == "never"):
        raise InvalidInput(
            "run_id resumes the run with that id, and takes neither a run_name nor resume='never'",
            field="run_id",
            hint="give a run_id or a run_name",
        )
    if rewind_to_step is None:
        return
    is_step = isinstance(rewind_to_step, int) and rewind_to_step >= -1
    if not (is_step or rewind_to_step == "last"):
        raise InvalidInput(
            f'rewind_to_step is {rewind_to_step!r}, and must be a step, -1 to begin anew, or "last"',
            field="rewind_to_step",
        )
    if run_name is None and not is_given:
        raise InvalidInput("rewind_to_step requires a run_name", field="run_name", hint="give a run_name")
