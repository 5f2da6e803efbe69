"""Finds partners: each expected element of a list gets an actual one of its own that fits it, if that is possible."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

__all__ = ["unmatched"]


def unmatched(count: int, fits: Callable[[int, int], bool], *, pairs: Iterable[int] = ()) -> int | None:
    """Return an element, of `count`, that is left without a partner whichever way pairs are formed, or None.

    Fits need not be transitive, as closeness is not: taking the first partner that fits would miss solutions. `pairs`
    are places at which the two elements are known to fit.
    """
    partner_of = {position: position for position in pairs}
    taken_by = dict(partner_of)
    for element in range(count):
        if element not in partner_of and not _augment(element, count, fits, partner_of, taken_by):
            return element
    return None


def _augment(
    element: int, count: int, fits: Callable[[int, int], bool], partner_of: dict[int, int], taken_by: dict[int, int]
) -> bool:
    """Give an element a partner, moving others to new ones where that is needed; return whether it was possible."""
    asked_by: dict[int, int] = {}
    waiting = deque([element])
    while waiting:
        asking = waiting.popleft()
        for partner in range(count):
            if partner in asked_by or not fits(asking, partner):
                continue
            asked_by[partner] = asking
            if partner in taken_by:
                waiting.append(taken_by[partner])
                continue
            _reassign(partner, asked_by, partner_of, taken_by)
            return True
    return False


def _reassign(free: int, asked_by: dict[int, int], partner_of: dict[int, int], taken_by: dict[int, int]) -> None:
    """Follow the chain of requests back from a free partner."""
    partner: int | None = free
    while partner is not None:
        asking = asked_by[partner]
        given_up = partner_of.get(asking)
        partner_of[asking], taken_by[partner] = partner, asking
        partner = given_up
