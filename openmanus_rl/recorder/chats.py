"""Stores each message and each token of a rollout once, although every turn is given the whole chat.

The messages of a rollout are numbered 0, 1, 2, …, and so are its tokens; the numbers are called places. A turn stores
its new messages and the place of the first. If its chat is not simply all messages so far, the turn also stores which
places it consists of, as stretches [from, to, from, to, …].
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from openmanus_rl.recorder.values import as_number, known
from openmanus_rl.spool.lines import dump_bytes

__all__ = ["Conversation", "TokenHistory"]

# A stretch costs two integers in this turn and in each one after it: for short messages that is not worth it.
_WORTH_NAMING_BYTES = 64
_DIGEST_BYTES = 16
_NUMBERS = frozenset({float, int})


class Conversation:
    """The messages of a rollout, each stored once."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._last_chat: list[int] = []
        self._last_stretches: list[int] = []
        # Hash of the whole last chat: shows with one comparison that a chat only grew.
        self._last_hash = hashlib.blake2b(b"[", digest_size=_DIGEST_BYTES)

    def add(self, messages: Sequence[Any]) -> dict[str, Any]:
        """Return the fields that a turn stores for the chat that it was given."""
        start = len(self._digests)
        if self._begins_as_the_last(messages):
            # All messages behind the last chat are new, even if equal to earlier ones.
            new = messages[len(self._last_chat) :]
            for message in new:
                self._store(dump_bytes(message))
            end = len(self._digests)
            self._last_chat.extend(range(start, end))
            self._last_stretches = _joined(self._last_stretches, start, end)
        else:
            new = self._rearrange(messages)
        return _placed("messages", list(new), start, "chat", self._last_stretches, whole=len(self._digests))

    def _begins_as_the_last(self, messages: Sequence[Any]) -> bool:
        length = len(self._last_chat)
        if len(messages) < length:
            return False
        # The hash was made of the list's JSON with a comma in place of the closing bracket.
        beginning = dump_bytes(list(messages[:length]))[:-1] + b"," if length else b"["
        return hashlib.blake2b(beginning, digest_size=_DIGEST_BYTES).digest() == self._last_hash.digest()

    def _rearrange(self, messages: Sequence[Any]) -> list[Any]:
        """Take over a chat that is not the last one continued; return its new messages."""
        new = []
        chat: list[int] = []
        self._last_hash = hashlib.blake2b(b"[", digest_size=_DIGEST_BYTES)
        for message in messages:
            text = dump_bytes(message)
            place = self._find(_digest(text), after=chat, size_bytes=len(text))
            if place is None:
                place = len(self._digests)
                self._store(text)
                new.append(message)
            else:
                self._extend_hash(text)
            chat.append(place)
        self._last_chat = chat
        self._last_stretches = _stretches(chat)
        return new

    def _find(self, digest: bytes, *, after: list[int], size_bytes: int) -> int | None:
        """Return the place of a stored message, or None if storing it again costs less than naming its place."""
        # First the place that continues a stretch.
        following = [self._last_chat[len(after)]] if len(after) < len(self._last_chat) else []
        if after:
            following.append(after[-1] + 1)
        for place in following:
            if place < len(self._digests) and self._digests[place] == digest:
                return place
        return self._places.get(digest) if size_bytes >= _WORTH_NAMING_BYTES else None

    def _store(self, text: bytes) -> None:
        digest = _digest(text)
        self._places.setdefault(digest, len(self._digests))
        self._digests.append(digest)
        self._extend_hash(text)

    def _extend_hash(self, text: bytes) -> None:
        self._last_hash.update(text + b",")


class TokenHistory:
    """The tokens of a rollout. Of a prompt that continues the last prompt and completion, only the rest is stored."""

    def __init__(self) -> None:
        self._length = 0
        self._last = array("i")
        self._last_stretches: list[int] = []

    def add(self, generation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a turn stores for a generation."""
        record = known(dict(generation))
        if "advantage" in record:
            record.setdefault("advantages", [record.pop("advantage")])
        for field in ("logprobs", "advantages"):
            if field in record:
                record[field] = _numbers(record[field])
        if "mask" in record:
            record["mask"] = [bool(value) for value in _plain_list(record["mask"])]
        try:
            prompt = array("i", _plain_list(record["prompt_ids"]))
            completion = array("i", _plain_list(record.get("completion_ids", ())))
        except (KeyError, TypeError, ValueError, OverflowError):
            # No prompt, or no token ids: as it is, for the database to take or refuse.
            return record
        return {**record, **self._place(prompt, completion)}

    def _place(self, prompt: array[int], completion: array[int]) -> dict[str, Any]:
        kept = _common_length(self._last, prompt)
        start = self._length
        new = prompt[kept:].tolist()
        stretches = _joined(_first_of(self._last_stretches, kept), start, start + len(new))
        self._length = start + len(new) + len(completion)
        self._last = prompt + completion
        self._last_stretches = _joined([*stretches], start + len(new), self._length)
        placed = _placed("prompt_ids", new, start, "prompt", stretches, whole=start + len(new))
        placed["tokens_from"] = placed.pop("prompt_ids_from")
        return {**placed, "completion_ids": completion.tolist()}


def _placed(
    field: str, new: list[Any], start: int, stretches_field: str, stretches: list[int], *, whole: int
) -> dict[str, Any]:
    record: dict[str, Any] = {field: new, f"{field}_from": start}
    if stretches != ([0, whole] if whole else []):
        record[stretches_field] = [*stretches]
    return record


def _stretches(places: Sequence[int]) -> list[int]:
    """Return places as stretches."""
    found: list[int] = []
    for place in places:
        found = _joined(found, place, place + 1)
    return found


def _joined(stretches: list[int], start: int, end: int) -> list[int]:
    """Return stretches with one more appended; the given list may be changed."""
    if start == end:
        return stretches
    if stretches and stretches[-1] == start:
        stretches[-1] = end
        return stretches
    return [*stretches, start, end]


def _first_of(stretches: Sequence[int], length: int) -> list[int]:
    """Return the stretches of the first `length` places."""
    found: list[int] = []
    for start, end in zip(stretches[::2], stretches[1::2], strict=True):
        taken = min(length, end - start)
        found = _joined(found, start, start + taken)
        length -= taken
    return found


def _common_length(one: array[int], other: array[int]) -> int:
    """Return the length of the common prefix, by bisection."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low + 1 < high:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low if one[low : low + 1] != other[low : low + 1] else high


def _numbers(values: Any) -> list[Any]:
    numbers = _plain_list(values)
    try:
        if _NUMBERS.issuperset(map(type, numbers)) and math.isfinite(sum(numbers)):
            return numbers
    except OverflowError:
        pass
    return [as_number(value) for value in numbers]


def _plain_list(values: Any) -> list[Any]:
    """Return a tensor, an array or any other sequence as a list; anything else as a list of one."""
    found = values.tolist() if hasattr(values, "tolist") else values
    return list(found) if isinstance(found, (Sequence, array)) and not isinstance(found, (str, bytes)) else [found]


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
