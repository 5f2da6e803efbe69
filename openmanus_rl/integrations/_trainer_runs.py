"""Choose the run of a Hugging Face trainer: new, resumed, or joined by the other processes of a job."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, cast

from openmanus_rl.integrations._beginning import begin_after
from openmanus_rl.integrations._extras import provided_by, require
from openmanus_rl.recorder import Run, init
from openmanus_rl.recorder.beginning import Resume
from openmanus_rl.recorder.membership import pass_on_run

with provided_by("trl"):
    from transformers import TrainerState, TrainingArguments

__all__ = ["Resume", "RunMaker", "join_again", "join_together"]

# Stored in the trainer_state.json of every checkpoint, so that resumed training finds its run.
_STATE_KEY = "openmanus_rl"
# The arguments of TRL's trainers are named after the algorithm; those of Trainer itself are not.
_CONFIG_SUFFIX = "Config"


class RunMaker:
    """Starts the run of a trainer; given values take precedence over those of the trainer."""

    def __init__(
        self,
        *,
        name: str | None,
        algorithm: str | None,
        environment: str | None,
        run_name: str | None,
        resume: Resume,
        tags: Sequence[str] | None,
    ) -> None:
        self.environment = environment
        self._name = name
        self._algorithm = algorithm
        self._run_name = run_name
        self._resume = resume
        self._tags = tags

    def make(self, args: TrainingArguments, state: TrainerState, model: Any) -> Run:
        """Start a run, or resume the run of the checkpoint or of the run name at the current step."""
        run_name = self._run_name_for(args, state)
        _kept_with_checkpoints(state)[_STATE_KEY] = {"run_name": run_name}
        begin = partial(
            init,
            self._name or args.run_name or Path(args.output_dir or "training").resolve().name,
            algorithm=self._algorithm or _algorithm(args),
            environment=self.environment,
            config=_config(args, model),
            tags=self._tags,
            total_steps=state.max_steps if state.max_steps > 0 else None,
        )
        if state.global_step > 0:
            # "never" applies only to new training, not to training resumed from a checkpoint.
            resume: Resume = "must" if self._resume == "must" else "allow"
            return begin_after(begin, run_name, state.global_step, resume=resume)
        return begin_after(begin, run_name, -1, resume=self._resume)

    def _run_name_for(self, args: TrainingArguments, state: TrainerState) -> str:
        kept = _kept_with_checkpoints(state).get(_STATE_KEY)
        given = self._run_name or args.run_name
        if given is None and kept is not None:
            return str(kept["run_name"])
        if given is None or state.is_hyper_param_search:
            # Every trial of a hyperparameter search is a separate run.
            return f"{given or self._name or Path(args.output_dir or 'training').resolve().name}-{secrets.token_hex(4)}"
        return given


def join_again(run: Run) -> Run:
    """Return a new handle to a run that this process has finished."""
    # A copied or unpickled run joins the original.
    return _passed_on(copy(run))


def join_together(run: Run | None) -> Run:
    """Return a handle to the main process's run in each process of a job; all of them must call this."""
    place = (run, run.next_step) if run is not None else None
    ((shared, next_step),) = require("accelerate.utils", extra="trl").broadcast_object_list([place])
    if run is not None:
        return run
    joined = _passed_on(shared)
    joined.next_step = next_step
    return joined


def _passed_on(run: Run) -> Run:
    """Let child processes join the run, until it is finished here."""
    if not run.is_passed_on:
        pass_on_run(run.id, rewinds=run.rewinds)
        run.is_passed_on = True
    return run


def _kept_with_checkpoints(state: TrainerState) -> dict[str, Any]:
    # A list only while the state is being created.
    return cast(dict[str, Any], state.stateful_callbacks)


def _algorithm(args: TrainingArguments) -> str | None:
    """Return "grpo" for a GRPOConfig or a subclass of it; None for plain TrainingArguments."""
    for kind in type(args).__mro__:
        if kind.__module__.partition(".")[0] == "trl" and kind.__name__.endswith(_CONFIG_SUFFIX):
            return kind.__name__.removesuffix(_CONFIG_SUFFIX).lower()
    return None


def _config(args: TrainingArguments, model: Any) -> dict[str, Any]:
    config: dict[str, Any] = args.to_dict()  # type: ignore[no-untyped-call]
    if hasattr(getattr(model, "config", None), "to_dict"):
        config["model"] = model.config.to_dict()
    if hasattr(model, "num_parameters"):
        config["num_parameters"] = model.num_parameters()
    return config
