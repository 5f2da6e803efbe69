"""Ids made by the client, so that a repeated write is the same write.

What has a natural key gets an id that follows from it: many processes then agree without asking each other.
Everything else gets a UUIDv7, which sorts by the time it was made; turns, by the time their rollout logged its first.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
import time
from binascii import hexlify
from collections.abc import Sequence
from uuid import UUID, uuid5

from openmanus_rl.errors import InvalidInput

__all__ = [
    "NAMESPACE",
    "Id",
    "IdSequence",
    "as_id",
    "as_optional_id",
    "checkpoint_id",
    "creation_change_id",
    "environment_id",
    "evaluation_result_id",
    "frame_id",
    "group_id",
    "is_derived",
    "new_id",
    "step_id",
    "task_id",
    "validation_id",
    "validator_id",
]

Id = str | UUID

NAMESPACE = UUID("e2a7519d-8088-4d57-8dbf-f9f4cf31e13d")


# Its own, so that nobody's seed repeats ids.
_chance = random.Random()
_forks = 0
_MOST_MILLISECONDS = (1 << 48) - 1
_pack = struct.Struct(">QQ").pack
_split_digits = struct.Struct("8s4s4s4s12s").unpack
# Six decimal digits.
_FIRST_NUMBER, _LAST_NUMBER = 100_000, 999_999


def _diverge_from_parent() -> None:
    """Make other ids in a forked child than its parent makes."""
    global _forks
    _chance.seed()
    _forks += 1


os.register_at_fork(after_in_child=_diverge_from_parent)


def new_id() -> str:
    """Return a new UUIDv7: milliseconds, then a fraction of a millisecond, then chance."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    first = (milliseconds & _MOST_MILLISECONDS) << 16 | 0x7000 | fraction
    # By hand: a UUID object takes three times as long to make, and every record has an id.
    digits = hexlify(_pack(first, 1 << 63 | _chance.getrandbits(62)))
    return b"-".join(_split_digits(digits)).decode()


def is_derived(given: str) -> bool:
    """Return whether an id follows from a natural key, such as a run's name, so that it can be found again."""
    try:
        return UUID(given).version == 5
    except ValueError:
        return False


class IdSequence:
    """Makes ids that differ in six digits only, as those of a rollout's turns do.

    They are made in a fraction of the time that `new_id` takes, which every log call would notice, and lie together in
    an index. The digits count up, in decimals, which are the fastest to write. Behind them stay six digits that are the
    same for all: the parts of a turn have ids a little behind its own (`internal.part_id`), before the next turn's.
    """

    def __init__(self) -> None:
        self._begin()

    def next_id(self) -> str:
        """Return the next id; safe to call from several threads, and in a forked child."""
        forks, head, next_number, tail = self._state
        number = next_number()
        if forks != _forks or number > _LAST_NUMBER:
            self._begin()
            _, head, next_number, tail = self._state
            number = next_number()
        return f"{head}{number}{tail}"

    def _begin(self) -> None:
        fresh = new_id()
        first = _FIRST_NUMBER + _chance.getrandbits(18)
        # One value, so that no thread sees half a change; `next` of a count is atomic.
        self._state = (_forks, fresh[:24], itertools.count(first).__next__, fresh[30:])


def as_id(value: Id, *, field: str) -> str:
    """Return an id in its usual form; an `InvalidInput` names the field that holds none."""
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"{field} {value!r} is not an id", field=field, hint="give a UUID, such as the `id` of a row"
        ) from error


def as_optional_id(value: Id | None, *, field: str) -> str | None:
    """Return an id in its usual form, or None where none was given."""
    return None if value is None else as_id(value, field=field)


def environment_id(name: str) -> str:
    """Return the id of the environment of this name."""
    return str(uuid5(NAMESPACE, f"environment:{name}"))


def task_id(environment: str | None, external_id: str) -> str:
    """Return the id of the task that is imported under this external id."""
    return str(uuid5(NAMESPACE, f"task:{environment or ''}:{external_id}"))


def validator_id(of_task: Id, external_id: str) -> str:
    """Return the id of a task's validator."""
    return _derived(of_task, f"validator:{external_id}")


def step_id(run: Id, step: int, *, rewinds: Sequence[int] = ()) -> str:
    """Return the id of a run's step; of a run that was rewound to earlier steps, on its present timeline."""
    return _derived(run, f"step:{step}{_on_timeline(step, rewinds)}")


def group_id(parent: Id, number: int) -> str:
    """Return the id of a rollout group of a step or an evaluation."""
    return _derived(parent, f"group:{number}")


def checkpoint_id(run: Id, number: int, *, step: int | None = None, rewinds: Sequence[int] = ()) -> str:
    """Return the id of a run's checkpoint, made at a step; of a run that was rewound, on its present timeline."""
    return _derived(run, f"checkpoint:{number}{_on_timeline(step, rewinds)}")


def frame_id(run: Id, step: int, *, rewinds: Sequence[int] = ()) -> str:
    """Return the id of a run's frame at a step; of a run that was rewound, on its present timeline."""
    return _derived(run, f"frame:{step}{_on_timeline(step, rewinds)}")


def evaluation_result_id(checkpoint: Id, environment: str, evaluation: Id | None, task: Id | None) -> str:
    """Return the id of a checkpoint's result in an environment, of one evaluation and task or of all."""
    return _derived(checkpoint, f"result:{evaluation or ''}:{task or ''}:{environment}")


def validation_id(rollout: Id, validator: Id | None, name: str) -> str:
    """Return the id of what a validator said of a rollout."""
    return _derived(rollout, f"validation:{validator or ''}:{name}")


def creation_change_id(row: Id, *, again_by: Id | None = None) -> str:
    """Return the id of a row's first status, so that creating it again later does not set it back.

    Who resumed a run begins its unfinished steps again, and says so by the id of the resumption.
    """
    return _derived(row, "created" if again_by is None else f"created:{again_by}")


def _on_timeline(step: int | None, rewinds: Sequence[int]) -> str:
    """Return what tells a step from that of the same number which a rewind hid; timelines are counted from 1."""
    begun = [number for number, to_step in enumerate(rewinds, start=1) if step is None or to_step < step]
    return f":{begun[-1]}" if begun else ""


def _derived(parent: Id, name: str) -> str:
    return str(uuid5(UUID(as_id(parent, field="id")), name))
