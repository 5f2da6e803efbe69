"""Specs of grid worlds: size, walls, objects, agents, rewards, end conditions, observation and actions.

A position is [x, y] from the top left corner. A `map` may stand for size, walls and positions; see `grid_map`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from openmanus_rl.environments._models import Number, SpecModel
from openmanus_rl.environments.grid_map import expand_map
from openmanus_rl.environments.grid_space import DIAGONALS, MOVES, Position, regions_of
from openmanus_rl.environments.gymnasium_spec import Wrappers

__all__ = ["COLORS", "Actions", "Agent", "Ends", "GridSpec", "Object", "Observation", "Rewards"]

COLORS = {
    "black": "#22252b",
    "blue": "#2f6fde",
    "brown": "#9a6b43",
    "cyan": "#17a6b8",
    "gray": "#8a909c",
    "green": "#2e9e5b",
    "orange": "#ea7317",
    "pink": "#e05a9c",
    "purple": "#8250c4",
    "red": "#d93a3a",
    "white": "#f4f5f7",
    "yellow": "#e5b80b",
}
MAX_SIDE = 64


def _check_color(value: str) -> str:
    if value in COLORS:
        return COLORS[value]
    if len(value) == 7 and value[0] == "#" and all(digit in "0123456789abcdef" for digit in value[1:].lower()):
        return value.lower()
    raise ValueError(f"must be #rrggbb, or one of {', '.join(COLORS)}")


Side = Annotated[int, Field(strict=True, ge=1, le=MAX_SIDE)]
Cell = tuple[Annotated[int, Field(strict=True)], Annotated[int, Field(strict=True)]]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
Color = Annotated[str, AfterValidator(_check_color)]


class Size(SpecModel):
    """How many cells there are."""

    width: Side
    height: Side


class Object(SpecModel):
    """Things of one name, at given cells or at random ones."""

    name: Name
    kind: Literal["goal", "item", "trap", "block"]
    """A goal is reached, an item collected, a trap stepped into; a block is in the way, as a wall is."""
    positions: tuple[Cell, ...] = ()
    random: Annotated[int, Field(strict=True, ge=0, le=64)] = 0
    """How many more there are, at other cells in every episode."""
    color: Color | None = None
    reward: Number | None = None
    """What it gives, if not what `rewards` says of its kind."""
    symbol: Annotated[str, Field(pattern=r"^[!-~]$")] | None = None
    """Its character in texts."""

    @model_validator(mode="after")
    def _somewhere(self) -> Object:
        if not self.positions and not self.random:
            raise ValueError("positions: give positions, or in random how many there are")
        if self.kind == "block" and self.reward is not None:
            raise ValueError("reward: a block cannot be reached; see rewards.bump")
        return self


class Agent(SpecModel):
    """The agent that is trained, or one that stands or moves at random."""

    name: Name
    moves: Literal["trained", "random", "still"] = "trained"
    start: Cell | None = None
    """None is another cell in every episode."""
    color: Color | None = None
    reward: Number = 0.0
    """What meeting it gives to the one that is trained."""
    ends: bool = False
    """Whether meeting it ends the episode."""
    symbol: Annotated[str, Field(pattern=r"^[!-~]$")] | None = None

    @model_validator(mode="after")
    def _meets_others(self) -> Agent:
        if self.moves == "trained" and (self.reward or self.ends):
            raise ValueError("reward: reward and ends are for the agents that the trained one meets")
        return self


class Rewards(SpecModel):
    """What is given for a step, for bumping into something, and for objects by their kind."""

    step: Number = 0.0
    bump: Number = 0.0
    goal: Number = 1.0
    item: Number = 1.0
    trap: Number = -1.0


class Ends(SpecModel):
    """What ends an episode."""

    goal: bool = True
    """A goal is reached."""
    all_items: bool = False
    """The last item is collected."""
    trap: bool = True
    """A trap is stepped into."""
    max_steps: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    """So many steps, which is not the agent's doing; four for every cell unless told."""


class Observation(SpecModel):
    """What the agent sees, as numbers from 0 to 1."""

    kind: Literal["grid", "window", "coordinates"] = "grid"
    """All cells, the cells around it, or where everything is."""
    radius: Annotated[int, Field(strict=True, ge=1, le=MAX_SIDE)] | None = None
    """How far it sees in a window: 2 unless told."""

    @model_validator(mode="after")
    def _of_windows(self) -> Observation:
        if self.radius is not None and self.kind != "window":
            raise ValueError("radius: only a window has a radius")
        return self


class Actions(SpecModel):
    """What the agent can do: move in directions, pick up what lies in its cell, and nothing."""

    directions: Literal[4, 8] = 4
    pick: bool = False
    """Items are collected by this action only, instead of by walking over them."""
    noop: bool = False


class GridSpec(SpecModel):
    """A grid world."""

    kind: Literal["grid"] = "grid"
    size: Size
    walls: Annotated[tuple[Cell, ...], Field(max_length=MAX_SIDE**2)] = ()
    objects: Annotated[tuple[Object, ...], Field(max_length=32)] = ()
    agents: Annotated[tuple[Agent, ...], Field(max_length=16)] = (Agent(name="agent"),)
    rewards: Rewards = Rewards()
    ends: Ends = Ends()
    observation: Observation = Observation()
    actions: Actions = Actions()
    wrappers: Wrappers = ()
    seed: Annotated[int, Field(strict=True, ge=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_map(cls, value: Any) -> Any:
        return expand_map(value, max_side=MAX_SIDE)

    @model_validator(mode="after")
    def _consistent(self) -> GridSpec:
        self._check_names()
        self._check_cells()
        if self.ends.all_items and not any(each.kind == "item" for each in self.objects):
            raise ValueError("ends.all_items: there are no items")
        self._check_ways()
        return self

    @property
    def trained(self) -> Agent:
        """Return the agent that is trained."""
        return next(agent for agent in self.agents if agent.moves == "trained")

    @property
    def others(self) -> tuple[Agent, ...]:
        """Return the agents that are not trained."""
        return tuple(agent for agent in self.agents if agent.moves != "trained")

    @property
    def max_steps(self) -> int:
        """Return after how many steps an episode ends."""
        return self.ends.max_steps or 4 * self.size.width * self.size.height

    @property
    def directions(self) -> tuple[Position, ...]:
        """Return the moves as steps in x and y."""
        return (*MOVES.values(), *(DIAGONALS.values() if self.actions.directions == 8 else ()))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Return the actions by name, in the order of their numbers."""
        moves = (*MOVES, *(DIAGONALS if self.actions.directions == 8 else ()))
        return (*moves, *(["pick"] if self.actions.pick else []), *(["noop"] if self.actions.noop else []))

    def reward_of(self, thing: Object) -> float:
        """Return what an object gives."""
        return float(getattr(self.rewards, thing.kind)) if thing.reward is None else thing.reward

    def ends_at(self, thing: Object) -> bool:
        """Return whether an episode ends where the object is."""
        return (thing.kind == "goal" and self.ends.goal) or (thing.kind == "trap" and self.ends.trap)

    def regions(self) -> list[set[Position]]:
        """Return the regions to start in: from their cells every goal and item with a position can be reached."""
        return [set(region) for region in self._regions() if all(self._is_at(cell, region) for _, cell in self._aims())]

    def _regions(self) -> list[set[Position]]:
        closing = [each for each in self.objects if each.kind == "block" or self.ends_at(each)]
        closed = {*self.walls, *(cell for each in closing for cell in each.positions)}
        closed |= {each.start for each in self.others if each.moves == "still" and each.ends and each.start}
        return regions_of(self.size.width, self.size.height, closed, self.directions)

    def _is_at(self, cell: Position, region: set[Position]) -> bool:
        return cell in region or any((cell[0] - x, cell[1] - y) in region for x, y in self.directions)

    def _aims(self) -> Iterator[tuple[str, Position]]:
        for number, each in enumerate(self.objects):
            if each.kind in ("goal", "item"):
                for index, cell in enumerate(each.positions):
                    yield f"objects.{number}.positions.{index}", cell

    def _check_names(self) -> None:
        fields = [f"objects.{number}" for number in range(len(self.objects))]
        fields += [f"agents.{number}" for number in range(len(self.agents))]
        names = [*(each.name for each in self.objects), *(each.name for each in self.agents)]
        symbols = [*(each.symbol for each in self.objects), *(each.symbol for each in self.agents)]
        for number, (field, name, symbol) in enumerate(zip(fields, names, symbols, strict=True)):
            if name in names[:number] or name == "wall":
                raise ValueError(f"{field}.name: {name} is the name of something else")
            if symbol is not None and (symbol in symbols[:number] or symbol in "#."):
                raise ValueError(f"{field}.symbol: {symbol} is the symbol of something else")
        if sum(agent.moves == "trained" for agent in self.agents) != 1:
            raise ValueError('agents: exactly one must be trained; others have moves "random" or "still"')

    def _places(self) -> Iterator[tuple[str, Position]]:
        for number, cell in enumerate(self.walls):
            yield f"walls.{number}", cell
        for number, each in enumerate(self.objects):
            for index, cell in enumerate(each.positions):
                yield f"objects.{number}.positions.{index}", cell
        for number, agent in enumerate(self.agents):
            if agent.start is not None:
                yield f"agents.{number}.start", agent.start

    def _check_cells(self) -> None:
        taken: dict[Position, str] = {}
        for field, (x, y) in self._places():
            if not (0 <= x < self.size.width and 0 <= y < self.size.height):
                raise ValueError(f"{field}: [{x}, {y}] is outside of {self.size.width} x {self.size.height} cells")
            if (x, y) in taken:
                raise ValueError(f"{field}: [{x}, {y}] is taken by {taken[x, y]}")
            taken[x, y] = field

    def _check_ways(self) -> None:
        start = self.trained.start
        if start is not None:
            home = next(region for region in self._regions() if start in region)
            for field, cell in self._aims():
                if not self._is_at(cell, home):
                    raise ValueError(f"{field}: [{cell[0]}, {cell[1]}] cannot be reached from the agent's start")
        if not self.regions():
            raise ValueError("agents: there is no free cell to start at from which every goal and item can be reached")
        wanted = sum(each.random for each in self.objects) + sum(agent.start is None for agent in self.agents)
        room = max(len(self.free_cells(region)) for region in self.regions() if start is None or start in region)
        if wanted > room:
            raise ValueError(f"objects: {wanted} random places are needed, but there are {room} free cells")

    def free_cells(self, region: set[Position]) -> list[Position]:
        """Return the cells of a region at which there is nothing, in order."""
        taken = {cell for _, cell in self._places()}
        return sorted(cell for cell in region if cell not in taken)
