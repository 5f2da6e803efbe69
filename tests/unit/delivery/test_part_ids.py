"""The parts of turns have ids of their own, however close together the ids of the turns are."""

from __future__ import annotations

from openmanus_rl.delivery.reading import _OF_TURNS, _child_id
from openmanus_rl.records.ids import IdSequence

_POSITIONS = (0, 1, 2, 3, 1000, 2**15 - 1)


def test_no_two_parts_of_a_rollouts_turns_share_an_id() -> None:
    for _ in range(50):
        sequence = IdSequence()
        turns = [sequence.next_id() for _ in range(200)]
        for kind in _OF_TURNS:
            parts = [_child_id(turn, kind, position) for turn in turns for position in _POSITIONS]
            assert len(set(parts)) == len(parts), kind
        mixed = [_child_id(turn, kind, position) for turn in turns for kind in _OF_TURNS for position in _POSITIONS]
        assert len({*turns, *mixed}) == len(turns) + len(mixed)
