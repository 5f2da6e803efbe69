"""Steps, groups, rollouts and evaluations of a run; each can be used as a context manager or by plain calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import isfinite
from types import TracebackType
from typing import Any, Self

from openmanus_rl.media.content import Blob, Lifter, Unkept
from openmanus_rl.recorder.chats import Conversation, TokenHistory
from openmanus_rl.recorder.fields import check_end, check_word, prepared, whole
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.recorder.values import as_number, as_reward, as_tool_call, describe
from openmanus_rl.records.ids import IdSequence, creation_change_id, group_id, new_id, validation_id
from openmanus_rl.records.plain import as_text

__all__ = ["Block", "Evaluation", "Group", "Rollout", "Step"]

MakeRollout = Callable[..., "Rollout"]


class Block:
    """Something with a status: it starts, and ends once."""

    _kind: str

    def __init__(self, recording: Recording, row_id: str, *, change_id: str, **fields: Any) -> None:
        self.id = row_id
        self._recording = recording
        self._ended = False
        begun = {"id": row_id, "status": "running", "status_change_id": change_id}
        recording.append(self._kind, {**begun, **prepared(self._kind, fields)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._end("completed")
        else:
            self._end("failed" if isinstance(error, Exception) else "interrupted", message=describe(error))

    def _end(self, status: str, *, message: str | None = None, **fields: Any) -> None:
        check_end(self._kind, status)
        if not self._ended:
            self._ended = True
            self._change(status=status, status_message=message, status_change_id=new_id(), **fields)

    def _change(self, **fields: Any) -> None:
        self._recording.append(self._kind, {"id": self.id, **prepared(self._kind, fields)})


class Rollout(Block):
    """One episode. Turns are numbered in the order in which they are logged."""

    _kind = "rollouts"
    _turn_ids: IdSequence | None = None

    def __init__(self, recording: Recording, row_id: str | None = None, **fields: Any) -> None:
        super().__init__(recording, row_id or new_id(), change_id=new_id(), **fields)
        self._turns = 0
        self._rewards: list[float] = []

    def log_turn(
        self,
        *,
        observation: Any = None,
        action: Any = None,
        thought: str | None = None,
        reward: float | Mapping[str, float] | None = None,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        memory_summary: str | None = None,
        messages: Sequence[Any] | None = None,
        generations: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
        images: Sequence[Any] | None = None,
        step_number: int | None = None,
        **further: Any,
    ) -> str:
        """Record a turn and return its id.

        Observations and actions that are not text, such as dicts and arrays, are stored as JSON. A reward is a number,
        or a dict of components. `messages` is the whole chat that the model was given; only new messages are stored.
        `generations` are the model's tokens: prompt_ids, completion_ids, logprobs, mask, advantages, policy_version.
        `images` are bytes, paths, PIL images or arrays, or {"image": …, "kind": "frame"}.
        """
        # Not a cached_property, which slows down all attributes of an object.
        if self._turn_ids is None:
            self._turn_ids = IdSequence()
        turn_id = self._turn_ids.next_id()
        if step_number is None:
            step_number = self._turns
            self._turns += 1
        else:
            step_number = whole(step_number, "step_number")
            self._turns = max(self._turns, step_number + 1)
        record: dict[str, Any] = {"id": turn_id, "rollout_id": self.id, "step_number": step_number}
        if observation is not None:
            record["observation"] = as_text(observation)
        if action is not None:
            record["action"] = as_text(action)
        if thought is not None:
            record["thought"] = as_text(thought)
        if memory_summary is not None or further:
            record |= prepared("agent_states", {"memory_summary": memory_summary, **further})
        media = [] if images is None else [self._media(turn_id, *one) for one in _images_and_kinds(images)]
        if messages is not None:
            fields, found = self._placed(messages)
            record |= fields
            # A screenshot may be given both as an image and in the chat: it is one.
            known = {path for _, path in media if path is not None}
            of_chat = [self._media(turn_id, content, None) for content in found]
            media += [one for one in of_chat if one[1] not in known]
        if generations:
            given = [generations] if isinstance(generations, Mapping) else generations
            record["generations"] = [self._tokens.add(generation) for generation in given]
        if tool_calls:
            record["tool_calls"] = [as_tool_call(call) for call in tool_calls]
        if reward.__class__ is float and isfinite(reward):
            self._rewards.append(reward)
            record["reward"] = reward
        elif reward is not None:
            record["rewards"] = self._rewarded(reward)
        self._recording.append("agent_states", record)
        for of_turn, _ in media:
            self._recording.append_media(of_turn)
        return turn_id

    def log_media(self, data: Any, *, kind: str | None = None, turn_id: str | None = None, **fields: Any) -> str | None:
        """Record an image, a video, audio or a file and return its path in the bucket `media`.

        Equal content is stored once. Without a `kind`, it is detected from the bytes. Returns None if there was no
        space to keep it, which `run.stats` counts as lost.
        """
        record, path = self._media(turn_id, data, kind, **fields)
        self._recording.append_media(record)
        if path is not None and kind == "video":
            self._change(video_path=path)
        return path

    def log_validation(self, verdict: str, *, validator_name: str = "default", **fields: Any) -> None:
        """Record a validator's verdict: pass, fail or error. Fields are columns of `validations`, such as score."""
        check_word("validations", "verdict", verdict)
        record = prepared("validations", {"verdict": verdict, "validator_name": validator_name, **fields})
        row_id = validation_id(self.id, fields.get("validator_id"), validator_name)
        self._recording.append("validations", {"id": row_id, "rollout_id": self.id, **record})

    def complete(
        self,
        status: str = "completed",
        *,
        total_reward: float | None = None,
        step_count: int | None = None,
        message: str | None = None,
        **fields: Any,
    ) -> None:
        """End the rollout. Total reward and step count default to those of the logged turns.

        Raises `InvalidInput` for an unknown status.
        """
        if total_reward is None and self._rewards:
            total_reward = sum(self._rewards)
        self._end(
            status,
            message=message,
            total_reward=total_reward,
            step_count=self._turns if step_count is None else step_count,
            **fields,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.complete()
        elif isinstance(error, Exception):
            self.complete("error", message=describe(error), error=describe(error))
        else:
            # Ctrl-C, sys.exit or a cancelled task: not an error of the rollout.
            self.complete("interrupted", message=describe(error))

    # Created on first use: most rollouts have no chats or tokens.

    @cached_property
    def _conversation(self) -> Conversation:
        return Conversation()

    @cached_property
    def _tokens(self) -> TokenHistory:
        return TokenHistory()

    @cached_property
    def _lifter(self) -> Lifter:
        return Lifter(self._recording.media_folder)

    def _rewarded(self, reward: float | Mapping[str, float]) -> list[dict[str, Any]]:
        components = reward if isinstance(reward, Mapping) else {"step": reward}
        self._rewards += [number for value in components.values() if (number := as_reward(value)) is not None]
        return [{"reward_type": name, "reward": as_number(value)} for name, value in components.items()]

    def _placed(self, messages: Sequence[Any]) -> tuple[dict[str, Any], list[Blob | Unkept]]:
        """Return the fields of a turn with this chat, and the media that are new in it."""
        if not isinstance(messages, (list, tuple)):
            return {"messages": messages}, []
        lifted = [self._lifter.lift(message) for message in messages]
        fields = self._conversation.add([message for message, _ in lifted])
        contents = {id(message): found for message, found in lifted if found}
        return fields, [content for message in fields["messages"] for content in contents.get(id(message), ())]

    def _media(self, turn_id: str | None, data: Any, kind: str | None, **fields: Any) -> tuple[Any, str | None]:
        return self._recording.keep_media(data, kind=kind, rollout_id=self.id, agent_state_id=turn_id, **fields)


class Group:
    """Rollouts of one task that are compared with each other."""

    def __init__(
        self, recording: Recording, *, parent: str, make_rollout: MakeRollout, number: int, **fields: Any
    ) -> None:
        self.id = group_id(parent, number)
        self.number = number
        self._make_rollout = make_rollout
        recording.append("rollout_groups", {"id": self.id, "number": number, **prepared("rollout_groups", fields)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: groups have no status, their rollouts do."""

    def rollout(self, **fields: Any) -> Rollout:
        """Start a rollout in this group. Fields are columns of `rollouts`, such as task_description or seed."""
        return self._make_rollout(group_id=self.id, **fields)


class _Grouped(Block):
    """A block with groups: a step or an evaluation."""

    _parent_column: str

    def __init__(
        self,
        recording: Recording,
        row_id: str,
        *,
        make_rollout: MakeRollout,
        again_by: str | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(recording, row_id, change_id=creation_change_id(row_id, again_by=again_by), **fields)
        self._make_rollout = make_rollout
        self._groups = 0
        self._lock = threading.Lock()

    def group(
        self, *, task: str | None = None, task_id: str | None = None, number: int | None = None, **fields: Any
    ) -> Group:
        """Start a group of rollouts of one task. The processes of a job (RANK, WORLD_SIZE) use different numbers."""
        if number is None:
            with self._lock:
                number = self._recording.spread(self._groups)
                self._groups += 1
        else:
            number = whole(number, "number")
        return Group(
            self._recording,
            parent=self.id,
            make_rollout=self._make_rollout,
            number=number,
            task_description=task,
            task_id=task_id,
            **{self._parent_column: self.id},
            **fields,
        )


class Step(_Grouped):
    """A training step."""

    _kind = "training_steps"
    _parent_column = "training_step_id"

    def __init__(self, recording: Recording, row_id: str, *, number: int, **fields: Any) -> None:
        self.number = number
        super().__init__(recording, row_id, step=number, **fields)

    def rollout(self, **fields: Any) -> Rollout:
        """Start a rollout of this step outside of any group."""
        return self._make_rollout(step=self.number, **fields)

    def log(self, **fields: Any) -> None:
        """Set fields of the step: loss, kl, grad_norm, reward_mean, reward_std, tokens, phase, metrics."""
        self._change(**fields)

    def finish(self, status: str = "completed", *, message: str | None = None) -> None:
        """End the step."""
        self._end(status, message=message)

    def _end(self, status: str, *, message: str | None = None, **fields: Any) -> None:
        # With its number, for `run_state`: a resuming process may find this record still in the spool.
        super()._end(status, message=message, step=self.number, **fields)


class Evaluation(_Grouped):
    """An evaluation of a model, during training or as a baseline."""

    _kind = "evaluations"
    _parent_column = "evaluation_id"

    def rollout(self, **fields: Any) -> Rollout:
        """Start a rollout in a group of its own."""
        return self.group(task=fields.get("task_description"), task_id=fields.get("task_id")).rollout(**fields)

    def finish(self, status: str = "completed", *, message: str | None = None, **figures: Any) -> None:
        """End the evaluation. success_rate, mean_reward and mean_turns default to those of its rollouts."""
        self._end(status, message=message, **figures)


def _images_and_kinds(images: Any) -> list[tuple[Any, str]]:
    """Return images with their kinds. A single image is treated as a list of one."""
    given = images if isinstance(images, (list, tuple)) else [images]
    described = [one if isinstance(one, Mapping) else {"image": one} for one in given]
    return [(one.get("image"), one.get("kind", "image")) for one in described]
