"""A grid world as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from openmanus_rl.environments._models import validated
from openmanus_rl.environments.grid_layout import Layout, Layouts
from openmanus_rl.environments.grid_picture import Painter
from openmanus_rl.environments.grid_senses import Senses, draw_text
from openmanus_rl.environments.grid_space import MOVES, Position
from openmanus_rl.environments.grid_spec import GridSpec

__all__ = ["GridWorld"]


class GridWorld(gymnasium.Env[NDArray[np.float32], np.int64]):
    """One agent moves, and others around it; goals and items are gone once they are reached or collected.

    In a step the agent acts, then the others move, each to a cell beside it or nowhere. They do not block each other:
    the agent meets one where both are in one cell, or have changed places. `build` adds the limit of steps.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012

    def __init__(self, world: GridSpec | Mapping[str, Any], *, render_mode: str | None = None) -> None:
        self.world = world if isinstance(world, GridSpec) else validated(GridSpec, world)
        self.render_mode = render_mode
        self._layouts = Layouts(self.world)
        self._senses = Senses(self.world)
        self._painter: Painter | None = None
        self._names = self.world.action_names
        self._walls = frozenset(self.world.walls)
        self._layout: Layout | None = None
        self._facing: Position = MOVES["right"]
        self.action_space = gymnasium.spaces.Discrete(len(self._names))
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (self._senses.length,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self._layout = self._layouts.draw(self.np_random)
        self._facing = MOVES["right"]
        return self._senses.observe(self._layout), self._info()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Act, by the number of the action."""
        layout = self._now()
        before, others_before = layout.agent, list(layout.others)
        name = self._names[int(action)]
        reward = self.world.rewards.step
        ended = False
        if name == "pick":
            reward += self._collect()
        elif name != "noop":
            moved_reward, ended = self._move(self.world.directions[int(action)])
            reward += moved_reward
        # Where nothing is left to collect, the last item was collected in this step.
        ended |= self.world.ends.all_items and self._items_left() == 0
        self._move_others()
        met_reward, met_end = self._meet(before, others_before)
        return self._senses.observe(layout), reward + met_reward, ended or met_end, False, self._info()

    def render(self) -> Any:
        """Return a picture, or the text, as `render_mode` says."""
        if self.render_mode == "ansi":
            return self.text()
        if self.render_mode != "rgb_array":
            return None
        self._painter = self._painter or Painter(self.world)
        return self._painter.paint(self._now(), self._facing)

    def text(self) -> str:
        """Return a map of the world as text, with what its characters mean."""
        return draw_text(self.world, self._now())

    def _now(self) -> Layout:
        if self._layout is None:
            raise gymnasium.error.ResetNeeded("call reset before step or render")
        return self._layout

    def _move(self, direction: Position) -> tuple[float, bool]:
        layout, world = self._now(), self.world
        self._facing = direction
        cell = (layout.agent[0] + direction[0], layout.agent[1] + direction[1])
        thing = next((each for each in layout.things if each.cell == cell), None)
        found = None if thing is None else world.objects[thing.number]
        if not self._is_open(cell) or (found is not None and found.kind == "block"):
            return world.rewards.bump, False
        layout.agent = cell
        if thing is None or found is None or (found.kind == "item" and world.actions.pick):
            return 0.0, False
        if found.kind in ("goal", "item"):
            thing.cell = None
        return world.reward_of(found), world.ends_at(found)

    def _collect(self) -> float:
        layout = self._now()
        for thing in layout.things:
            if thing.cell == layout.agent and self.world.objects[thing.number].kind == "item":
                thing.cell = None
                return self.world.reward_of(self.world.objects[thing.number])
        return 0.0

    def _is_open(self, cell: Position) -> bool:
        size = self.world.size
        return 0 <= cell[0] < size.width and 0 <= cell[1] < size.height and cell not in self._walls

    def _move_others(self) -> None:
        layout = self._now()
        blocks = {each.cell for each in layout.things if self.world.objects[each.number].kind == "block"}
        steps = [*MOVES.values(), (0, 0)]
        for number, other in enumerate(self.world.others):
            if other.moves == "random":
                x, y = layout.others[number]
                dx, dy = steps[int(self.np_random.integers(len(steps)))]
                if self._is_open((x + dx, y + dy)) and (x + dx, y + dy) not in blocks:
                    layout.others[number] = (x + dx, y + dy)

    def _meet(self, before: Position, others_before: list[Position]) -> tuple[float, bool]:
        layout = self._now()
        met = [
            other
            for other, was, now in zip(self.world.others, others_before, layout.others, strict=True)
            if now == layout.agent or (was == layout.agent and now == before and was != now)
        ]
        return sum(other.reward for other in met), any(other.ends for other in met)

    def _items_left(self) -> int:
        return sum(
            each.cell is not None and self.world.objects[each.number].kind == "item" for each in self._now().things
        )

    def _info(self) -> dict[str, Any]:
        return {"position": self._now().agent, "items_left": self._items_left()}
