"""One launch of a run: finds its configuration, trains it or starts its program, and says how that ended."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from openmanus_rl.connections import get_client
from openmanus_rl.errors import (
    ConflictError,
    InvalidInput,
    LocalFileError,
    OpenManusError,
    SettingsError,
)
from openmanus_rl.integrations._extras import provided_by
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.recorder import init
from openmanus_rl.records.ids import as_id, new_id
from openmanus_rl.settings import Settings, load_settings, read_variables
from openmanus_rl.training.config import ProgramConfig, parse_config
from openmanus_rl.training.outcome import TrainingFailed
from openmanus_rl.training.patience import patiently
from openmanus_rl.training.stopping import Stop

__all__ = ["FAILED", "REFUSED", "TAKEN", "Launch", "read_launch", "serve"]


FAILED = 1
"""Training raised an error."""
REFUSED = 2
"""The configuration cannot be had, or is wrong: another attempt would end the same way."""
TAKEN = 75
"""Another process trains the run, or this attempt of its job."""

_LARGEST_INTERVAL = 10**9
_TOLD_EVERY_SECONDS = 10


@dataclass(frozen=True)
class Launch:
    """What the environment says about this launch."""

    run_id: str
    metrics_interval: int = 100
    frame_interval: int = 1000
    job_id: str | None = None
    job_attempt: int = 1


def read_launch(environ: Mapping[str, str] | None = None) -> Launch:
    """Read RUN_ID and what goes with it; raise a `SettingsError` that names what is missing or wrong."""
    values = read_variables(environ)
    if "RUN_ID" not in values:
        raise SettingsError(
            "RUN_ID is missing: it names the run to train", setting="RUN_ID", hint="set it to the id of a run"
        )
    job_id = values.get("OPENMANUS_RL_JOB_ID")
    try:
        return Launch(
            run_id=as_id(values["RUN_ID"], field="RUN_ID"),
            metrics_interval=_parse_number("METRICS_INTERVAL", values.get("METRICS_INTERVAL"), default=100, least=1),
            frame_interval=_parse_number("FRAME_INTERVAL", values.get("FRAME_INTERVAL"), default=1000, least=0),
            job_id=None if job_id is None else as_id(job_id, field="OPENMANUS_RL_JOB_ID"),
            job_attempt=_parse_number(
                "OPENMANUS_RL_JOB_ATTEMPT", values.get("OPENMANUS_RL_JOB_ATTEMPT"), default=1, least=0
            ),
        )
    except InvalidInput as error:
        raise SettingsError(error.message, setting=error.field or "", hint=error.hint) from error


def serve(launch: Launch, stop: Stop) -> int:
    """Train a run and return the exit code; what goes wrong is printed, and recorded where it can be."""
    try:
        settings = load_settings()
        if launch.job_id is not None:
            _begin_attempt(launch, stop)
        row = patiently(lambda: TrainingRunManager.get_run(launch.run_id), stop)
    except _Taken as error:
        return _say(f"this attempt is not ours to train: {error}", TAKEN)
    except OpenManusError as error:
        return _say(f"run {launch.run_id}: its configuration cannot be had: {error}", REFUSED)
    if row["status"] == "completed":
        return _say(f"run {launch.run_id} has completed; there is nothing to train", 0)
    if stop.is_set:
        return _say(f"run {launch.run_id}: {stop.message} before training began", stop.exit_code)
    try:
        return _train(settings, launch, row, stop)
    except (InvalidInput, LocalFileError) as error:
        _record_failure(launch.run_id, str(error))
        return _say(f"run {launch.run_id}: {error}", REFUSED)
    except ConflictError as error:
        # Another process has begun it at the same moment.
        return _say(f"run {launch.run_id}: it is not ours to train: {error}", TAKEN)
    except TrainingFailed as error:
        traceback.print_exception(error)
        return _say(f"run {launch.run_id}: training failed: {error}", FAILED)
    # Whatever it is, the run is not to wait for it.
    except Exception as error:  # noqa: BLE001
        _record_failure(launch.run_id, f"{type(error).__name__}: {error}")
        if not isinstance(error, (OpenManusError, ModuleNotFoundError)):
            traceback.print_exception(error)
        return _say(f"run {launch.run_id}: {error}", FAILED)


def _train(settings: Settings, launch: Launch, row: Mapping[str, Any], stop: Stop) -> int:
    config = parse_config(row["config"])
    if isinstance(config, ProgramConfig):
        from openmanus_rl.training.programs import run_program

        return run_program(settings, row, config, stop)
    # Imported here: a program of one's own may need none of it.
    with provided_by("training"):
        from openmanus_rl.training.trainer import Intervals, Trainer

    trainer = Trainer(settings, row, config, Intervals(launch.metrics_interval, launch.frame_interval))
    result = trainer.train(stop, on_progress=_Told(config.total_timesteps))
    if stop.is_replaced:
        return _say(f"run {launch.run_id}: {stop.message}; ended at step {result.step}", TAKEN)
    if not result.is_delivered:
        print("openmanus-rl: not all of it is delivered yet; `openmanus-rl sync` on this machine does", file=sys.stderr)
    how = "completed" if result.status == "completed" else stop.message
    return _say(f"run {launch.run_id}: {how} at step {result.step}", stop.exit_code if stop.is_set else 0)


class _Told:
    """Prints how far training is, now and then: who reads the log of a job sees that it goes on."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = 0.0

    def __call__(self, step: int, mean_reward: float | None) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _TOLD_EVERY_SECONDS
        reward = "" if mean_reward is None else f", mean reward {mean_reward:.4g}"
        print(f"step {step:,} of {self._total:,}{reward}", flush=True)


class _Taken(Exception):
    """Another process trains this attempt."""


def _begin_attempt(launch: Launch, stop: Stop) -> None:
    token = new_id()
    params = {"job_id": launch.job_id, "attempt": launch.job_attempt, "token": token}
    try:
        patiently(lambda: get_client().rpc("begin_attempt", params), stop)
    except ConflictError as error:
        raise _Taken(str(error)) from error


def _record_failure(run_id: str, message: str) -> None:
    """Mark the run as failed, unless it has ended meanwhile; the message is printed in any case."""
    with suppress(OpenManusError):
        if TrainingRunManager.get_run(run_id)["status"] not in ("failed", "completed"):
            run = init(run_id=run_id)
            run.finish("failed", message=message)


def _parse_number(name: str, text: str | None, *, default: int, least: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text) <= _LARGEST_INTERVAL):
        raise SettingsError(f"{name} {text!r:.50} is not a whole number of at least {least}", setting=name)
    return int(text)


def _say(message: str, code: int) -> int:
    print(f"openmanus-rl: {message}", file=sys.stderr, flush=True)
    return code
