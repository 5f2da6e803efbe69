"""Compares JSON values by structure, with a limit on the work that unordered lists may take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from openmanus_rl.verification.closeness import are_close, is_nan
from openmanus_rl.verification.matching import unmatched
from openmanus_rl.verification.values import NotJson, Number, is_number, plain, shown

__all__ = ["Rules", "TooMuchWork", "first_difference", "normalized_text"]

MAX_STEPS = 500_000
_SHOWN_CHARACTERS = 200
_KEY_CHARACTERS = 50


class TooMuchWork(Exception):
    """Lists that are compared in any order are so long and so alike that finding partners would take too long."""


@dataclass(frozen=True)
class Rules:
    """Which differences do not count."""

    absolute: float = 0.0
    relative: float = 0.0
    unordered: bool = False
    ignore_case: bool = False
    ignore_whitespace: bool = False
    extra_keys: bool = False
    """Whether objects may have keys that the expected ones lack."""


EXACT = Rules()


def first_difference(expected: Any, actual: Any, rules: Rules = EXACT, *, root: str = "answer") -> str | None:
    """Return what differs first, with its place, or None.

    Raise `NotJson` if `expected` is nested too deeply, and `TooMuchWork` if partners in lists can't be found in time.
    """
    expected = plain(expected)
    try:
        actual = plain(actual)
    except NotJson as error:
        return f"{root}: {error}"
    found = _Comparison(rules).difference(expected, actual)
    return None if found is None else found.told(root)


def normalized_text(text: str, *, ignore_case: bool, ignore_whitespace: bool) -> str:
    """Return a text as it is compared."""
    if ignore_whitespace:
        text = "".join(text.split())
    return text.casefold() if ignore_case else text


class _Difference:
    """What differs, and the way to it, the last part first."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._way: list[str] = []

    def below(self, part: str) -> _Difference:
        """Note that it lies below a key or position."""
        self._way.append(part)
        return self

    def told(self, root: str) -> str:
        """Return it in words."""
        return f"{shown(root + ''.join(reversed(self._way)), limit=_SHOWN_CHARACTERS)}: {self._message}"


class _Work:
    """How many steps are left for finding partners; all other work is in proportion to the size of the values."""

    def __init__(self) -> None:
        self._left = MAX_STEPS
        self._is_limited = False

    def count(self) -> None:
        """Count a step, if partners are being looked for."""
        if self._is_limited:
            self._left -= 1
            if self._left < 0:
                raise TooMuchWork(f"the unordered lists would take more than {MAX_STEPS:,} comparisons")

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Count the steps of the block."""
        was_limited, self._is_limited = self._is_limited, True
        yield
        self._is_limited = was_limited


class _Comparison:
    """One comparison of two values: its rules, and how much work is left."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._work = _Work()
        self._keys = _Keys(rules, self._work)

    def difference(self, expected: Any, actual: Any) -> _Difference | None:
        """Return what differs first between two values."""
        self._work.count()
        if isinstance(expected, dict) and isinstance(actual, dict):
            return self._of_objects(expected, actual)
        if isinstance(expected, list) and isinstance(actual, list):
            return self._of_lists(expected, actual)
        if self._are_equal(expected, actual):
            return None
        return _Difference(f"{_brief(expected)} is expected, not {_brief(actual)}")

    def _of_objects(self, expected: dict[str, Any], actual: dict[str, Any]) -> _Difference | None:
        for key, value in expected.items():
            if key not in actual:
                return _Difference(f"the key {_brief(key)} is missing")
            found = self.difference(value, actual[key])
            if found:
                return found.below(f".{shown(key, limit=_KEY_CHARACTERS)}")
        if not self._rules.extra_keys and len(actual) > len(expected):
            return _Difference(f"the key {_brief(next(key for key in actual if key not in expected))} is not expected")
        return None

    def _of_lists(self, expected: list[Any], actual: list[Any]) -> _Difference | None:
        if len(expected) != len(actual):
            return _Difference(f"{len(expected):,} elements are expected, not {len(actual):,}")
        if self._rules.unordered:
            return self._of_unordered(expected, actual)
        for position, (value, other) in enumerate(zip(expected, actual, strict=True)):
            found = self.difference(value, other)
            if found:
                return found.below(f"[{position}]")
        return None

    def _of_unordered(self, expected: list[Any], actual: list[Any]) -> _Difference | None:
        """Compare lists group by group: only elements with the same key can be partners."""
        groups, others = self._grouped(expected), self._grouped(actual)
        short = (values[-1] for key, values in groups.items() if len(values) > len(others.get(key, ())))
        for value in chain(short, self._without_partner(groups, others)):
            return _Difference(f"{_brief(value)} is missing, or not there as often as expected")
        return None

    def _grouped(self, values: list[Any]) -> dict[int, list[Any]]:
        groups: dict[int, list[Any]] = defaultdict(list)
        for value in values:
            groups[self._keys.of(value)].append(value)
        return groups

    def _without_partner(self, groups: dict[int, list[Any]], others: dict[int, list[Any]]) -> Iterator[Any]:
        """Yield expected elements that find no partner, among groups of the same sizes."""
        for key, values in groups.items():
            if self._keys.says_all(key):
                continue
            expected, actual = sorted(values, key=_numbers_in), sorted(others[key], key=_numbers_in)
            if is_number(values[0]):
                # In order, numbers have their partners at the same places, if they have any: see `Tolerance`.
                yield from (one for one, other in zip(expected, actual, strict=True) if not self._are_equal(one, other))
            else:
                yield from self._unmatched(expected, actual)

    def _unmatched(self, expected: list[Any], actual: list[Any]) -> Iterator[Any]:
        known: dict[tuple[int, int], bool] = {}

        def fits(one: int, other: int) -> bool:
            self._work.count()
            if (one, other) not in known:
                known[one, other] = self.difference(expected[one], actual[other]) is None
            return known[one, other]

        # Few are left after this, unless the values are made to be hard.
        pairs = [place for place, pair in enumerate(zip(expected, actual, strict=True)) if not self.difference(*pair)]
        with self._work.limited():
            position = unmatched(len(expected), fits, pairs=pairs)
        if position is not None:
            yield expected[position]

    def _are_equal(self, expected: Any, actual: Any) -> bool:
        if is_number(expected) and is_number(actual):
            return are_close(expected, actual, absolute=self._rules.absolute, relative=self._rules.relative)
        if isinstance(expected, str) and isinstance(actual, str):
            return expected == actual or _text(expected, self._rules) == _text(actual, self._rules)
        # By type as well: in Python, True equals 1.
        return type(expected) is type(actual) and bool(expected == actual)


class _Keys:
    """Numbers for values: those of equal values are equal, and each is found in one pass over the value."""

    def __init__(self, rules: Rules, work: _Work) -> None:
        self._rules = rules
        self._work = work
        self._numbers: dict[Hashable, int] = {}
        self._vague: set[int] = set()
        self._is_close = bool(rules.absolute or rules.relative)

    def of(self, value: Any) -> int:
        """Return a value's key."""
        self._work.count()
        form, is_vague = self._form(value)
        key = self._numbers.setdefault(form, len(self._numbers))
        if is_vague:
            self._vague.add(key)
        return key

    def says_all(self, key: int) -> bool:
        """Return whether all values with this key are equal, and not only alike."""
        return key not in self._vague

    def _form(self, value: Any) -> tuple[Hashable, bool]:
        """Return what a key stands for, and whether values that differ may share it."""
        if isinstance(value, dict):
            if self._rules.extra_keys:
                return "object", True
            keys = {key: self.of(item) for key, item in value.items()}
            return ("object", frozenset(keys.items())), not self._vague.isdisjoint(keys.values())
        if isinstance(value, list):
            items = [self.of(item) for item in value]
            inner: Hashable = frozenset(Counter(items).items()) if self._rules.unordered else tuple(items)
            return ("list", inner), not self._vague.isdisjoint(items)
        if is_number(value):
            if is_nan(value):
                return "nan", False
            return ("number", None if self._is_close else value), self._is_close
        if isinstance(value, str):
            return ("text", _text(value, self._rules)), False
        return (type(value).__name__, value), False


def _text(text: str, rules: Rules) -> str:
    return normalized_text(text, ignore_case=rules.ignore_case, ignore_whitespace=rules.ignore_whitespace)


def _brief(value: Any) -> str:
    return shown(repr(value) if isinstance(value, str) else value, limit=_SHOWN_CHARACTERS)


def _numbers_in(value: Any) -> list[Number]:
    """Return the numbers in a value in a fixed order; sorted by them, partners likely stand at the same place."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in _numbers_in(value[key])]
    if isinstance(value, list):
        return sorted(number for item in value for number in _numbers_in(item))
    return [value] if is_number(value) else []
