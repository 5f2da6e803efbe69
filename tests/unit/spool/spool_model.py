"""A model of a spool's writer and reader: every order of their steps, with kills of both at every step.

The writer is the real `SpoolWriter`. What it does depends on nobody else, so its system calls are recorded once, and a
large write is taken apart, for others see parts of it. The files after each of these steps are a `Moment`. At any of
them the writer may be killed: then the files stay as they are, and the lock is free.

The reader is the real `SpoolReader`. Each of its looks at a file (`Segments`) happens at any moment from the last look
on. Of the moments at which a look shows the same, the first stands for all: what comes later can still be seen later.
So it is with a kill, which only a look at the lock shows.

What `Route.forward` does with a batch is `Explorer._round`: load it, save the progress, delete the segments before it;
a kill may come after each of these. What `Route.is_finished` says, and what `flush` concludes from the progress, is
checked after every round. States in which nothing differs are explored once.
"""

from __future__ import annotations

import copy
import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.spool.files import Position, Unwritten
from openmanus_rl.spool.segments import Segments
from openmanus_rl.spool.writer import SpoolWriter

T = TypeVar("T")

# Every record at the same time: a line's length tells how many digits the clock shows, and the model depends on it.
_TIME = 1.5
LINE_BYTES = len(json.dumps(["rollouts", _TIME, {"id": 1}], separators=(",", ":"))) + 1


class Broken(AssertionError):
    """A promise was broken in some order of steps."""


@dataclass(frozen=True)
class Moment:
    """The files of a spool, as anyone sees them, and the calls that have returned."""

    segments: dict[int, bytes] = field(default_factory=dict)
    is_written: bool = True
    unwritten: Unwritten = field(default_factory=Unwritten)
    returned: tuple[int, ...] = ()
    places: dict[int, Position] = field(default_factory=dict)
    """By record: the place behind it, of those that are whole in a segment."""


class RecordingOs:
    """The system calls of a writer: done for real, and each kept as a moment; the disk may be full for a while."""

    def __init__(self, room_bytes: int | None, failures: int) -> None:
        self.moments = [Moment()]
        self._room_bytes = room_bytes
        self._failures = failures
        self._files: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def add(self, **changes: Any) -> None:
        self.moments.append(replace(self.moments[-1], **changes))

    def open(self, path: Any, *rest: Any) -> int:
        file = os.open(path, *rest)
        self._files[file] = name = Path(path).name
        if name.endswith(".jsonl"):
            self.add(segments={**self.moments[-1].segments, int(name[:6]): b""})
        return file

    def close(self, file: int) -> None:
        os.close(file)
        if self._files.pop(file, "") == "writer.lock":
            self.add(is_written=False)

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        self.add(unwritten=Unwritten(**orjson.loads(data)))
        return os.pwrite(file, data, offset)

    def write(self, file: int, data: bytes) -> int:
        if self._room_bytes is not None and self._failures:
            data = data[: self._room_bytes]
            self._room_bytes -= len(data)
        if not data:
            self._failures -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        number = int(self._files[file][:6])
        segments = self.moments[-1].segments
        for part in sorted({1, len(data) - 1, len(data)} - {0}):
            self.add(segments={**segments, number: segments[number] + data[:part]})
        return os.write(file, data)


def record_writer(
    folder: Path,
    *,
    records: int,
    segment_bytes: int,
    room_bytes: int | None = None,
    failures: int = 1,
    writer_class: type[SpoolWriter] = SpoolWriter,
) -> list[Moment]:
    """Return the moments of a writer's life; its disk may be full until so many writes have failed."""
    system = RecordingOs(room_bytes, failures)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openmanus_rl.spool.writer.os", system)
        patch.setattr("openmanus_rl.spool.lines.time.time", lambda: _TIME)
        writer = writer_class(folder, url="x", run_id="x", segment_bytes=segment_bytes)
        # Nobody finds a spool before it is complete.
        system.moments = system.moments[-1:]
        for number in range(1, records + 1):
            writer.append("rollouts", {"id": number})
            before = system.moments[-1]
            place = writer.place_behind(number)
            places = before.places if place is None else {**before.places, number: place}
            system.add(returned=(*before.returned, number), places=places)
        writer.close()
    return system.moments


class Choices:
    """One way through all choices; `next_way` is the next one, until there is none."""

    def __init__(self, given: list[int]) -> None:
        self._given = given
        self._made: list[tuple[int, int]] = []

    def choose(self, count: int) -> int:
        place = len(self._made)
        choice = self._given[place] if place < len(self._given) else 0
        self._made.append((choice, count))
        return choice

    def next_way(self) -> list[int] | None:
        for place in reversed(range(len(self._made))):
            choice, count = self._made[place]
            if choice + 1 < count:
                return [made for made, _ in self._made[:place]] + [choice + 1]
        return None


class SeenSegments(Segments):
    """The segments at moments of which each look chooses its own."""

    def __init__(self, state: State, moments: list[Moment], choices: Choices) -> None:
        self._state, self._moments, self._choices = state, moments, choices

    def look(self, at: Callable[[Moment], T]) -> T:
        options: list[tuple[T, int]] = []
        end = self._state.moment + 1 if self._state.is_killed else len(self._moments)
        for number in range(self._state.moment, end):
            value = at(self._moments[number])
            if all(value != other for other, _ in options):
                options.append((value, number))
        value, self._state.moment = options[self._choices.choose(len(options))]
        return value

    def _content(self, moment: Moment, number: int) -> bytes | None:
        return None if number < self._state.deleted_before else moment.segments.get(number)

    def is_written(self) -> bool:
        state = self._state
        if state.is_killed or not self._moments[state.moment].is_written:
            return False
        # It lives, or was killed at some moment from now on, or came to its own end.
        choice = self._choices.choose(len(self._moments) - state.moment + 1)
        if choice:
            state.moment += choice - 1
            state.is_killed = self._moments[state.moment].is_written
        return not choice

    def exists(self, number: int) -> bool:
        return self.look(lambda moment: self._content(moment, number) is not None)

    def size_bytes(self, number: int) -> int:
        return self.look(lambda moment: len(self._content(moment, number) or b""))

    def numbers(self) -> list[int]:
        return self.look(lambda moment: [n for n in moment.segments if n >= self._state.deleted_before])

    def read(self, number: int, start: int, size_bytes: int) -> bytes:
        block = self.look(lambda moment: (self._content(moment, number) or b"")[start : start + size_bytes])
        if not block or block.endswith(b"\n"):
            return block
        place = start + len(block)

        def rest(moment: Moment) -> bytes:
            content = (self._content(moment, number) or b"")[place:]
            return content[: content.find(b"\n") + 1] or content

        return block + self.look(rest)


@dataclass
class State:
    """Where everything is between two rounds of the reader."""

    moment: int = 0
    is_killed: bool = False
    progress: Position = field(default_factory=lambda: Position(1, 0))
    damaged: int = 0
    stored: tuple[int, ...] = ()
    deleted_before: int = 1
    kills: int = 0
    reader: SpoolReader | None = None

    def key(self) -> tuple[Any, ...]:
        reader = None if self.reader is None else (self.reader._segment, self.reader._offset)
        return (
            self.moment,
            self.is_killed,
            self.progress,
            self.damaged,
            self.stored,
            self.deleted_before,
            self.kills,
            reader,
        )


@dataclass
class Explorer:
    """Goes every way that a reader can take through a writer's life."""

    moments: list[Moment]
    folder: Path
    batch_bytes: int = 10**6
    most_kills: int = 1
    reader_class: type[SpoolReader] = SpoolReader
    saves_first: bool = False
    rounds: int = 0

    def run(self) -> None:
        """Go all the ways; Broken says which promise some way breaks."""
        seen: set[tuple[Any, ...]] = set()
        waiting = [State()]
        while waiting:
            state = waiting.pop()
            if state.key() in seen:
                continue
            seen.add(state.key())
            given: list[int] | None = []
            while given is not None:
                choices = Choices(given)
                after = copy.copy(state)
                self._round(after, choices)
                waiting.append(after)
                self.rounds += 1
                given = choices.next_way()

    def _round(self, state: State, choices: Choices) -> None:
        segments = SeenSegments(state, self.moments, choices)
        if state.reader is None:
            reader = self.reader_class(self.folder, state.progress, segments)
        else:
            reader = copy.copy(state.reader)
            reader._segments = segments
        state.reader = reader
        is_final = state.is_killed or state.moment == len(self.moments) - 1
        batch = reader.read(self.batch_bytes)
        if batch is None and is_final and self._unread_bytes(state):
            raise Broken(f"nothing is read any more, and not all was: {state}")
        if batch is not None:

            def load() -> None:
                state.stored += tuple(record["id"] for record in batch.records.get("rollouts", ()))

            def save() -> None:
                state.progress, state.damaged = batch.end, state.damaged + batch.damaged

            def delete() -> None:
                state.deleted_before = batch.end.segment

            for step in (save, load, delete) if self.saves_first else (load, save, delete):
                step()
                if state.kills < self.most_kills and choices.choose(2):
                    state.kills += 1
                    state.reader = None
                    break
        self._check(state, is_free=not segments.is_written())

    def _check(self, state: State, *, is_free: bool) -> None:
        moment = self.moments[state.moment]
        if state.damaged:
            raise Broken(f"damage is reported, and nothing was damaged: {state}")
        if not state.kills and len(set(state.stored)) < len(state.stored):
            raise Broken(f"a record was sent twice, though nobody was killed: {state}")
        # `flush` is true when the place behind the last record is reached.
        for number, place in moment.places.items():
            if state.progress >= place and number not in state.stored:
                raise Broken(f"the place behind record {number} is reached, and it is not stored: {state}")
        # `Route.is_finished`, upon which the spool is removed.
        if is_free and not self._unread_bytes(state):
            missing = set(moment.returned) - set(state.stored)
            if len(missing) > moment.unwritten.in_memory + moment.unwritten.lost:
                raise Broken(f"the spool is done, and records {sorted(missing)} are not stored: {state}")

    def _unread_bytes(self, state: State) -> int:
        first = max(state.progress.segment, state.deleted_before)
        sizes = [len(data) for number, data in self.moments[state.moment].segments.items() if number >= first]
        return max(0, sum(sizes) - state.progress.offset)
