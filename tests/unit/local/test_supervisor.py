"""A part that dies comes back: at once the first time, with growing patience after that."""

from __future__ import annotations

from openmanus_rl.errors import StackError
from openmanus_rl.local.supervisor import KeptAlive, describe_exit


class FlakyPart:
    """A part that can be told to be dead, or unable to start."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.starts = 0
        self.broken = False

    def start(self) -> None:
        self.starts += 1
        if self.broken:
            raise StackError("no disk")
        self.code = None

    def exit_code(self) -> int | None:
        return self.code

    def stop(self) -> None:
        self.code = 0


def test_a_living_part_is_left_alone() -> None:
    part = FlakyPart()
    assert KeptAlive("it", part).restart_if_due(0.0) is None
    assert part.starts == 0


def test_a_dead_part_is_restarted_after_a_short_pause() -> None:
    part = FlakyPart()
    kept = KeptAlive("it", part)
    part.code = -9
    due = kept.restart_if_due(100.0)
    assert due is not None
    assert part.starts == 0
    assert kept.restart_if_due(due) is None
    assert part.starts == 1


def test_pauses_grow_to_a_limit_while_a_part_does_not_start() -> None:
    part = FlakyPart()
    part.code, part.broken = 1, True
    kept = KeptAlive("it", part)
    now, pauses = 100.0, []
    for _ in range(12):
        due = kept.restart_if_due(now)
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses == sorted(pauses)
    assert 25.0 <= pauses[-1] <= 35.0
    part.broken = False
    assert kept.restart_if_due(now) is None


def test_the_way_a_process_ended_is_told() -> None:
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(3) == "exit code 3"
