"""Hugging Face trainers, and so TRL's: one callback records metrics, steps, evaluations and checkpoints of a run.

    from openmanus_rl.integrations.transformers import OpenManusCallback

    trainer = Trainer(model=model, args=args, train_dataset=dataset, callbacks=[OpenManusCallback()])
    trainer.train()

Step n of the record is what Trainer calls global step n: the n-th update, begun when n - 1 were done. Only a second
`train()` in a run that was given goes on behind what the run has.
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
    """Records a trainer's run; give it a run of your own, or let it begin one when training begins and end it after.

    Of several processes the main one records. A run of your own in a `with` block is marked failed by an exception
    in training at once; one that the callback began, when the process ends.

    The run goes by `run_name`, or the trainer's, or a name of its own that checkpoints keep. Training that goes on from
    a checkpoint goes on with its run from there; training that begins anew under the name of a run takes its place, and
    what that had stays readable but no longer counts, unless resume="never" refuses it. Checkpoints are recorded by
    their path; with `upload_checkpoints` their folders go to storage, up to 1 GB each.
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
        """The run that is recorded to; None until there is one."""
        self.maker = RunMaker(
            name=name, algorithm=algorithm, environment=environment, run_name=run_name, resume=resume, tags=tags
        )
        self.in_every_process = False
        """Whether the processes beside the main one have something to record, too."""
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
        """Begin the run, or go on with it from the checkpoint's step."""
        if self._is_training:
            self._break_off("training was begun again before it had ended")
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
        """Begin the step that will bring training to the next global step."""
        if self.run is not None:
            self._step = self._open_step = self.run.step(self._axis.step(state.global_step + 1))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the step; its figures follow when the trainer logs them."""
        # Of the other processes, none knows whether all are done.
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
        """Record what the trainer logs, as far as it is numbers."""
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
            progress = {"progress": min(state.global_step / state.max_steps, 1.0)} if state.max_steps > 0 else {}
            run.update(current_step=step, **progress)
        self._summary |= numbers

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Begin the evaluation with its first batch, so that its time is known."""
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
        """End the evaluation with what it found; the trainer has logged the same as metrics."""
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
        """Record the metrics of predictions, which the trainer does not log, and the evaluation that they are."""
        if state.is_world_process_zero:
            run = self.ensure_run(args, state, model)
            run.log(numbers_of(metrics or {}), step=self.step_of(state))
            self._end_evaluation(state, metrics or {})
        self._evaluation = None

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Record the checkpoint: where it lies, and with `upload_checkpoints` all of it, packed beside training."""
        if self.run is None or not state.is_world_process_zero:
            return
        folder = _checkpoint_folder(args, state)
        metadata = {"path": str(folder), "epoch": state.epoch, "best_metric": state.best_metric}
        step = self.step_of(state)
        self.run.log_checkpoint(step, step=step, metadata=metadata)
        if self._packer is not None:
            self._packer.send(self.run, folder, step=step, metadata=metadata)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the run, if the callback began it."""
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
        """Return the run; evaluations may come before training, after it, and without any."""
        if self.run is None:
            self._begin(args, state, model)
        elif self._has_ended:
            self.run = join_again(self.run)
            self._has_ended = False
        assert self.run is not None
        return self.run

    def step_of(self, state: TrainerState) -> int:
        """Return the step of the run at which training is; another one where the run was trained before."""
        return self._axis.step(state.global_step)

    @property
    def step(self) -> Step | None:
        """The step that is under way."""
        return self._open_step

    def evaluation(self, state: TrainerState) -> Evaluation | None:
        """Return the evaluation that is under way, or begin one; None in processes that are not the main one."""
        if self._evaluation is None and self.run is not None and state.is_world_process_zero:
            self._evaluation = self.run.evaluation(step=self.step_of(state))
        return self._evaluation

    def _begin(self, args: TrainingArguments, state: TrainerState, model: Any) -> None:
        self.run = self.maker.make(args, state, model)
        self._has_ended = self._has_trained = False
        self._summary = {}
        # Called before the recorder's own: what is registered last is called first.
        atexit.register(self._end_at_exit, self.run)

    def _join_main(self, *, is_main: bool) -> None:
        """Record to the run of the main process, which may be another one than that of the last training."""
        before, self.run = self.run, join_together(self.run if is_main else None)
        if before is not None and before is not self.run:
            before.finish()

    @property
    def _is_done(self) -> bool:
        """Whether the run is one of the callback's own, of a training that has ended."""
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
        """End what an exception left open, which the trainer tells no callback of."""
        if self._open_step is not None:
            self._open_step.finish("interrupted", message=message)
            self._open_step = None
        self._evaluation = None
        if self._owns_run and self.run is not None:
            self.run.finish("interrupted", message=message)
            # The next one asks the database how far this one came.
            self.run.flush()
            self._has_ended = True

    def _end_at_exit(self, run: Run) -> None:
        # While it trains, the recorder knows better what to say of the run: whether an exception ended the process.
        if self.run is run and not self._is_training and not self._has_ended:
            run.finish(summary=self._summary)


def _checkpoint_folder(args: TrainingArguments, state: TrainerState) -> Path:
    folder = Path(args.output_dir or ".")
    name = f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
    # A search for hyperparameters keeps each trial's checkpoints in a folder of its own.
    if state.trial_name is not None:
        folder /= state.trial_name
    return (folder / name).resolve()
