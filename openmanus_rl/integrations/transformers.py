"""Hugging Face trainers, including those of TRL: a callback that records metrics, steps, evaluations and checkpoints.

    from openmanus_rl.integrations.transformers import OpenManusCallback

    trainer = Trainer(model=model, args=args, train_dataset=dataset, callbacks=[OpenManusCallback()])
    trainer.train()

Step n of the run is the global step n of the trainer, the n-th update. Only a second `train()` in a run that was given
continues after the last step of the run.
"""

# ruff: noqa: ARG002 - the trainer decides what its callbacks are given
from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openmanus_rl.integrations._beginning import Axis, axis_of
from openmanus_rl.integrations._extras import provided_by
from openmanus_rl.integrations._trainer_checkpoints import CheckpointPacker
from openmanus_rl.integrations._trainer_numbers import numbers_of
from openmanus_rl.recorder import Evaluation, Run, Step

with provided_by("trl"):
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    from openmanus_rl.integrations._trainer_runs import Resume, RunMaker, join_again, join_together

__all__ = ["OpenManusCallback"]

_STEP_FIELDS = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "kl": "kl",
    "reward": "reward_mean",
    "reward_std": "reward_std",
}


class OpenManusCallback(TrainerCallback):
    """Records a trainer to the given run, or to a new one that starts and ends with training.

    Only the main process records. If training raises, a given run in a `with` block is marked as failed immediately;
    one that the callback created, when the process ends.

    The run is named `run_name`, or the trainer's run name, or gets a generated name, which is stored in checkpoints.
    Training that resumes from a checkpoint resumes its run at that step. New training under the name of an existing run
    rewinds that run: its records stay readable but no longer count; with resume="never" it is refused. Checkpoints are
    recorded with their path; with `upload_checkpoints`, their folders are uploaded, up to 1 GB each.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        name: str | None = None,
        algorithm: str | None = None,
        environment: str | None = None,
        run_name: str | None = None,
        resume: Resume = "allow",
        tags: Sequence[str] | None = None,
        upload_checkpoints: bool = False,
    ) -> None:
        self.run = run
        """The run of this callback; None until it exists."""
        self.maker = RunMaker(
            name=name, algorithm=algorithm, environment=environment, run_name=run_name, resume=resume, tags=tags
        )
        self.in_every_process = False
        """Whether processes other than the main one record too."""
        self._owns_run = run is None
        self._is_training = False
        self._has_trained = False
        self._has_ended = False
        self._axis = Axis(0)
        self._step: Step | None = None
        self._open_step: Step | None = None
        self._evaluation: Evaluation | None = None
        self._packer = CheckpointPacker() if upload_checkpoints else None
        self._summary: dict[str, float] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Start the run, or resume it at the checkpoint's step."""
        if self._is_training:
            self._break_off("training was started again before it had ended")
        main = state.is_world_process_zero
        if main and (self.run is None or self._is_done):
            self._end()
            self._begin(args, state, model)
        if self.in_every_process and args.world_size > 1:
            self._join_main(is_main=main)
        if self.run is not None:
            self._axis = axis_of(self.run)
            self._axis.begin(state.global_step)
            self._is_training = True

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the next global step."""
        if self.run is not None:
            self._step = self._open_step = self.run.step(self._axis.step(state.global_step + 1))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the step; its metrics follow when the trainer logs them."""
        # The main process does not know whether the others are done.
        if self._open_step is not None and state.is_world_process_zero:
            self._open_step.finish()
        self._open_step = None

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Record the numbers that the trainer logs."""
        numbers = numbers_of(logs or {})
        if not state.is_world_process_zero or not numbers:
            return
        run = self.ensure_run(args, state, model)
        step = self.step_of(state)
        run.log(numbers, step=step)
        figures = {field: numbers[name] for name, field in _STEP_FIELDS.items() if name in numbers}
        if figures and self._step is not None and self._step.number == step:
            self._step.log(**figures)
        if self._is_training:
            progress = min(state.global_step / state.max_steps, 1.0) if state.max_steps > 0 else None
            run.update(current_step=step, progress=progress)
        self._summary |= numbers

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Start the evaluation with its first batch, to record its duration."""
        if state.is_world_process_zero:
            self.ensure_run(args, state, model)
            self.evaluation(state)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, Any] | None = None,
        model: Any = None,
        **_: Any,
    ) -> None:
        """End the evaluation with its results, which the trainer has also logged as metrics."""
        if state.is_world_process_zero:
            self.ensure_run(args, state, model)
            self._end_evaluation(state, metrics or {})
        self._evaluation = None

    def on_predict(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, Any] | None = None,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Record predictions as an evaluation, with their metrics, which the trainer does not log."""
        if state.is_world_process_zero:
            run = self.ensure_run(args, state, model)
            run.log(numbers_of(metrics or {}), step=self.step_of(state))
            self._end_evaluation(state, metrics or {})
        self._evaluation = None

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Record the path of the checkpoint; with `upload_checkpoints`, upload its folder in the background."""
        if self.run is None or not state.is_world_process_zero:
            return
        folder = _checkpoint_folder(args, state)
        metadata = {"path": str(folder), "epoch": state.epoch, "best_metric": state.best_metric}
        step = self.step_of(state)
        self.run.log_checkpoint(step, step=step, metadata=metadata)
        if self._packer is not None:
            self._packer.send(self.run, folder, step=step, metadata=metadata)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Finish the run, if the callback started it."""
        self._is_training, self._has_trained = False, True
        if self._packer is not None:
            self._packer.wait()
        if self.run is None or not state.is_world_process_zero:
            return
        if self._owns_run:
            self._end()
        else:
            self.run.update(summary=self._summary)

    def ensure_run(self, args: TrainingArguments, state: TrainerState, model: Any) -> Run:
        """Return the run; evaluations may happen before, after and without training."""
        if self.run is None:
            self._begin(args, state, model)
        elif self._has_ended:
            self.run = join_again(self.run)
            self._has_ended = False
        assert self.run is not None
        return self.run

    def step_of(self, state: TrainerState) -> int:
        """Return the current step of the run, which differs from the trainer's if the run had steps before."""
        return self._axis.step(state.global_step)

    @property
    def step(self) -> Step | None:
        """The current step."""
        return self._open_step

    def evaluation(self, state: TrainerState) -> Evaluation | None:
        """Return the current evaluation, or start one; None in processes other than the main one."""
        if self._evaluation is None and self.run is not None and state.is_world_process_zero:
            self._evaluation = self.run.evaluation(step=self.step_of(state))
        return self._evaluation

    def _begin(self, args: TrainingArguments, state: TrainerState, model: Any) -> None:
        self.run = self.maker.make(args, state, model)
        self._has_ended = self._has_trained = False
        self._summary = {}
        # Called before the recorder's own exit handler: the last registered is called first.
        atexit.register(self._end_at_exit, self.run)

    def _join_main(self, *, is_main: bool) -> None:
        """Use the run of the main process, which may differ from that of the last training."""
        before, self.run = self.run, join_together(self.run if is_main else None)
        if before is not None and before is not self.run:
            before.finish()

    @property
    def _is_done(self) -> bool:
        """Whether the callback created the run, and its training has ended."""
        return self._owns_run and (self._has_trained or self._has_ended)

    def _end(self) -> None:
        if self.run is not None and not self._has_ended:
            self.run.finish(summary=self._summary)
            self._has_ended = True

    def _end_evaluation(self, state: TrainerState, metrics: Mapping[str, Any]) -> None:
        evaluation = self.evaluation(state)
        if evaluation is not None:
            numbers = numbers_of(metrics)
            prefix = next((key.removesuffix("_runtime") for key in numbers if key.endswith("_runtime")), "eval")
            evaluation.finish(name=prefix, mean_reward=numbers.get(f"{prefix}_reward"), metadata={"metrics": numbers})

    def _break_off(self, message: str) -> None:
        """End what is open after an exception, of which the trainer does not inform callbacks."""
        if self._open_step is not None:
            self._open_step.finish("interrupted", message=message)
            self._open_step = None
        self._evaluation = None
        if self._owns_run and self.run is not None:
            self.run.finish("interrupted", message=message)
            # The next run reads from the database how far this one came.
            self.run.flush()
            self._has_ended = True

    def _end_at_exit(self, run: Run) -> None:
        # During training, the recorder sets the status, because it knows whether an exception ended the process.
        if self.run is run and not self._is_training and not self._has_ended:
            run.finish(summary=self._summary)


def _checkpoint_folder(args: TrainingArguments, state: TrainerState) -> Path:
    folder = Path(args.output_dir or ".")
    name = f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
    # A hyperparameter search has a checkpoint folder for each trial.
    if state.trial_name is not None:
        folder /= state.trial_name
    return (folder / name).resolve()
