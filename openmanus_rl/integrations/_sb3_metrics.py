"""Records everything that a Stable-Baselines3 logger writes."""

from __future__ import annotations

import time
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import KVWriter, Logger

from openmanus_rl.integrations._beginning import axis_of
from openmanus_rl.integrations._trainer_numbers import numbers_of
from openmanus_rl.recorder import Run

__all__ = ["MetricsWriter"]

_PROGRESS_SECONDS = 1.0


class MetricsWriter(KVWriter):
    """An output of the logger during training that records numbers as metrics."""

    def __init__(self, run: Run, model: BaseAlgorithm) -> None:
        self._run = run
        self._model = model
        self._axis = axis_of(run)
        self._logger: Logger | None = None
        self._next_progress = 0.0
        self._last_step = -1

    def attach(self, logger: Logger) -> None:
        """Add this output to the logger, next to its other outputs."""
        logger.output_formats.append(self)
        self._logger = logger

    def detach(self) -> None:
        """Remove this output from the logger."""
        if self._logger is not None and self in self._logger.output_formats:
            self._logger.output_formats.remove(self)
        self._logger = None

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:  # noqa: ARG002
        """Record the numbers of one dump, including those excluded from other outputs."""
        self._last_step = step
        metrics = numbers_of(key_values)
        if metrics:
            self._run.log(metrics, step=self._axis.step(step))
        if time.monotonic() >= self._next_progress:
            self._next_progress = time.monotonic() + _PROGRESS_SECONDS
            self.say_progress()

    def write_rest(self) -> None:
        """Record values that the logger has not written yet, unless it has already written this step."""
        step = self._model.num_timesteps
        if self._logger is not None and step > self._last_step:
            self.write(dict(self._logger.name_to_value), {}, step)
        self.say_progress()

    def say_progress(self) -> None:
        """Record the progress of training."""
        done, total = self._model.num_timesteps, self._model._total_timesteps
        progress = min(1.0, done / total) if total > 0 else None
        self._run.update(current_step=self._axis.step(done), progress=progress)

    def close(self) -> None:
        """Do nothing: the logger must not end the run."""
