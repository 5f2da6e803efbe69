"""Where everything is at the start of an episode: what has a position, and what is placed at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openmanus_rl.environments.grid_space import Position, reachable
from openmanus_rl.environments.grid_spec import GridSpec, Object

__all__ = ["Layout", "Layouts", "Thing"]


@dataclass(slots=True)
class Thing:
    """One of the things that a spec's object stands for."""

    number: int
    """Which of the spec's objects it is."""
    cell: Position | None
    """None once it is gone."""


@dataclass(slots=True)
class Layout:
    """Where everything is."""

    agent: Position
    others: list[Position]
    things: list[Thing]


class Layouts:
    """Draws layouts in which every goal and item can be reached, as far as the spec makes it possible.

    Random things are placed in the region of the agent's start. A trap or block that would cut off a goal or item is
    put elsewhere, and left out if there is no other place.
    """

    def __init__(self, spec: GridSpec) -> None:
        self._spec = spec
        start = spec.trained.start
        wanted = sum(each.random for each in spec.objects) + sum(each.start is None for each in spec.agents)
        rooms = [spec.free_cells(region) for region in spec.regions() if start is None or start in region]
        self._rooms = [room for room in rooms if len(room) >= wanted]
        self._starts = [(cell, room) for room in self._rooms for cell in room]

    def draw(self, random: np.random.Generator) -> Layout:
        """Place everything."""
        spec, start = self._spec, self._spec.trained.start
        if start is None:
            start, room = self._starts[int(random.integers(len(self._starts)))]
        else:
            (room,) = self._rooms
        free = [cell for cell in room if cell != start]
        things = [Thing(number, cell) for number, each in enumerate(spec.objects) for cell in each.positions]
        others = [each.start if each.start is not None else _taken(free, random) for each in spec.others]
        layout = Layout(start, others, things)
        # What is to be reached first, then what may be in the way.
        for kind in ("item", "goal", "trap", "block"):
            for number, each in enumerate(spec.objects):
                for _ in range(each.random if each.kind == kind else 0):
                    things.append(Thing(number, self._place(layout, each, free, random)))
        # In the order of the spec, so that the same thing has the same place in observations.
        things.sort(key=lambda thing: thing.number)
        return layout

    def _place(
        self, layout: Layout, thing: Object, free: list[Position], random: np.random.Generator
    ) -> Position | None:
        if thing.kind != "block" and not self._spec.ends_at(thing):
            return _taken(free, random)
        for index in random.permutation(len(free)):
            if self._leaves_ways(layout, thing, free[index]):
                return free.pop(index)
        # There has to be a goal, even where it is in the way to something else.
        return _taken(free, random) if thing.kind == "goal" else None

    def _leaves_ways(self, layout: Layout, thing: Object, cell: Position) -> bool:
        spec = self._spec
        placed = [(spec.objects[each.number], each.cell) for each in layout.things if each.cell is not None]
        placed.append((thing, cell))
        final = {place for each, place in placed if spec.ends_at(each)}
        for other, place in zip(spec.others, layout.others, strict=True):
            if other.moves == "still" and other.ends:
                final.add(place)
        found = reachable(
            layout.agent,
            width=spec.size.width,
            height=spec.size.height,
            blocked={*spec.walls, *(place for each, place in placed if each.kind == "block")},
            final=final,
            directions=spec.directions,
        )
        return all(place in found for each, place in placed if each.kind in ("goal", "item"))


def _taken(free: list[Position], random: np.random.Generator) -> Position:
    return free.pop(int(random.integers(len(free))))
