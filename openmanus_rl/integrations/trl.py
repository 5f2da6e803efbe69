"""TRL's GRPO and RLOO trainers: records every completion as a rollout, with its rewards, advantage and tokens.

    from openmanus_rl.integrations.trl import record_rollouts

    trainer = GRPOTrainer(model=model, args=args, reward_funcs=[accuracy], train_dataset=dataset)
    record_rollouts(trainer)
    trainer.train()

The completions of a prompt are a group of the step or evaluation in which they were generated. The other columns of the
dataset, such as the expected answer, are recorded as `metadata`. A function determines which completions succeeded:

    record_rollouts(trainer, success=lambda completion, answer: answer in completion)
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._extras import provided_by
from openmanus_rl.integrations._readable import as_plain
from openmanus_rl.integrations._trainer_turns import Tokens, text_of, tokens_by_turn, turns_of
from openmanus_rl.recorder import Evaluation, Group, Rollout, Step

with provided_by("trl"):
    import trl
    from transformers import Trainer

    from openmanus_rl.integrations.transformers import OpenManusCallback

__all__ = ["OpenManusCallback", "record_rollouts"]

_logger = logging.getLogger(__name__)

# Only this method has all of it: prompts, completions, tokens, the result of each reward function, and advantages.
# Reward functions receive neither advantages nor prompt tokens nor the results of others, and the table of TRL's log
# has no tokens and only the last batch.
_GENERATE = "_generate_and_score_completions"
_SCORE = "_calculate_rewards"
# Another version of TRL may pass other values: that must not stop training.
_UNEXPECTED = (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError)
Success = Callable[..., bool | None]

_LOGPROBS = ("sampling_per_token_logps", "old_per_token_logps")


def record_rollouts(
    trainer: Trainer, callback: OpenManusCallback | None = None, *, success: Success | None = None
) -> OpenManusCallback:
    """Record every completion of a trainer, and what `OpenManusCallback` records; return that callback.

    The callback is the given one, the one that the trainer already has, or a new one. `success` is called for each
    completion and returns True, False, or None if it cannot tell. Its parameters may be any of `prompt`, `completion`,
    `completion_ids`, `rewards` (by the names of the reward functions that applied) and the columns of the dataset.
    """
    for method in (_GENERATE, _SCORE):
        if not callable(getattr(trainer, method, None)):
            raise InvalidInput(
                f"{type(trainer).__name__}: cannot record completions: it has no {method} (trl {trl.__version__})",
                field="trainer",
                hint="use a GRPOTrainer or an RLOOTrainer; for other trainers, use OpenManusCallback",
            )
    known = [found for found in trainer.callback_handler.callbacks if isinstance(found, OpenManusCallback)]
    callback = callback or next(iter(known), None) or OpenManusCallback()
    if callback not in known:
        trainer.add_callback(callback)
    recorder = getattr(getattr(trainer, _GENERATE), "__self__", None)
    if not isinstance(recorder, _CompletionRecorder):
        callback.in_every_process = True
        callback.maker.environment = callback.maker.environment or _environment(trainer)
        recorder = _CompletionRecorder(trainer, callback)
        setattr(trainer, _GENERATE, recorder.generate)
        setattr(trainer, _SCORE, recorder.score)
    if success is not None:
        recorder.judge = _Judge(success)
    return callback


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """The completions of this process, and the rewards of all processes."""

    inputs: Sequence[Mapping[str, Any]]
    prompts: Sequence[Any]
    completions: Sequence[Any]
    completion_ids: Sequence[Sequence[int]]
    rewards: Any
    """A row for each completion of all processes, a column for each reward function."""


class _Judge:
    """Calls the user's success function; an exception in it is logged once and does not stop training."""

    def __init__(self, success: Success) -> None:
        self._success = success
        self._has_warned = False
        parameters = inspect.signature(success).parameters.values()
        self._takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        self._names = {parameter.name for parameter in parameters}

    def status(self, facts: Mapping[str, Any], *, otherwise: str) -> str:
        """Return whether the completion succeeded."""
        asked = {name: value for name, value in facts.items() if self._takes_all or name in self._names}
        try:
            said = self._success(**asked)
            # It may be a tensor or an array with a single value.
            return otherwise if said is None else "success" if bool(said) else "failed"
        except Exception as error:  # noqa: BLE001 - nothing that somebody's own function raises may stop training
            if not self._has_warned:
                _logger.warning(
                    "success() raised %r; completions for which it raises are recorded without success", error
                )
            self._has_warned = True
            return otherwise


class _CompletionRecorder:
    """Replaces the two methods of a trainer that generate and score completions."""

    def __init__(self, trainer: Any, callback: OpenManusCallback) -> None:
        self.judge: _Judge | None = None
        self._trainer = trainer
        self._callback = callback
        self._generate = getattr(trainer, _GENERATE)
        self._score = getattr(trainer, _SCORE)
        self._batch: _Batch | None = None
        self._parent_id: str | None = None
        self._group_count = 0
        self._has_warned = False

    def score(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any, *more: Any) -> Any:
        """Call the trainer's scoring, and keep its arguments and results."""
        rewards = self._score(inputs, prompts, completions, completion_ids_list, *more)
        self._batch = _Batch(
            inputs=inputs,
            prompts=prompts,
            completions=completions,
            completion_ids=completion_ids_list,
            rewards=rewards,
        )
        return rewards

    def generate(self, inputs: Any) -> Any:
        """Call the trainer's generation and scoring, and record the results."""
        output = self._generate(inputs)
        batch, self._batch = self._batch, None
        try:
            if batch is not None:
                self._record(batch, output)
        except _UNEXPECTED as error:
            if not self._has_warned:
                _logger.warning("completions could not be recorded (trl %s): %r", trl.__version__, error)
            self._has_warned = True
        return output

    def _record(self, batch: _Batch, output: Mapping[str, Any]) -> None:
        trainer = self._trainer
        is_training = trainer.model.training
        if trainer.state.is_world_process_zero:
            # There is no run yet in an evaluation before training.
            self._callback.ensure_run(trainer.args, trainer.state, trainer.model)
        parent = self._callback.step if is_training else self._callback.evaluation(trainer.state)
        group_size = trainer.num_generations if is_training else trainer.num_generations_eval
        # TRL distributes completions in order, so two processes may share a group: both derive the same number for it.
        first = trainer.accelerator.process_index * len(batch.prompts)
        rewards = batch.rewards[first : first + len(batch.prompts)].tolist()
        if parent is None or parent.id != self._parent_id:
            self._parent_id, self._group_count = parent.id if parent is not None else None, 0
        group: Group | None = None
        for place, tokens in enumerate(self._tokens(batch, output)):
            number = self._group_count + (first + place) // group_size
            if parent is not None and (group is None or group.number != number):
                group = _group(parent, number, batch.prompts[place], batch.inputs[place])
            with self._rollout(group, batch.prompts[place], batch.inputs[place]) as rollout:
                self._log(rollout, batch, place, rewards[place], tokens)
        self._group_count += math.ceil(len(batch.rewards) / group_size)

    def _rollout(self, group: Group | None, prompt: Any, row: Mapping[str, Any]) -> Rollout:
        version = self._trainer.state.global_step
        metadata = _metadata(row)
        if group is not None:
            return group.rollout(policy_version=version, metadata=metadata)
        # Groups of an evaluation refer to its row, which only the main process has.
        assert self._callback.run is not None
        return self._callback.run.rollout(
            step=self._callback.step_of(self._trainer.state),
            policy_version=version,
            source="evaluation",
            task_description=text_of(prompt),
            metadata=metadata,
        )

    def _log(self, rollout: Rollout, batch: _Batch, place: int, rewards: list[float], tokens: Tokens) -> None:
        prompt, completion = batch.prompts[place], batch.completions[place]
        names = self._trainer.reward_func_names
        # TRL turns None, of a reward function that does not apply to this prompt, into NaN.
        found = {name: value for name, value in zip(names, rewards, strict=True) if not math.isnan(value)}
        turns = turns_of(prompt, completion)
        version = self._trainer.state.global_step
        for turn, part in zip(turns, tokens_by_turn(tokens, turn_count=len(turns)), strict=True):
            rollout.log_turn(
                observation=turn.observation,
                action=turn.action,
                thought=turn.thought,
                messages=turn.messages,
                tool_calls=turn.tool_calls,
                generations=[part.as_generation(policy_version=version)] if part is not None else None,
                reward=found if turn is turns[-1] and found else None,
            )
        weights = dict(zip(names, self._trainer.reward_weights.tolist(), strict=True))
        status = "truncated" if tokens.finish_reason == "length" else "completed"
        if self.judge is not None:
            said = {"completion": completion, "completion_ids": tokens.completion_ids, "rewards": found}
            status = self.judge.status({**batch.inputs[place], "prompt": prompt, **said}, otherwise=status)
        rollout.complete(
            status,
            total_reward=sum(weights[name] * value for name, value in found.items()) if found else None,
        )

    def _tokens(self, batch: _Batch, output: Mapping[str, Any]) -> list[Tokens]:
        """Return the tokens of each completion without padding."""
        trainer = self._trainer
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        ends = {*trainer.eos_token_ids, tokenizer.pad_token_id}
        prompts, prompt_masks = output["prompt_ids"].tolist(), output["prompt_mask"].tolist()
        masks, advantages = output["completion_mask"].tolist(), output["advantages"].tolist()
        own = output["tool_mask"].tolist() if "tool_mask" in output else None
        logprobs = next((output[name].tolist() for name in _LOGPROBS if output.get(name) is not None), None)
        found = []
        for place, completion_ids in enumerate(batch.completion_ids):
            length = len(completion_ids)
            mine = [bool(flag) for flag in own[place][:length]] if own is not None else [True] * length
            advantage = advantages[place]
            found.append(
                Tokens(
                    prompt_ids=[i for i, kept in zip(prompts[place], prompt_masks[place], strict=True) if kept],
                    completion_ids=list(completion_ids),
                    mask=[bool(flag) and is_own for flag, is_own in zip(masks[place], mine, strict=False)],
                    own=mine,
                    advantages=advantage[:length] if isinstance(advantage, list) else [advantage],
                    logprobs=logprobs[place][:length] if logprobs is not None else None,
                    finish_reason="stop" if length and completion_ids[-1] in ends else "length",
                )
            )
        return found


def _group(parent: Step | Evaluation, number: int, prompt: Any, row: Mapping[str, Any]) -> Group:
    return parent.group(task=text_of(prompt), number=number, metadata=_metadata(row))


def _metadata(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the other columns of a dataset row, such as the expected answer, as reward functions receive them."""
    columns = {name: as_plain(value) for name, value in row.items() if name != "prompt" and value is not None}
    return {"columns": columns} if columns else None


def _environment(trainer: Any) -> str:
    """Return the name of the dataset; "prompts" if it has none."""
    info = getattr(getattr(trainer, "train_dataset", None), "info", None)
    return getattr(info, "dataset_name", None) or "prompts"
