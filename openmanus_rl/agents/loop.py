"""The loop of agents with a model: ask it, run the tools that it calls, record the turn, until there is an answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from openmanus_rl.agents.base import AgentError, LimitReached, Recorder, SafetyStop
from openmanus_rl.agents.models.replies import Call, Conversation, Outcome, Reply

__all__ = ["Sight", "Tools", "check_cost_limit", "work"]

_SAFE_DECISIONS = ("regular", "allowed", "allow")
_CUT_OFF = "Your answer was cut off at the limit of its length. Answer more briefly."


@dataclass(frozen=True)
class Sight:
    """What the agent sees before it acts."""

    text: str
    images: Sequence[Any] = ()
    info: Mapping[str, Any] = field(default_factory=dict)


class Tools(Protocol):
    """What the model can do, and what it sees."""

    reminder: str | None
    """What a model is told that calls no tool; None if its text is the answer."""

    def look(self, outcomes: Sequence[Outcome]) -> Sight:
        """Return what is seen now, after the outcomes of the last turn."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool. The mistakes of the model are outcomes with an error, only others are raised."""


def work(conversation: Conversation, tools: Tools, recorder: Recorder, *, sight: Sight) -> Any:
    """Return the answer of a conversation that was started; `sight` is what it was started with."""
    while True:
        recorder.check_limits()
        turn = _Turn(conversation, recorder, sight)
        reply = turn.ask()
        if not reply.calls:
            if tools.reminder is None and reply.text.strip() and not reply.is_cut_off:
                turn.log(action=reply.text)
                return reply.text
            turn.log(action=reply.text or None)
            conversation.say(_CUT_OFF if reply.is_cut_off else tools.reminder or "Call a tool, or give your answer.")
            continue
        try:
            turn.run(tools)
        finally:
            # What was done is recorded, also if the environment died of it.
            turn.log()
        if turn.outcomes[-1].ends:
            return turn.outcomes[-1].answer
        conversation.add_outcomes(reply.calls, turn.outcomes)
        sight = tools.look(turn.outcomes)


def check_cost_limit(conversation: Conversation, recorder: Recorder) -> None:
    """Raise before the first call if the cost is limited, but will not be known."""
    probe = Reply(input_tokens=0, output_tokens=0)
    if recorder.limits.max_cost_usd is not None and conversation.cost_usd(probe) is None:
        raise AgentError(
            f"max_cost_usd is set, but the prices of {conversation.model} are unknown",
            code="unknown_cost",
            hint="set input_usd_per_million_tokens and output_usd_per_million_tokens in the agent's options",
        )


class _Turn:
    """A turn that is being played, and is recorded once."""

    def __init__(self, conversation: Conversation, recorder: Recorder, sight: Sight) -> None:
        self._conversation = conversation
        self._recorder = recorder
        self._sight = sight
        self._messages = conversation.messages
        self._reply = Reply()
        self._model_ms = 0.0
        self._tool_calls: list[dict[str, Any]] = []
        self.outcomes: list[Outcome] = []

    def ask(self) -> Reply:
        """Return the model's reply; at a limit or a safety prompt, record it and stop before anything is done."""
        started = time.perf_counter()
        try:
            self._reply = self._conversation.ask(timeout_seconds=self._recorder.remaining_seconds)
        except AgentError:
            # A call that was ended by the time limit is not an error of the model.
            self._recorder.check_limits()
            raise
        self._model_ms = (time.perf_counter() - started) * 1000
        try:
            self._recorder.add_usage(
                input_tokens=self._reply.input_tokens or 0,
                output_tokens=self._reply.output_tokens or 0,
                cost_usd=self._conversation.cost_usd(self._reply),
            )
        except (LimitReached, AgentError):
            self.log()
            raise
        self._stop_at_safety_prompts()
        return self._reply

    def run(self, tools: Tools) -> None:
        """Run the tool calls in their order, up to one that ends the rollout."""
        for call in self._reply.calls:
            started = time.perf_counter()
            if call.problem is not None:
                outcome = Outcome(f"Error: {call.problem}", error=call.problem)
            else:
                self._stop_if_time_is_up()
                outcome = tools.call(call.name, call.arguments)
            self.outcomes.append(outcome)
            self._tool_calls.append(_tool_record(call, outcome, (time.perf_counter() - started) * 1000))
            if outcome.ends:
                return

    def log(self, *, action: Any = None) -> None:
        """Record the turn."""
        reply, environment_ms = self._reply, sum(call["execution_time_ms"] for call in self._tool_calls)
        said = [{"tool": call.name, "input": call.arguments} for call in reply.calls]
        rewards = [outcome.reward for outcome in self.outcomes if outcome.reward is not None]
        thoughts = [text for text in (reply.thought, reply.text if reply.calls else None) if text]
        info = _merged([self._sight.info, *(outcome.info for outcome in self.outcomes)])
        self._recorder.log_turn(
            observation=self._sight.text,
            action=said or action or reply.text or None,
            thought="\n".join(thoughts) or None,
            reward=sum(rewards) if rewards else None,
            tool_calls=self._tool_calls or None,
            messages=self._messages,
            generations=reply.generation,
            images=list(self._sight.images) or None,
            model_response=reply.response or None,
            info=info or None,
            duration_ms=self._model_ms + environment_ms,
            model_duration_ms=self._model_ms,
            environment_duration_ms=environment_ms,
        )

    def _stop_if_time_is_up(self) -> None:
        if self._recorder.remaining_seconds == 0:
            self._recorder.check_limits()

    def _stop_at_safety_prompts(self) -> None:
        for call in self._reply.calls:
            safety = call.arguments.get("safety_decision")
            decision = safety.get("decision") if isinstance(safety, Mapping) else safety
            if decision is not None and decision not in _SAFE_DECISIONS:
                why = safety.get("explanation") if isinstance(safety, Mapping) else None
                self.log()
                raise SafetyStop(f"the model asks for a person's confirmation of {call.name}: {why or decision}")


def _merged(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return all facts about a turn; lists, such as that of blocked addresses, are joined."""
    merged: dict[str, Any] = {}
    for info in infos:
        for name, value in info.items():
            before = merged.get(name)
            merged[name] = [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
    return merged


def _tool_record(call: Call, outcome: Outcome, elapsed_ms: float) -> dict[str, Any]:
    record = {
        "tool_name": call.name,
        "tool_input": dict(call.arguments),
        "tool_output": outcome.output,
        "success": outcome.error is None,
        "execution_time_ms": elapsed_ms,
    }
    return record if outcome.error is None else {**record, "error_message": outcome.error}
