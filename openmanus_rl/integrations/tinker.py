"""tinker-cookbook: records metrics, hyperparameters, long texts, and trajectories as rollouts with tokens.

For the training loops of the cookbook:

    from openmanus_rl.integrations.tinker import recording

    with recording(environment="gsm8k"):
        asyncio.run(train.main(config))

In your own loop, add `OpenManusLogger` to the loggers and call `log_trajectory_groups`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from openmanus_rl.integrations._extras import provided_by
from openmanus_rl.integrations._trainer_numbers import numbers_of
from openmanus_rl.recorder import Run, init
from openmanus_rl.recorder.exits import how_it_ended

with provided_by("tinker"):
    from tinker_cookbook.checkpoint_utils import get_last_checkpoint
    from tinker_cookbook.rl import metric_util, rollout_logging
    from tinker_cookbook.rl.types import TrajectoryGroup
    from tinker_cookbook.utils import ml_log

    from openmanus_rl.integrations._tinker_rollouts import Tokenizer, log_trajectory_groups

__all__ = ["OpenManusLogger", "log_trajectory_groups", "recording"]

_logger = logging.getLogger(__name__)
_TRAIN_SPLIT = "train"


class OpenManusLogger(ml_log.Logger):
    """A tinker-cookbook logger that records to a given run, or to a new one that `close` finishes."""

    def __init__(
        self,
        run: Run | None = None,
        *,
        name: str = "tinker",
        algorithm: str | None = None,
        environment: str | None = None,
        run_name: str | None = None,
        url: str | None = None,
    ) -> None:
        self._owns_run = run is None
        self.run = run or init(name, algorithm=algorithm, environment=environment, run_name=run_name)
        self._url = url
        self._last_step = 0
        # An exception that is already being handled, for example in a retry, does not concern this training.
        self._handled_before = sys.exc_info()[1]

    def log_hparams(self, config: Any) -> None:
        """Record the configuration of the run."""
        dumped = ml_log.dump_config(config)
        self.run.update(config=dumped if isinstance(dumped, dict) else {"config": dumped})

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Record the metrics that are numbers; the default step is the last one that was logged."""
        if step is not None:
            self._last_step = step
        numbers = numbers_of(metrics)
        if numbers:
            self.run.log(numbers, step=self._last_step)

    def log_long_text(self, key: str, text: str) -> None:
        """Record a text as a file of the run."""
        self.run.log_media(text.encode(), kind="file", content_type="text/plain", metadata={"key": key})

    def sync(self) -> None:
        """Wait up to 30 seconds until everything is in the database; the rest is delivered later."""
        self.run.flush(timeout_seconds=30.0)

    def close(self) -> None:
        """Finish the run if the logger started it, as failed if an exception is being raised; does not wait."""
        if self._owns_run:
            error = sys.exc_info()[1]
            status, message = how_it_ended(None if error is self._handled_before else error)
            self.run.finish(status, message=message)

    def get_logger_url(self) -> str | None:
        """Return the URL of the run, if it is known."""
        return self._url


@contextmanager
def recording(
    run: Run | None = None,
    *,
    name: str = "tinker",
    algorithm: str | None = None,
    environment: str = "tinker",
    run_name: str | None = None,
    log_path: str | None = None,
    tokenizer: Tokenizer | None = None,
) -> Iterator[Run]:
    """Record a training loop of the cookbook that runs in this block; an exception marks the run as failed.

    In the block, `setup_logging` adds an `OpenManusLogger` to the loggers it creates, and the trajectories that the
    cookbook summarizes for its own files (`rollout_json_export`, on by default) are recorded in full. With a tokenizer,
    turns have text besides their tokens. An existing run of that `run_name` is resumed; with the loop's `log_path`, at
    its last checkpoint, like the loop.
    """
    if run is not None:
        with _hooked(run, tokenizer):
            yield run
        return
    rewind_to_step = _last_batch(log_path) if run_name is not None and log_path is not None else None
    with (
        init(
            name,
            algorithm=algorithm,
            environment=environment,
            run_name=run_name,
            rewind_to_step=rewind_to_step,
        ) as own,
        _hooked(own, tokenizer),
    ):
        yield own


def _last_batch(log_path: str) -> int:
    """Return the last batch that the loop will not repeat; -1 if it starts from the beginning."""
    checkpoint = get_last_checkpoint(log_path)
    return (checkpoint.batch or 0) - 1 if checkpoint is not None else -1


def _check_beginning(run: Run, log_path: str | None) -> None:
    """Log a warning if the loop is going to repeat batches that the run already has."""
    begins_at = _last_batch(log_path) + 1 if log_path is not None else 0
    if begins_at < run.next_step:
        _logger.warning(
            "run %s has steps up to %d, and the loop starts at %d: some steps will be recorded twice; to resume at the "
            "loop's checkpoint instead, use recording(run_name=..., log_path=%r)",
            run.id, run.next_step - 1, begins_at, log_path,
        )  # fmt: skip


@contextmanager
def _replaced(module: ModuleType, name: str, function: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def _hooked(run: Run, tokenizer: Tokenizer | None) -> Iterator[None]:
    set_up = ml_log.setup_logging
    summarise = rollout_logging.serialize_rollout_summaries

    def set_up_with_ours(*args: Any, **options: Any) -> ml_log.Logger:
        logger = set_up(*args, **options)
        _check_beginning(run, options.get("log_dir", args[0] if args else None))
        ours = OpenManusLogger(run)
        config = options.get("config", args[3] if len(args) > 3 else None)
        if config is not None:
            ours.log_hparams(config)
        if isinstance(logger, ml_log.MultiplexLogger):
            logger.loggers.append(ours)
            return logger
        return ml_log.MultiplexLogger([logger, ours])

    def summarise_and_record(**given: Any) -> list[dict[str, Any]]:
        _record(run, tokenizer, **given)
        return summarise(**given)

    with (
        _replaced(ml_log, "setup_logging", set_up_with_ours),
        # Training uses the first, evaluations the second.
        _replaced(rollout_logging, "serialize_rollout_summaries", summarise_and_record),
        _replaced(metric_util, "serialize_rollout_summaries", summarise_and_record),
    ):
        yield


def _record(
    run: Run,
    tokenizer: Tokenizer | None,
    *,
    split: str,
    iteration: int,
    trajectory_groups_P: Sequence[TrajectoryGroup],
    taglist_P: Sequence[list[str]],
    sampling_client_steps_P: Sequence[int | None] | None = None,
    **_: Any,
) -> None:
    options: dict[str, Any] = {
        "tokenizer": tokenizer,
        "tags": taglist_P,
        "policy_versions": sampling_client_steps_P,
    }
    if split == _TRAIN_SPLIT:
        with run.step(iteration) as step:
            log_trajectory_groups(run, step, trajectory_groups_P, **options)
    else:
        rewards = [reward for group in trajectory_groups_P for reward in group.get_total_rewards()]
        with run.evaluation(step=iteration, name=split) as evaluation:
            log_trajectory_groups(run, evaluation, trajectory_groups_P, **options)
            evaluation.finish(mean_reward=sum(rewards) / len(rewards) if rewards else None)
