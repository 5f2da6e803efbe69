"""Environment variables that name the run a process belongs to, and its place in a job.

`init` sets OPENMANUS_RL_RUN_ID, so that child processes join its run. A service that launches training sets
OPENMANUS_RL_OWN_RUN_ID: the first `init` of the launched program resumes that run as its owner. Launchers such as
torchrun set the place in a job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from openmanus_rl._launchers import Launch, read_launch
from openmanus_rl._setting_checks import parse_choice, parse_steps
from openmanus_rl.settings import read_variables

__all__ = [
    "Membership",
    "Mode",
    "choose_mode",
    "find_own_run",
    "pass_on_run",
    "read_membership",
    "retract_run",
    "take_own_run",
    "worker_environment",
]

RUN_ID_VARIABLE = "OPENMANUS_RL_RUN_ID"
OWN_RUN_ID_VARIABLE = "OPENMANUS_RL_OWN_RUN_ID"
REWINDS_VARIABLE = "OPENMANUS_RL_REWINDS"
MODE_VARIABLE = "OPENMANUS_RL_MODE"

Mode = Literal["online", "offline", "disabled"]
"""Whether records are delivered, kept in the spool, or not made at all."""
_MODES: tuple[Mode, ...] = ("online", "offline", "disabled")
# What a process that does not inherit this environment needs to find the same Supabase.
_ADDRESS_VARIABLES = ("SUPABASE_URL", "SUPABASE_PROJECT_REF", "OPENMANUS_RL_HOME")
_KEY_VARIABLES = ("SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_KEY", "DATABASE_URL")


@dataclass(frozen=True)
class Membership:
    """What the environment tells a process about its run and its job."""

    run_id: str | None = None
    """The run that this process belongs to, set by the process that started it."""
    rewinds: tuple[int, ...] = ()
    """The steps to which that run was rewound."""
    launch: Launch = field(default_factory=Launch)
    """This process's place in a job of several."""


def read_membership() -> Membership:
    """Return this process's membership."""
    values = read_variables()
    return Membership(
        run_id=values.get(RUN_ID_VARIABLE),
        rewinds=parse_steps(REWINDS_VARIABLE, values.get(REWINDS_VARIABLE)),
        launch=read_launch(values),
    )


def choose_mode(given: str | None, *, joins: bool = False) -> Mode:
    """Return the given mode, else OPENMANUS_RL_MODE.

    A mode that a run of this process passed on counts only for processes that join that run, not for the next run.
    """
    if given is not None:
        return _parse_mode("mode", given)
    environ = dict(os.environ) if joins else {**os.environ, MODE_VARIABLE: _own_mode() or ""}
    return _parse_mode(MODE_VARIABLE, read_variables(environ).get(MODE_VARIABLE))


def find_own_run(run_name: str | None) -> str | None:
    """Return the run that this process was started for, if it has not begun it yet, or began it by this name."""
    return os.environ.get(OWN_RUN_ID_VARIABLE, "").strip() or _own_runs.get(run_name or "")


def take_own_run(run_id: str, run_name: str | None) -> None:
    """Note that the run that this process was started for has begun; other runs and child processes are not it."""
    os.environ.pop(OWN_RUN_ID_VARIABLE, None)
    if run_name is not None:
        _own_runs[run_name] = run_id


# The run that this process was started for, by the name that its program gave it: it may resume it by that name.
_own_runs: dict[str, str] = {}


def worker_environment(
    run_id: str, *, rewinds: Sequence[int] = (), mode: Mode = "online", include_keys: bool = False
) -> dict[str, str]:
    """Return the variables with which another process joins a run on the same Supabase."""
    values = read_variables()
    names = _ADDRESS_VARIABLES + (_KEY_VARIABLES if include_keys else ())
    return {name: values[name] for name in names if name in values} | _run_variables(run_id, rewinds, mode)


def pass_on_run(run_id: str, *, rewinds: Sequence[int] = (), mode: Mode | None = None) -> None:
    """Let child processes join this run until `retract_run`."""
    if not _passed_on:
        _before.update({name: os.environ.get(name) for name in (RUN_ID_VARIABLE, REWINDS_VARIABLE, MODE_VARIABLE)})
    own_mode = _own_mode()
    _passed_on.append(_run_variables(run_id, rewinds, mode))
    _set_variables({MODE_VARIABLE: own_mode, **_passed_on[-1]})


def retract_run(run_id: str) -> None:
    """Undo `pass_on_run`; child processes join the run that was passed on before, if any."""
    place = next((i for i in reversed(range(len(_passed_on))) if _passed_on[i][RUN_ID_VARIABLE] == run_id), None)
    if place is None:
        return
    _passed_on.pop(place)
    # Set by other code for another run: leave it.
    if os.environ.get(RUN_ID_VARIABLE) != run_id:
        return
    _set_variables(_before | (_passed_on[-1] if _passed_on else {}))


# The runs that are passed on now, and the environment before the first of them.
_passed_on: list[dict[str, str]] = []
_before: dict[str, str | None] = {}


def _own_mode() -> str | None:
    """Return OPENMANUS_RL_MODE as it was set for this process, not by a run that it passed on."""
    named = os.environ.get(MODE_VARIABLE)
    is_passed_on = any(one.get(MODE_VARIABLE) == named for one in _passed_on)
    return _before[MODE_VARIABLE] if is_passed_on else named


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _run_variables(run_id: str, rewinds: Sequence[int], mode: Mode | None) -> dict[str, str]:
    variables = {RUN_ID_VARIABLE: run_id, REWINDS_VARIABLE: ",".join(str(step) for step in rewinds)}
    return variables if mode is None else {**variables, MODE_VARIABLE: mode}


def _parse_mode(setting: str, text: str | None) -> Mode:
    return cast(Mode, parse_choice(setting, text, _MODES))
