"""Inspect AI's log writer: rollouts as samples of a `.eval` file, written as its own evaluations write them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspect_ai.event import ModelEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalPlan,
    EvalSample,
    EvalSpec,
    EvalStats,
    condense_sample,
    read_eval_log_sample_summaries,
)
from inspect_ai.log._recorders.eval import EvalRecorder
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall
from workloads import Messages, Rollout

from writers.base import Writer

# How often its own evaluations write a log out that has as many samples as ours.
_SAMPLES_A_FLUSH = 10


class InspectWriter(Writer):
    """A `.eval` file; it has no metric series."""

    def open(self) -> None:
        logging.getLogger("inspect_ai").setLevel(logging.ERROR)
        self._loop = asyncio.new_event_loop()
        self._recorder = EvalRecorder(str(self.folder))
        self._spec = EvalSpec(
            created="2026-01-01T00:00:00+00:00",
            task="bench",
            dataset=EvalDataset(),
            model="none",
            config=EvalConfig(),
        )
        self._wait(self._recorder.log_init(self._spec))
        self._wait(self._recorder.log_start(self._spec, EvalPlan()))
        self._samples = 0

    def _wait(self, step: Any) -> Any:
        return self._loop.run_until_complete(step)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        self.watch.call(self._log_rollout, number, rollout)

    def _log_rollout(self, number: int, rollout: Rollout) -> None:
        messages = [message for turn in rollout["turns"] for message in _messages(turn)]
        rewards = [turn["reward"] for turn in rollout["turns"]]
        self._log_sample(
            EvalSample(
                id=number,
                epoch=1,
                input=rollout["task_description"],
                target="",
                messages=messages,
                scores={"reward": Score(value=sum(rewards))},
                metadata={"rewards": rewards},
            )
        )

    def log_chat(self, number: int, states: list[Messages]) -> None:
        self.watch.call(self._log_chat, number, states)

    def _log_chat(self, number: int, states: list[Messages]) -> None:
        # As an agent has them: the same message objects, in each turn's list.
        said = [_CHAT[message["role"]](content=message["content"]) for message in states[-1]]
        events = [
            ModelEvent(
                model="none",
                input=said[: len(state) - 1],
                tools=[],
                tool_choice="auto",
                config=GenerateConfig(),
                output=ModelOutput.from_content("none", state[-1]["content"]),
            )
            for state in states
        ]
        score = {"reward": Score(value=float(len(states)))}
        self._log_sample(
            EvalSample(id=number, epoch=1, input="", target="", messages=said, events=events, scores=score)
        )

    def _log_sample(self, sample: EvalSample) -> None:
        self._wait(self._recorder.log_sample(self._spec, condense_sample(sample)))
        self._samples += 1
        if self._samples % _SAMPLES_A_FLUSH == 0:
            self._wait(self._recorder.flush(self._spec))

    def finish(self) -> None:
        self._wait(self._recorder.log_finish(self._spec, "success", EvalStats(), None, None, header_only=True))

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        logs = list(folder.glob("*.eval"))
        return {"metrics": 0, "rollouts": len(read_eval_log_sample_summaries(str(logs[0]))) if logs else 0}


_CHAT: dict[str, type[ChatMessage]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def _messages(turn: Mapping[str, Any]) -> list[ChatMessage]:
    call = turn["tool_calls"][0]
    said = ToolCall(id="0", function=call["tool_name"], arguments=call["tool_input"])
    return [
        ChatMessageUser(content=turn["observation"]),
        ChatMessageAssistant(content=turn["action"], tool_calls=[said], metadata={"thought": turn["thought"]}),
        ChatMessageTool(content=call["tool_output"], tool_call_id="0", function=call["tool_name"]),
    ]
