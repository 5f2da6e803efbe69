"""Inspect AI's log writer: rollouts as samples of a `.eval` file, written as its own evaluations write them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspect_ai import log, model
from inspect_ai.event import ModelEvent
from inspect_ai.log._recorders.eval import EvalRecorder
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

from benchmarks.workloads import Rollout
from benchmarks.writers import Writer, total_reward

# How often its own evaluations write out a log that has as many samples as ours.
_SAMPLES_PER_FLUSH = 10
_ROLES = {
    "system": model.ChatMessageSystem,
    "user": model.ChatMessageUser,
    "assistant": model.ChatMessageAssistant,
}


class InspectWriter(Writer):
    """A `.eval` file; it has no metric series."""

    def open(self) -> None:
        logging.getLogger("inspect_ai").setLevel(logging.ERROR)
        self._loop = asyncio.new_event_loop()
        self._recorder = EvalRecorder(str(self.folder))
        named = {"created": "2026-01-01T00:00:00+00:00", "task": "bench", "model": "none"}
        self._spec = log.EvalSpec(**named, dataset=log.EvalDataset(), config=log.EvalConfig())
        self._wait(self._recorder.log_init(self._spec))
        self._wait(self._recorder.log_start(self._spec, log.EvalPlan()))
        self._samples = 0

    def _wait(self, step: Any) -> Any:
        return self._loop.run_until_complete(step)

    def log_rollout(self, number: int, rollout: Rollout) -> None:
        self.call(self._log_sample, number, rollout)

    def _log_sample(self, number: int, rollout: Rollout) -> None:
        turns = rollout["turns"]
        contents = _chat(turns) if "messages" in turns[0] else _turns(turns)
        contents |= {"input": rollout["task_description"], "scores": {"reward": Score(value=total_reward(rollout))}}
        sample = log.EvalSample(id=number, epoch=1, target="", **contents)
        self._wait(self._recorder.log_sample(self._spec, log.condense_sample(sample)))
        self._samples += 1
        if self._samples % _SAMPLES_PER_FLUSH == 0:
            self._wait(self._recorder.flush(self._spec))

    def finish(self) -> None:
        self._wait(self._recorder.log_finish(self._spec, "success", log.EvalStats(), None, None, header_only=True))

    @classmethod
    def stored(cls, folder: Path) -> dict[str, int]:
        logs = list(folder.glob("*.eval"))
        return {"metrics": 0, "rollouts": len(log.read_eval_log_sample_summaries(str(logs[0]))) if logs else 0}


def _turns(turns: list[Mapping[str, Any]]) -> dict[str, Any]:
    messages: list[model.ChatMessage] = []
    for turn in turns:
        call = turn["tool_calls"][0]
        called = ToolCall(id="0", function=call["tool_name"], arguments=call["tool_input"])
        thought = {"thought": turn["thought"]}
        messages += [
            model.ChatMessageUser(content=turn["observation"]),
            model.ChatMessageAssistant(content=turn["action"], tool_calls=[called], metadata=thought),
            model.ChatMessageTool(content=call["tool_output"], tool_call_id="0", function=call["tool_name"]),
        ]
    return {"messages": messages, "metadata": {"rewards": [turn["reward"] for turn in turns]}}


def _chat(turns: list[Mapping[str, Any]]) -> dict[str, Any]:
    # As an agent has them: the same message objects, in each turn's list.
    said = [_ROLES[message["role"]](content=message["content"]) for message in turns[-1]["messages"]]
    fixed: dict[str, Any] = {"model": "none", "tools": [], "tool_choice": "auto", "config": model.GenerateConfig()}
    events = []
    for turn in turns:
        *before, answer = turn["messages"]
        output = model.ModelOutput.from_content("none", answer["content"])
        events.append(ModelEvent(input=said[: len(before)], output=output, **fixed))
    return {"messages": said, "events": events}
