"""A small text world: an agent reads, chooses one of the commands, and something happens."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from openmanus_rl.demo.blueprint import KEYS, Container, lay_out
from openmanus_rl.demo.tasks import HouseTask

__all__ = ["TOOLS", "TURN_LIMIT", "House", "Outcome", "StepResult", "ToolCall"]

TURN_LIMIT = 18
TOOLS = ("look", "search_map", "inspect")
STEP_COST = 0.01
FAILED_TOOL_COST = 0.03
MILESTONE_REWARD = 0.3
WRONG_THING_COST = 0.1
SUCCESS_REWARD = 1.0
EFFICIENCY_REWARD = 0.3

# Thick walls: the map finds no signal there.
_ROOM_WITHOUT_SIGNAL = "cellar"

Outcome = Literal["success", "failed", "truncated"]


@dataclass(frozen=True)
class ToolCall:
    """One use of a tool and what came of it."""

    tool_name: str
    tool_input: dict[str, Any]
    tool_output: str | None
    success: bool
    error_message: str | None
    execution_time_ms: float


@dataclass(frozen=True)
class StepResult:
    """What a command brought about; the reward comes with its parts, `outcome` is None while the episode goes on."""

    text: str
    reward: float
    reward_parts: dict[str, float]
    tool_calls: tuple[ToolCall, ...]
    outcome: Outcome | None


class ToolFailure(Exception):
    """A tool could not do what it was asked."""


class House:
    """One episode in the house of a task."""

    def __init__(self, task: HouseTask) -> None:
        self.task = task
        self.turn_count = 0
        self.taken: str | None = None
        self._plan = lay_out(task)
        self._room = self._plan.start
        self._keys_held: list[str] = []
        self._keys_heard_of: list[str] = []
        self._rooms_looked_at: set[str] = set()
        self._lock = next((box for box in self._plan.containers.values() if box.is_locked), None)
        self._target_room = self._plan.room_of(task.target)
        self._milestones = self._reached_milestones()

    def observe(self) -> str:
        """Describe what is seen from here."""
        sentences = [f"You are in the {self._room}.", f"Exits: {', '.join(self._plan.exits[self._room])}."]
        sentences += [_describe(name, box) for name, box in self._containers_here()]
        sentences += [f"The {key} hangs on the wall." for key in self._plan.walls[self._room]]
        on_floor = self._plan.floor[self._room]
        if self._room in self._rooms_looked_at:
            sentences.append(f"On the floor: {', '.join(on_floor) or 'nothing'}.")
        elif on_floor:
            sentences.append("Something lies on the floor.")
        sentences.append(f"You carry {', '.join(self._keys_held) or 'nothing'}.")
        return " ".join(sentences)

    def commands(self) -> list[str]:
        """Return what can be tried here and now."""
        commands = ["look"]
        commands += [f"search_map {thing}" for thing in (self.task.target, *self._keys_heard_of)]
        commands += [f"go {direction}" for direction in self._plan.exits[self._room]]
        for name, box in self._containers_here():
            commands.append(f"inspect {name}")
            if box.is_open:
                commands += [f"take {item}" for item in box.items]
            else:
                commands.append(f"open {name}")
            if box.is_locked:
                commands += [f"unlock {name} with {key}" for key in self._keys_held]
        commands += [f"take {key}" for key in self._plan.walls[self._room]]
        if self._room in self._rooms_looked_at:
            commands += [f"take {item}" for item in self._plan.floor[self._room]]
        return commands

    def step(self, command: str) -> StepResult:
        """Carry out one of the commands."""
        if self._outcome() is not None:
            raise ValueError("the episode is over; build a new House")
        self.turn_count += 1
        verb, _, argument = command.partition(" ")
        parts = {"turn": -STEP_COST}
        calls: tuple[ToolCall, ...] = ()
        if verb in TOOLS:
            call = self._call_tool(verb, argument)
            calls = (call,)
            text = call.tool_output or f"{verb} failed: {call.error_message}."
            if not call.success:
                parts["failed_tool"] = -FAILED_TOOL_COST
        else:
            act = {"go": self._go, "open": self._open, "unlock": self._unlock, "take": self._take}[verb]
            text = act(argument)
        news = self._reached_milestones() - self._milestones
        self._milestones |= news
        parts |= dict.fromkeys(sorted(news), MILESTONE_REWARD)
        return StepResult(text, sum(parts.values()), parts, calls, self._outcome())

    def final_rewards(self) -> dict[str, float]:
        """Return the parts of the reward that are known only at the end."""
        if self.taken is None:
            return {"success": 0.0}
        if self.taken != self.task.target:
            return {"success": 0.0, "wrong_thing": -WRONG_THING_COST}
        return {"success": SUCCESS_REWARD, "efficiency": EFFICIENCY_REWARD * (1 - self.turn_count / TURN_LIMIT)}

    def _outcome(self) -> Outcome | None:
        if self.taken is not None:
            return "success" if self.taken == self.task.target else "failed"
        return "truncated" if self.turn_count >= TURN_LIMIT else None

    def _reached_milestones(self) -> set[str]:
        """Return what stands between the start and the goal and holds now; each is rewarded the first time."""
        key = self._lock.key if self._lock else None
        reached = {
            "found_the_room": self._room == self._target_room,
            "learned_the_key": key in self._keys_heard_of,
            "found_the_key": key in self._keys_held,
            "saw_the_target": self.task.target in self.observe(),
        }
        return {milestone for milestone, holds in reached.items() if holds}

    def _containers_here(self) -> list[tuple[str, Container]]:
        return [(name, box) for name, box in self._plan.containers.items() if box.room == self._room]

    # Tools ---------------------------------------------------------------------------------------------------------

    def _call_tool(self, name: str, argument: str) -> ToolCall:
        tool, parameter = {
            "look": (self._look, ""),
            "search_map": (self._search_map, "query"),
            "inspect": (self._inspect, "object"),
        }[name]
        output, error = None, None
        started = time.perf_counter()
        try:
            output = tool(argument)
        except ToolFailure as failure:
            error = str(failure)
        elapsed_ms = (time.perf_counter() - started) * 1000
        return ToolCall(name, {parameter: argument} if parameter else {}, output, error is None, error, elapsed_ms)

    def _look(self, _: str) -> str:
        self._rooms_looked_at.add(self._room)
        return f"You look around the {self._room}."

    def _search_map(self, thing: str) -> str:
        if self._room == _ROOM_WITHOUT_SIGNAL:
            raise ToolFailure(f"no signal in the {self._room}")
        room = self._plan.room_of(thing)
        if room is None or thing in self._plan.floor[room]:
            raise ToolFailure(f"the {thing} is not on the map")
        route = self._plan.route(self._room, room)
        return f"The {thing} is in the {room}. Route: {', '.join(route) or 'none, you are there'}."

    def _inspect(self, name: str) -> str:
        box = self._plan.containers[name]
        if box.is_open:
            raise ToolFailure(f"the {name} is open, there is nothing to find out")
        if box.key is None or not box.is_locked:
            return f"The {name} is not locked."
        if box.key not in self._keys_heard_of:
            self._keys_heard_of.append(box.key)
        return f"The {name} takes the {box.key}."

    # Deeds ---------------------------------------------------------------------------------------------------------

    def _go(self, direction: str) -> str:
        self._room = self._plan.exits[self._room][direction]
        return f"You go {direction}."

    def _open(self, name: str) -> str:
        box = self._plan.containers[name]
        if box.is_locked:
            return f"The {name} is locked."
        box.is_open = True
        return f"You open the {name}."

    def _unlock(self, argument: str) -> str:
        name, _, key = argument.partition(" with ")
        box = self._plan.containers[name]
        if key != box.key:
            return f"The {key} does not fit."
        box.is_locked, box.is_open = False, True
        return f"You unlock and open the {name}."

    def _take(self, item: str) -> str:
        places = [
            self._plan.floor[self._room],
            self._plan.walls[self._room],
            *(box.items for _, box in self._containers_here()),
        ]
        next(place for place in places if item in place).remove(item)
        if item in KEYS:
            self._keys_held.append(item)
        else:
            self.taken = item
        return f"You take the {item}."


def _describe(name: str, box: Container) -> str:
    if not box.is_open:
        return f"There is a {box.state} {name}."
    return f"There is an open {name}, in it: {', '.join(box.items) or 'nothing'}."
