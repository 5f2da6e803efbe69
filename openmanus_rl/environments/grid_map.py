"""Maps of grid worlds as text: rows of characters, and a legend of what they stand for.

    "map": ["#######",
            "#A.#.G#",
            "#..K..#",
            "#######"],
    "legend": {"K": "key"},
    "objects": [{"name": "key", "kind": "item", "reward": 0.5}]

Without a legend `#` is a wall, `.` or a space is free, `A` is where the trained agent starts, and `G`, `o`, `T` and `B`
are a goal, an item, a trap and a block. A legend's names are those of objects and agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["expand_map"]

_COMMON = {"G": "goal", "o": "item", "T": "trap", "B": "block"}
_AGENT = "A"
_FREE = " ."
_WALL = "#"

Cells = dict[str, list[tuple[int, int]]]


def expand_map(value: Any, *, max_side: int) -> Any:
    """Return a spec without its map: with size, walls, and the positions of what is on the map."""
    if not isinstance(value, Mapping) or "map" not in value:
        if isinstance(value, Mapping) and "legend" in value:
            raise ValueError("legend: is for a map")
        return value
    rest = {key: given for key, given in value.items() if key not in ("map", "legend")}
    for field in ("size", "walls"):
        if field in rest:
            raise ValueError(f"{field}: the map has it already; leave it out")
    rows = _rows(value["map"], max_side)
    legend = _legend(value.get("legend", {}), rest)
    symbols = {name: symbol for symbol, name in legend.items() if symbol != _WALL}
    cells = _cells(rows, legend)
    rest["size"] = {"width": len(rows[0]), "height": len(rows)}
    rest["walls"] = cells.pop("wall", [])
    rest["agents"] = _placed_agents(rest.get("agents", [{"name": "agent"}]), cells, symbols)
    rest["objects"] = _placed_objects(rest.get("objects", []), cells, symbols)
    return rest


def _rows(rows: Any, max_side: int) -> list[str]:
    if not isinstance(rows, (list, tuple)) or not rows or not all(isinstance(row, str) for row in rows):
        raise ValueError('map: must be a list of rows, such as ["#####", "#A.G#", "#####"]')
    if not 1 <= len(rows[0]) <= max_side or len(rows) > max_side:
        raise ValueError(f"map: must have from 1 to {max_side} rows and columns")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"map.{number}: has {len(row)} characters, but map.0 has {len(rows[0])}")
    return list(rows)


def _legend(legend: Any, spec: Mapping[str, Any]) -> dict[str, str]:
    if not isinstance(legend, Mapping):
        raise ValueError('legend: must be an object of characters and names, such as {"K": "key"}')
    for symbol, name in legend.items():
        if not isinstance(symbol, str) or len(symbol) != 1 or symbol in _FREE + _WALL:
            raise ValueError(f"legend: {symbol!r:.20} is not one character, or has a meaning already")
        if not isinstance(name, str):
            raise ValueError(f"legend: {symbol} must stand for the name of an object or agent")
    trained = next((name for name, each in _named(spec.get("agents")) if each.get("moves", "trained") == "trained"), "")
    return {_WALL: "wall", _AGENT: trained or "agent", **_COMMON, **legend}


def _cells(rows: list[str], meanings: Mapping[str, str]) -> Cells:
    cells: Cells = {}
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if symbol in _FREE:
                continue
            if symbol not in meanings:
                raise ValueError(f"map.{y}: {symbol!r} at column {x} is not in the legend")
            cells.setdefault(meanings[symbol], []).append((x, y))
    return cells


def _named(things: Any) -> list[tuple[str, Mapping[str, Any]]]:
    found = things if isinstance(things, (list, tuple)) else []
    return [(each["name"], each) for each in found if isinstance(each, Mapping) and isinstance(each.get("name"), str)]


def _placed_agents(agents: Any, cells: Cells, symbols: Mapping[str, str]) -> Any:
    placed = list(agents) if isinstance(agents, (list, tuple)) else agents
    for name, agent in _named(placed):
        starts = cells.pop(name, [])
        if len(starts) > 1:
            raise ValueError(f"map: agent {name} is at {len(starts)} cells")
        if starts and agent.get("start") is not None:
            raise ValueError(f"map: agent {name} has a start already")
        if starts:
            placed[placed.index(agent)] = {"symbol": symbols[name], **agent, "start": starts[0]}
    return placed


def _placed_objects(objects: Any, cells: Cells, symbols: Mapping[str, str]) -> Any:
    if not isinstance(objects, (list, tuple)):
        return objects
    placed = list(objects)
    for name, thing in _named(placed):
        found = cells.pop(name, [])
        given = thing.get("positions", [])
        if found and isinstance(given, (list, tuple)):
            placed[placed.index(thing)] = {"symbol": symbols[name], **thing, "positions": [*given, *found]}
    for name in [name for name in cells if name in _COMMON.values()]:
        placed.append({"name": name, "kind": name, "symbol": symbols[name], "positions": cells.pop(name)})
    if cells:
        raise ValueError(f"legend: there is no object or agent {', '.join(sorted(cells))!r:.100}")
    return placed
