"""Cells, directions, and which cells are connected."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

__all__ = ["DIAGONALS", "MOVES", "Position", "reachable", "regions_of"]

Position = tuple[int, int]

MOVES: dict[str, Position] = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}
DIAGONALS: dict[str, Position] = {
    "up_right": (1, -1),
    "down_right": (1, 1),
    "down_left": (-1, 1),
    "up_left": (-1, -1),
}


def reachable(
    start: Position,
    *,
    width: int,
    height: int,
    blocked: Collection[Position],
    final: Collection[Position],
    directions: Sequence[Position],
) -> set[Position]:
    """Return the cells that can be reached, breadth first; what is `final` can be reached, but not left."""
    found = {start}
    waiting = deque(found)
    while waiting:
        x, y = waiting.popleft()
        for dx, dy in directions:
            cell = (x + dx, y + dy)
            if cell in found or cell in blocked or not (0 <= cell[0] < width and 0 <= cell[1] < height):
                continue
            found.add(cell)
            if cell not in final:
                waiting.append(cell)
    return found


def regions_of(
    width: int, height: int, closed: Collection[Position], directions: Sequence[Position]
) -> list[set[Position]]:
    """Return the sets of connected cells that are not closed."""
    regions: list[set[Position]] = []
    seen = set(closed)
    for cell in ((x, y) for y in range(height) for x in range(width)):
        if cell not in seen:
            region = reachable(cell, width=width, height=height, blocked=closed, final=(), directions=directions)
            regions.append(region)
            seen |= region
    return regions
