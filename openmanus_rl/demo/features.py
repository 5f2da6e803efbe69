"""How text becomes numbers: each command in its situation is a handful of hashed features."""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from openmanus_rl.demo.memory import Memory

__all__ = ["FEATURE_COUNT", "describe_command", "feature_index"]

FEATURE_COUNT = 4096


@lru_cache(maxsize=65536)
def feature_index(name: str) -> int:
    """Return the place of a feature among the weights; the same name has the same place on every machine."""
    return crc32(name.encode()) % FEATURE_COUNT


def describe_command(command: str, memory: Memory) -> list[str]:
    """Say what there is to know of a command in the present situation, as names of features."""
    verb, _, argument = command.partition(" ")
    situation = f"{_route_situation(memory)}, {_lock_situation(memory)}"
    tried = min(memory.times_tried(command), 2)
    parts = [f"{situation}, {_target_in_sight(memory)}", f"tried {tried}x"]
    if verb == "go":
        parts += _describe_door(argument, memory, situation)
    elif verb == "take":
        likeness = _likeness(argument, memory)
        parts += [likeness, f"{likeness}, {situation}"]
    elif verb == "search_map":
        what = "target" if argument == memory.target else "key"
        parts += [f"{what} {tried}x", f"{what}, {situation}"]
    elif verb == "look":
        floor = "unseen things" if "Something lies" in memory.observation else "nothing unseen"
        parts += [floor, f"{floor}, {situation}"]
    else:
        name, _, key = argument.partition(" with ")
        state = memory.container_states.get(name, "unknown")
        parts += [state, f"{state} {tried}x", f"{state}, {situation}", f"thing {name}"]
        if key:
            parts.append("needed key" if key == memory.key_needed else "other key")
    return [f"{verb}: {part}" for part in parts]


def _describe_door(direction: str, memory: Memory, situation: str) -> list[str]:
    way = "no route" if not memory.route else "on the route" if memory.route[0] == direction else "off the route"
    beyond = memory.leads_to(direction)
    news = "seen room" if beyond in memory.rooms_seen else "new room"
    return [way, f"{way}, {news}", f"{way}, {situation}", f"{news}, {situation}", f"door {direction}"]


def _route_situation(memory: Memory) -> str:
    if memory.sought is None:
        return "seeking"
    what = "target" if memory.sought == memory.target else "key"
    return f"on the way to the {what}" if memory.route else f"where the {what} is"


def _lock_situation(memory: Memory) -> str:
    if memory.key_needed is None:
        return "no lock"
    return "key held" if memory.key_needed in memory.keys_held else "key missing"


def _target_in_sight(memory: Memory) -> str:
    return "target in sight" if memory.target in memory.observation else "target not in sight"


def _likeness(item: str, memory: Memory) -> str:
    if item == memory.target:
        return "the target"
    if item.endswith(" key"):
        return "the needed key" if item == memory.key_needed else "some key"
    shared = set(item.split()) & set(memory.target.split())
    return "like the target" if shared else "unlike the target"
