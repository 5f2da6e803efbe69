"""What the agent keeps in mind: drawn from the text it reads, nothing else."""

from __future__ import annotations

import re

__all__ = ["Memory"]

_ROOM = re.compile(r"You are in the (\w+)\.")
_ROUTE = re.compile(r"The (.+) is in the \w+\. Route: (.+)\.")
_LOCK = re.compile(r"The \w+ takes the (.+)\.")
_STATE = re.compile(r"There is an? (closed|locked|open) (\w+)")
_CARRIED = re.compile(r"You carry (.+)\.")


class Memory:
    """The rooms seen, the routes heard and the commands tried in one episode."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.observation = ""
        self.room = ""
        self.rooms_seen: list[str] = []
        self.container_states: dict[str, str] = {}
        self.keys_held: list[str] = []
        self.key_needed: str | None = None
        self.sought: str | None = None
        self.route: list[str] = []
        self._tried: dict[tuple[str, str], int] = {}
        self._doors: dict[tuple[str, str], str] = {}
        self._door_taken: tuple[str, str] | None = None

    def read(self, observation: str) -> None:
        """Take in what is seen now."""
        self.observation = observation
        if found := _ROOM.search(observation):
            self.room = found[1]
        if self.room not in self.rooms_seen:
            self.rooms_seen.append(self.room)
        if self._door_taken is not None:
            self._doors[self._door_taken] = self.room
            self._door_taken = None
        if found := _CARRIED.search(observation):
            self.keys_held = [] if found[1] == "nothing" else found[1].split(", ")
        self.container_states = {name: state for state, name in _STATE.findall(observation)}

    def note(self, command: str, answer: str) -> None:
        """Take in what a command was answered, before the next observation is read."""
        self._tried[self.room, command] = self.times_tried(command) + 1
        if found := _ROUTE.search(answer):
            self.sought = found[1]
            self.route = [] if found[2].startswith("none") else found[2].split(", ")
        if found := _LOCK.search(answer):
            self.key_needed = found[1]
        verb, _, argument = command.partition(" ")
        if verb == "go":
            self._door_taken = (self.room, argument)
            self._follow(argument)
        elif verb == "take" and argument == self.sought:
            self.sought = None

    def _follow(self, direction: str) -> None:
        if self.route and self.route[0] == direction:
            self.route.pop(0)
        else:
            # Off the route, or away from where it led: what was heard no longer helps.
            self.route, self.sought = [], None

    def times_tried(self, command: str) -> int:
        """Return how often a command was tried in this room."""
        return self._tried.get((self.room, command), 0)

    def leads_to(self, direction: str) -> str | None:
        """Return the room behind a door, if the agent has been through it."""
        return self._doors.get((self.room, direction))

    def summary(self) -> str:
        """Say in a sentence or two what is kept in mind."""
        parts = [f"Seen: {', '.join(self.rooms_seen)}."]
        if self.sought:
            parts.append(f"Route to the {self.sought}: {', '.join(self.route) or 'arrived'}.")
        if self.key_needed:
            held = "have it" if self.key_needed in self.keys_held else "don't have it"
            parts.append(f"Need the {self.key_needed}, {held}.")
        return " ".join(parts)
