"""The demo's world: text houses in which an agent is to find a thing and take it."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

ENVIRONMENT = "demo-house"
TURN_LIMIT = 18
# Half of the tasks are plain; the map does not show the floor, and a locked container needs its key.
HIDINGS = ("container", "floor", "container", "locked")
COLOURS = ("red", "blue", "green", "yellow", "white", "purple")
NOUNS = ("ball", "book", "mug", "lamp", "scarf", "vase")
# Never asked for in training: an agent that finds these has learned how to search, not what to grab.
HELD_OUT_NOUNS = ("lamp", "vase")
KEYS = ("brass key", "iron key")
ROOMS = ("kitchen", "hall", "study", "bedroom", "garden", "cellar", "attic", "library")
CONTAINERS = ("drawer", "cupboard", "basket", "box", "cabinet", "trunk", "wardrobe", "crate", "desk", "safe")
DIRECTIONS = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
TOOLS = {"look": None, "search_map": "query", "inspect": "object"}  # Each with the name of its parameter.


@dataclass(frozen=True)
class Task:
    """One thing to fetch in one house; the description is the instruction to the agent."""

    external_id: str
    split: str
    seed: int
    target: str
    hiding: str
    description: str


def make_tasks(split: str, seed: int) -> list[Task]:
    """Return 64 tasks to learn from ("train"), or 32 held-out ones ("test") with other houses and other targets."""
    choose = random.Random(f"tasks:{split}:{seed}")
    nouns = [noun for noun in NOUNS if (noun in HELD_OUT_NOUNS) == (split == "test")]
    targets = [f"{choose.choice(COLOURS)} {choose.choice(nouns)}" for _ in range(32 if split == "test" else 64)]
    # The ids are the same in every run, so that importing a task again updates it.
    return [
        Task(f"{split}-{seed}-{i:03d}", split, seed, target, HIDINGS[i % 4], f"Find the {target} and take it.")
        for i, target in enumerate(targets)
    ]


@dataclass
class Place:
    """A container, the floor or a wall of a room; its items are seen if it is open."""

    name: str
    room: str
    state: str  # open, closed, locked, or unseen
    items: list[str] = field(default_factory=list)
    key: str | None = None

    def describe(self) -> str:
        """Return what the agent sees of it; an empty text is nothing."""
        items = ", ".join(self.items) or "nothing"
        if self.name == "wall":
            return " ".join(f"The {key} hangs on the wall." for key in self.items)
        if self.state == "unseen":
            return "Something lies on the floor." if self.items else ""
        if self.name == "floor":
            return f"On the floor: {items}."
        if self.state == "open":
            return f"There is an open {self.name}, in it: {items}."
        return f"There is a {self.state} {self.name}."


@dataclass(frozen=True)
class Result:
    """What a command did: the answer, the rewards by component, and the calls of tools."""

    text: str
    rewards: dict[str, float]
    tool_calls: list[dict[str, Any]]


class ToolFailure(Exception):
    """A tool could not do what it was asked."""


class House:
    """One episode in the house of a task; the same task always builds the same house."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.turn_count = 0
        self.taken: str | None = None
        choose = random.Random(f"house:{task.external_id}")
        rooms = choose.sample(ROOMS, 4)
        self.room = rooms[0]
        self.places = _furnish(task, rooms, choose)
        self.exits = _connect(rooms, choose)
        self._keys_held: list[str] = []
        self._keys_known: list[str] = []
        self._key = next((place.key for place in self.places if place.key), None)
        self._target_room = self.place_of(task.target).room
        self._reached = self._milestones()

    @property
    def outcome(self) -> str | None:
        """How the episode ended: success, failed or truncated; None while it goes on."""
        if self.taken is not None:
            return "success" if self.taken == self.task.target else "failed"
        return "truncated" if self.turn_count >= TURN_LIMIT else None

    def observe(self) -> str:
        """Describe what is seen from here."""
        seen = [f"You are in the {self.room}.", f"Exits: {', '.join(self.exits[self.room])}."]
        seen += [text for place in self._places_here() if (text := place.describe())]
        return " ".join([*seen, f"You carry {', '.join(self._keys_held) or 'nothing'}."])

    def commands(self) -> list[str]:
        """Return what can be tried here and now."""
        commands = ["look", *(f"search_map {thing}" for thing in (self.task.target, *self._keys_known))]
        commands += [f"go {direction}" for direction in self.exits[self.room]]
        for place in self._places_here():
            if place.name in CONTAINERS:
                commands.append(f"inspect {place.name}")
            if place.state in ("closed", "locked"):
                commands.append(f"open {place.name}")
            if place.state == "locked":
                commands += [f"unlock {place.name} with {key}" for key in self._keys_held]
            if place.state == "open":
                commands += [f"take {item}" for item in place.items]
        return commands

    def step(self, command: str) -> Result:
        """Carry out one of the commands."""
        if self.outcome is not None:
            raise ValueError("the episode is over; build a new House")
        self.turn_count += 1
        verb, _, argument = command.partition(" ")
        rewards = {"turn": -0.01}
        error = None
        started = time.perf_counter()
        try:
            text: str = getattr(self, f"_{verb}")(argument)
        except ToolFailure as failure:
            text, error = f"{verb} failed: {failure}.", str(failure)
            rewards["failed_tool"] = -0.03
        elapsed_ms = (time.perf_counter() - started) * 1000
        milestones = self._milestones()
        rewards |= dict.fromkeys(sorted(milestones - self._reached), 0.3)
        self._reached |= milestones
        calls = [_tool_call(verb, argument, text, error, elapsed_ms)] if verb in TOOLS else []
        return Result(text, rewards | self._final_rewards(), calls)

    def place_of(self, thing: str) -> Place:
        """Return where a thing lies now, or the place of that name."""
        return next(place for place in self.places if thing in place.items or thing == place.name)

    def route(self, goal: str) -> list[str]:
        """Return the directions of the shortest way from here, breadth first."""
        routes: dict[str, list[str]] = {self.room: []}
        waiting = deque(routes)
        while goal not in routes:
            room = waiting.popleft()
            for direction, beyond in self.exits[room].items():
                if beyond not in routes:
                    routes[beyond] = [*routes[room], direction]
                    waiting.append(beyond)
        return routes[goal]

    def _places_here(self) -> list[Place]:
        return [place for place in self.places if place.room == self.room]

    def _milestones(self) -> set[str]:
        """Return the intermediate goals that are reached now; each is rewarded the first time."""
        reached = {
            "found_the_room": self.room == self._target_room,
            "learned_the_key": self._key in self._keys_known,
            "found_the_key": self._key in self._keys_held,
            "saw_the_target": self.task.target in self.observe(),
        }
        return {milestone for milestone, is_reached in reached.items() if is_reached}

    def _final_rewards(self) -> dict[str, float]:
        if self.outcome is None:
            return {}
        if self.outcome == "success":
            return {"success": 1.0, "efficiency": 0.3 * (1 - self.turn_count / TURN_LIMIT)}
        return {"success": 0.0} if self.taken is None else {"success": 0.0, "wrong_thing": -0.1}

    # What a command does: the first three are tools.

    def _look(self, _: str) -> str:
        next(place for place in self._places_here() if place.name == "floor").state = "open"
        return f"You look around the {self.room}."

    def _search_map(self, thing: str) -> str:
        if self.room == "cellar":
            raise ToolFailure("no signal in the cellar")
        room = next((place.room for place in self.places if thing in place.items and place.name != "floor"), None)
        if room is None:
            raise ToolFailure(f"the {thing} is not on the map")
        return f"The {thing} is in the {room}. Route: {', '.join(self.route(room)) or 'none, you are there'}."

    def _inspect(self, name: str) -> str:
        container = self.place_of(name)
        if container.state == "open":
            raise ToolFailure(f"the {name} is open, there is nothing to find out")
        if container.key is None:
            return f"The {name} is not locked."
        if container.key not in self._keys_known:
            self._keys_known.append(container.key)
        return f"The {name} takes the {container.key}."

    def _go(self, direction: str) -> str:
        self.room = self.exits[self.room][direction]
        return f"You go {direction}."

    def _open(self, name: str) -> str:
        container = self.place_of(name)
        if container.state == "locked":
            return f"The {name} is locked."
        container.state = "open"
        return f"You open the {name}."

    def _unlock(self, argument: str) -> str:
        name, _, key = argument.partition(" with ")
        if key != self.place_of(name).key:
            return f"The {key} does not fit."
        self.place_of(name).state = "open"
        return f"You unlock and open the {name}."

    def _take(self, item: str) -> str:
        self.place_of(item).items.remove(item)
        if item in KEYS:
            self._keys_held.append(item)
        else:
            self.taken = item
        return f"You take the {item}."


def _tool_call(name: str, argument: str, text: str, error: str | None, elapsed_ms: float) -> dict[str, Any]:
    """Return a call of a tool as `rollout.log_turn` takes it."""
    parameter = TOOLS[name]
    call = {"tool_name": name, "tool_input": {parameter: argument} if parameter else {}, "success": error is None}
    return {**call, "tool_output": None if error else text, "error_message": error, "execution_time_ms": elapsed_ms}


def _furnish(task: Task, rooms: list[str], choose: random.Random) -> list[Place]:
    """Put containers, decoys, keys and the target into the rooms; the target is never in the first one."""
    containers = [Place(name, rooms[i % 4], "closed") for i, name in enumerate(choose.sample(CONTAINERS, 6))]
    floors = {room: Place("floor", room, "unseen") for room in rooms}
    walls = {room: Place("wall", room, "open") for room in rooms}
    things = [f"{colour} {noun}" for colour in COLOURS for noun in NOUNS]
    for index, decoy in enumerate(choose.sample([thing for thing in things if thing != task.target], 4)):
        place = floors[choose.choice(rooms)] if index % 3 == 0 else choose.choice(containers)
        place.items.append(decoy)
    for key in KEYS:
        walls[choose.choice(rooms)].items.append(key)
    if task.hiding == "floor":
        floors[choose.choice(rooms[1:])].items.append(task.target)
    else:
        hiding_place = choose.choice([container for container in containers if container.room != rooms[0]])
        hiding_place.items.append(task.target)
        if task.hiding == "locked":
            hiding_place.state, hiding_place.key = "locked", choose.choice(KEYS)
    return [*containers, *walls.values(), *floors.values()]


def _connect(rooms: list[str], choose: random.Random) -> dict[str, dict[str, str]]:
    """Put each room next to an earlier one, so that every room can be reached; return the exits of each."""
    at = {(0, 0): rooms[0]}
    for room in rooms[1:]:
        beside = ((x + dx, y + dy) for x, y in at for dx, dy in DIRECTIONS.values())
        at[choose.choice([position for position in beside if position not in at])] = room
    return {
        room: {way: at[x + dx, y + dy] for way, (dx, dy) in DIRECTIONS.items() if (x + dx, y + dy) in at}
        for (x, y), room in at.items()
    }
