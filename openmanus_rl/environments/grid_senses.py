"""What is seen of a grid world: numbers for a policy, text for a language model."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters, digits
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openmanus_rl.environments.grid_layout import Layout
from openmanus_rl.environments.grid_spec import GridSpec

__all__ = ["Senses", "draw_text", "symbols_of"]

Numbers = NDArray[np.float32]

_WALL, _FREE = "#", "."
_USUAL = {"goal": "G", "item": "o", "trap": "T", "block": "B"}


class Senses:
    """Observes a world as its spec says; the numbers are from 0 to 1.

    A grid and a window have a plane of cells, row by row, for the walls, the agent, each object of the spec, and each
    of the other agents: 1 where it is. What is outside is a wall. Coordinates are x and y of the agent; x, y and
    whether it is there of each thing; x and y of the other agents.
    """

    def __init__(self, spec: GridSpec) -> None:
        self._spec = spec
        self._planes = 2 + len(spec.objects) + len(spec.others)
        self._radius = spec.observation.radius or 2
        # What is outside is a wall: a window is cut from a grid with a margin.
        self._margin = self._radius if spec.observation.kind == "window" else 0
        size = (spec.size.height, spec.size.width)
        self._walls = np.pad(np.zeros(size, np.float32), self._margin, constant_values=1)
        for x, y in spec.walls:
            self._walls[y + self._margin, x + self._margin] = 1

    @property
    def length(self) -> int:
        """Return how many numbers there are."""
        spec = self._spec
        if spec.observation.kind == "coordinates":
            things = sum(len(each.positions) + each.random for each in spec.objects)
            return 2 + 3 * things + 2 * len(spec.others)
        cells = spec.size.width * spec.size.height
        return self._planes * (cells if spec.observation.kind == "grid" else (2 * self._radius + 1) ** 2)

    def observe(self, layout: Layout) -> Numbers:
        """Return what the agent sees."""
        if self._spec.observation.kind == "coordinates":
            return self._coordinates(layout)
        planes = self._all_planes(layout)
        if self._spec.observation.kind == "window":
            (x, y), side = layout.agent, 2 * self._radius + 1
            planes = planes[:, y : y + side, x : x + side]
        return planes.reshape(-1)

    def _all_planes(self, layout: Layout) -> Numbers:
        planes, margin = np.zeros((self._planes, *self._walls.shape), np.float32), self._margin
        planes[0] = self._walls
        marks = [(1, layout.agent)]
        marks += [(2 + thing.number, thing.cell) for thing in layout.things if thing.cell is not None]
        marks += enumerate(layout.others, 2 + len(self._spec.objects))
        for plane, (x, y) in marks:
            planes[plane, y + margin, x + margin] = 1
        return planes

    def _coordinates(self, layout: Layout) -> Numbers:
        width, height = max(1, self._spec.size.width - 1), max(1, self._spec.size.height - 1)
        numbers = [layout.agent[0] / width, layout.agent[1] / height]
        for thing in layout.things:
            numbers += (0, 0, 0) if thing.cell is None else (thing.cell[0] / width, thing.cell[1] / height, 1)
        for x, y in layout.others:
            numbers += (x / width, y / height)
        return np.array(numbers, np.float32)


def symbols_of(spec: GridSpec) -> tuple[str, list[str], list[str]]:
    """Return the characters of the agent, of the objects and of the other agents, each another one."""
    given = [*(each.symbol for each in spec.objects), *(each.symbol for each in spec.agents)]
    taken = {_WALL, _FREE, " ", *given}

    def choose(symbol: str | None, wishes: Sequence[str]) -> str:
        if symbol is None:
            symbol = next(wish for wish in (*wishes, *ascii_letters, *digits) if wish not in taken)
            taken.add(symbol)
        return symbol

    agent = choose(spec.trained.symbol, "A")
    objects = [choose(each.symbol, _USUAL[each.kind] + each.name[0].upper() + each.name[0]) for each in spec.objects]
    return agent, objects, [choose(each.symbol, each.name[0] + each.name[0].upper()) for each in spec.others]


def draw_text(spec: GridSpec, layout: Layout) -> str:
    """Return a map of the world, and what its characters mean."""
    agent, objects, others = symbols_of(spec)
    rows = [[_FREE] * spec.size.width for _ in range(spec.size.height)]
    marks = [(cell, _WALL) for cell in spec.walls]
    marks += [(thing.cell, objects[thing.number]) for thing in layout.things if thing.cell is not None]
    marks += [*zip(layout.others, others, strict=True), (layout.agent, agent)]
    for (x, y), symbol in marks:
        rows[y][x] = symbol
    meanings = [f"{agent} you, at column {layout.agent[0]}, row {layout.agent[1]}", f"{_WALL} wall"]
    meanings += [f"{symbol} {_called(each)}" for symbol, each in zip(objects, spec.objects, strict=True)]
    meanings += [f"{symbol} {each.name}" for symbol, each in zip(others, spec.others, strict=True)]
    return "\n".join(["".join(row) for row in rows] + [", ".join(meanings)])


def _called(thing: Any) -> str:
    return str(thing.name) if thing.name == thing.kind else f"{thing.name} ({thing.kind})"
