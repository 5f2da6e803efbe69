"""How a house is laid out: its rooms, its containers and where things lie."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from openmanus_rl.demo.tasks import COLOURS, NOUNS, HouseTask

__all__ = ["CONTAINERS", "DIRECTIONS", "KEYS", "ROOMS", "Blueprint", "Container", "lay_out"]

KEYS = ("brass key", "iron key")

ROOMS = ("kitchen", "hall", "study", "bedroom", "garden", "cellar", "attic", "library")
CONTAINERS = ("drawer", "cupboard", "basket", "box", "cabinet", "trunk", "wardrobe", "crate", "desk", "safe")
DIRECTIONS = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
_ROOM_COUNT = 4
_CONTAINER_COUNT = 6
_DECOY_COUNT = 4


@dataclass
class Container:
    """Something to open; a locked one has the key that fits."""

    room: str
    items: list[str]
    is_open: bool = False
    is_locked: bool = False
    key: str | None = None

    @property
    def state(self) -> str:
        """How it looks from outside."""
        return "open" if self.is_open else "locked" if self.is_locked else "closed"


@dataclass
class Blueprint:
    """A house and where things lie in it now; a locked container's key hangs on a wall."""

    start: str
    exits: dict[str, dict[str, str]]
    containers: dict[str, Container]
    floor: dict[str, list[str]]
    walls: dict[str, list[str]]

    def room_of(self, thing: str) -> str | None:
        """Return the room in which a thing lies now."""
        places = [
            *self.floor.items(),
            *self.walls.items(),
            *((box.room, box.items) for box in self.containers.values()),
        ]
        return next((room for room, items in places if thing in items), None)

    def route(self, start: str, goal: str) -> list[str]:
        """Return the directions of the shortest way, breadth first."""
        routes: dict[str, list[str]] = {start: []}
        waiting = deque([start])
        while goal not in routes:
            room = waiting.popleft()
            for direction, beyond in self.exits[room].items():
                if beyond not in routes:
                    routes[beyond] = [*routes[room], direction]
                    waiting.append(beyond)
        return routes[goal]


def lay_out(task: HouseTask) -> Blueprint:
    """Build the house of a task: the same task gives the same house."""
    choose = random.Random(f"house:{task.external_id}")
    rooms = choose.sample(ROOMS, _ROOM_COUNT)
    names = choose.sample(CONTAINERS, _CONTAINER_COUNT)
    containers = {name: Container(room=rooms[i % _ROOM_COUNT], items=[]) for i, name in enumerate(names)}
    floor: dict[str, list[str]] = {room: [] for room in rooms}
    walls: dict[str, list[str]] = {room: [] for room in rooms}

    decoys = [f"{colour} {noun}" for colour in COLOURS for noun in NOUNS if f"{colour} {noun}" != task.target]
    for index, decoy in enumerate(choose.sample(decoys, _DECOY_COUNT)):
        place = floor[choose.choice(rooms)] if index % 3 == 0 else containers[choose.choice(names)].items
        place.append(decoy)
    for key in KEYS:
        walls[choose.choice(rooms)].append(key)

    start = rooms[0]
    if task.hiding == "floor":
        floor[choose.choice(rooms[1:])].append(task.target)
    else:
        hiding_place = choose.choice([box for box in containers.values() if box.room != start])
        hiding_place.items.append(task.target)
        if task.hiding == "locked":
            hiding_place.is_locked = True
            hiding_place.key = choose.choice(KEYS)
    return Blueprint(start=start, exits=_connect(rooms, choose), containers=containers, floor=floor, walls=walls)


def _connect(rooms: list[str], choose: random.Random) -> dict[str, dict[str, str]]:
    """Put each room beside one that is there already, so that all can be reached."""
    places = {(0, 0): rooms[0]}
    for room in rooms[1:]:
        beside = ((x + dx, y + dy) for x, y in places for dx, dy in DIRECTIONS.values())
        places[choose.choice([place for place in beside if place not in places])] = room
    return {
        room: {
            direction: places[x + dx, y + dy]
            for direction, (dx, dy) in DIRECTIONS.items()
            if (x + dx, y + dy) in places
        }
        for (x, y), room in places.items()
    }
