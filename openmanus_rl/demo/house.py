"""The demo's world: text houses in which an agent is to find a thing and take it."""

from __future__ import annotations

import random
import time
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
TOOLS = {"look": None, "search_map": "query", "inspect": "object"}  # Each with the name of its parameter.


@dataclass(frozen=True)
class Task:
    """One thing to fetch in one house."""

    external_id: str
    split: str
    seed: int
    target: str
    hiding: str

    @property
    def description(self) -> str:
        """The instruction to the agent."""
        return f"Find the {self.target} and take it."


def make_tasks(split: str, seed: int) -> list[Task]:
    """Return 64 tasks to learn from ("train"), or 32 held-out ones ("test") with other houses and other targets."""
    choose = random.Random(f"tasks:{split}:{seed}")
    nouns = [noun for noun in NOUNS if (noun in HELD_OUT_NOUNS) == (split == "test")]
    targets = [f"{choose.choice(COLOURS)} {choose.choice(nouns)}" for _ in range(32 if split == "test" else 64)]
    # The ids are the same in every run, so that importing a task again updates it.
    return [Task(f"{split}-{seed}-{i:03d}", split, seed, target, HIDINGS[i % 4]) for i, target in enumerate(targets)]


@dataclass
class Place:
    """A container, or the floor or the wall of a room; its items are seen if it is open."""

    name: str
    room: str
    state: str  # open, closed, locked, or unseen
    items: list[str] = field(default_factory=list)
    key: str | None = None

    def describe(self) -> str:
        """Return what the agent sees of it."""
        items = ", ".join(self.items) or "nothing"
        if self.state == "unseen":
            return f"{'Something' if self.items else 'Nothing'} lies on the {self.name}."
        if self.name not in CONTAINERS:
            return f"On the {self.name}: {items}."
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
        self.rooms = choose.sample(ROOMS, 4)
        self.room = choose.choice(self.rooms)
        self.places = _furnish(task, self.room, self.rooms, choose)
        self._keys_held: list[str] = []
        self._keys_known: list[str] = []
        self._hiding_place = self.place_of(task.target)
        self._reached = self._milestones()

    @property
    def outcome(self) -> str | None:
        """How the episode ended: success, failed or truncated; None while it goes on."""
        if self.taken is not None:
            return "success" if self.taken == self.task.target else "failed"
        return "truncated" if self.turn_count >= TURN_LIMIT else None

    def observe(self) -> str:
        """Describe what is seen from here."""
        seen = [f"You are in the {self.room}.", f"Exits: {', '.join(self.exits())}."]
        seen += [place.describe() for place in self._places_here()]
        return " ".join([*seen, f"You carry {', '.join(self._keys_held) or 'nothing'}."])

    def commands(self) -> list[str]:
        """Return what can be tried here and now."""
        commands = ["look", *(f"search_map {thing}" for thing in (self.task.target, *self._keys_known))]
        commands += [f"go {direction}" for direction in self.exits()]
        for place in self._places_here():
            if place.name in CONTAINERS:
                commands.append(f"inspect {place.name}")
            if place.state in ("closed", "locked"):
                commands.append(f"open {place.name}")
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
        call: dict[str, Any] = {"tool_name": verb, "tool_input": {TOOLS.get(verb): argument} if argument else {}}
        started = time.perf_counter()
        try:
            text: str = getattr(self, f"_{verb}")(argument)
            call |= {"tool_output": text, "success": True}
        except ToolFailure as failure:
            text = f"{verb} failed: {failure}."
            call |= {"error_message": str(failure), "success": False}
            rewards["failed_tool"] = -0.03
        call["execution_time_ms"] = (time.perf_counter() - started) * 1000
        milestones = self._milestones()
        rewards |= dict.fromkeys(sorted(milestones - self._reached), 0.3)
        self._reached |= milestones
        return Result(text, rewards | self._final_rewards(), [call] if verb in TOOLS else [])

    def place_of(self, thing: str) -> Place:
        """Return where a thing lies now, or the place of that name."""
        return next(place for place in self.places if thing in place.items or thing == place.name)

    def exits(self) -> dict[str, str]:
        """Return the rooms next to this one, by direction."""
        here = self.rooms.index(self.room)
        neighbours = {"west": here - 1, "east": here + 1}
        return {way: self.rooms[i] for way, i in neighbours.items() if 0 <= i < len(self.rooms)}

    def route(self, goal: str) -> list[str]:
        """Return the directions from here; the rooms are in a row."""
        distance = self.rooms.index(goal) - self.rooms.index(self.room)
        return ["east" if distance > 0 else "west"] * abs(distance)

    def _places_here(self) -> list[Place]:
        return [place for place in self.places if place.room == self.room]

    def _milestones(self) -> set[str]:
        """Return the intermediate goals that are reached now; each is rewarded the first time."""
        reached = {
            "found_the_room": self.room == self._hiding_place.room,
            "learned_the_key": self._hiding_place.key in self._keys_known,
            "found_the_key": self._hiding_place.key in self._keys_held,
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
        key = self.place_of(name).key
        if key is None:
            raise ToolFailure(f"the {name} has no lock")
        if key not in self._keys_known:
            self._keys_known.append(key)
        return f"The {name} takes the {key}."

    def _go(self, direction: str) -> str:
        self.room = self.exits()[direction]
        return f"You go {direction}."

    def _open(self, name: str) -> str:
        container = self.place_of(name)
        if container.state == "locked" and container.key not in self._keys_held:
            return f"The {name} is locked."
        container.state = "open"
        return f"You open the {name}."

    def _take(self, item: str) -> str:
        self.place_of(item).items.remove(item)
        if item in KEYS:
            self._keys_held.append(item)
        else:
            self.taken = item
        return f"You take the {item}."


def _furnish(task: Task, start: str, rooms: list[str], choose: random.Random) -> list[Place]:
    """Put containers, decoys, keys and the target into the rooms; the target is never where the agent starts."""
    containers = [Place(name, rooms[i % 4], "closed") for i, name in enumerate(choose.sample(CONTAINERS, 6))]
    floors = [Place("floor", room, "unseen") for room in rooms]
    walls = [Place("wall", room, "open") for room in rooms]
    decoys = [thing for colour in COLOURS for noun in NOUNS if (thing := f"{colour} {noun}") != task.target]
    for index, decoy in enumerate(choose.sample(decoys, 4)):
        choose.choice(floors if index % 3 == 0 else containers).items.append(decoy)
    for key in KEYS:
        choose.choice(walls).items.append(key)
    hiding_places = floors if task.hiding == "floor" else containers
    place = choose.choice([place for place in hiding_places if place.room != start])
    place.items.append(task.target)
    if task.hiding == "locked":
        place.state, place.key = "locked", choose.choice(KEYS)
    return [*containers, *walls, *floors]
