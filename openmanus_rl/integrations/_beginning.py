"""Where training is recorded: in which run it goes on, from which step, and behind which that are there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

from openmanus_rl.errors import StackError, TransientError
from openmanus_rl.recorder import Run
from openmanus_rl.recorder.beginning import Resume

__all__ = ["Axis", "axis_of", "begin_after"]

_logger = logging.getLogger(__name__)


class Axis:
    """The steps of a run: training that counts from an earlier one goes on behind what is there, and doubles none."""

    def __init__(self, next_step: int) -> None:
        self._offset = 0
        self._last = max(0, next_step - 1)

    def begin(self, made: int) -> None:
        """Begin a training that has made so many steps before."""
        self._offset = max(0, self._last - made)

    def step(self, made: int) -> int:
        """Return the step of the run at which a training has made so many of its own."""
        step = self._offset + made
        self._last = max(self._last, step)
        return step


_axes: WeakKeyDictionary[Run, Axis] = WeakKeyDictionary()


def axis_of(run: Run) -> Axis:
    """Return the steps of a run, the same for all callbacks that record to it."""
    return _axes.setdefault(run, Axis(run.next_step))


def begin_after(begin: Callable[..., Run], run_name: str, step: int, *, resume: Resume) -> Run:
    """Begin the run of that name, or go on with it after a step; what it has beyond that, training makes anew.

    Training does not wait for a database that is away: a run that nobody here knows is then taken for a new one,
    unless `resume` asks for certainty.
    """
    try:
        return begin(run_name=run_name, rewind_to_step=step, resume=resume)
    except (TransientError, StackError) as error:
        if resume != "allow":
            raise
        _logger.warning("run %s: taken for a new one, since nobody can be asked now (%s)", run_name, error)
        return begin(run_name=run_name)
