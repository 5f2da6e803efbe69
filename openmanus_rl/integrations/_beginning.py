"""Choose the run of a training: a new one or one to resume, and the steps at which it continues."""

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
    """Maps the steps of a training to those of its run, so that a second training continues after the first."""

    def __init__(self, next_step: int) -> None:
        self._offset = 0
        self._last = max(0, next_step - 1)

    def begin(self, made: int) -> None:
        """Start a training that has already made `made` steps."""
        self._offset = max(0, self._last - made)

    def step(self, made: int) -> int:
        """Return the step of the run for a step of the training."""
        step = self._offset + made
        self._last = max(self._last, step)
        return step


_axes: WeakKeyDictionary[Run, Axis] = WeakKeyDictionary()


def axis_of(run: Run) -> Axis:
    """Return the steps of a run; all callbacks that record to it share them."""
    return _axes.setdefault(run, Axis(run.next_step))


def begin_after(begin: Callable[..., Run], run_name: str, step: int, *, resume: Resume) -> Run:
    """Start a run, or resume the run of that name after a step; later steps are rewound.

    Training does not wait for an unreachable database: with resume="allow", a run that is not known locally is then
    started as a new one; otherwise the error is raised.
    """
    try:
        return begin(run_name=run_name, rewind_to_step=step, resume=resume)
    except (TransientError, StackError) as error:
        if resume != "allow":
            raise
        _logger.warning("run %s: started as a new run, because the database cannot be reached (%s)", run_name, error)
        return begin(run_name=run_name)
