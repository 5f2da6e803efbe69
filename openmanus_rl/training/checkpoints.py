"""Checkpoints from which a run goes on: the model with everything that training needs besides it.

A checkpoint counts once its file is in storage. All that was recorded up to its step was delivered before it, since
records are delivered in their order; so a run that is rewound to it and goes on there has neither gaps nor doubles.
"""

from __future__ import annotations

import logging
import pickle
import random
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from openmanus_rl.errors import ChecksumMismatch, NotFoundError
from openmanus_rl.integrations._sb3_checkpoints import checkpoint_entry, save_checkpoint
from openmanus_rl.integrations.stable_baselines3 import load_replay_buffer, load_vec_normalize
from openmanus_rl.managers.checkpoints import ModelCheckpointManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.managers.storage.buckets import MODEL_CHECKPOINTS
from openmanus_rl.recorder import Run
from openmanus_rl.transport.filters import Filter

__all__ = ["Progress", "Saved", "find_checkpoint", "resume_seed", "save"]

_logger = logging.getLogger(__name__)

# Besides what Stable-Baselines3 saves: random numbers, and values that its logger has not written yet.
_STATE = "training_state.pkl"
_METADATA_KEY = "training"


@dataclass(frozen=True)
class Progress:
    """How far training has come, besides what is in the model."""

    next_evaluation: int
    """The timestep from which the next evaluation is due."""
    is_complete: bool = False
    """Whether the run is trained to its end and evaluated."""
    mean_reward: float | None = None
    """Of the last evaluation."""


@dataclass
class Saved:
    """A checkpoint that was found in storage."""

    step: int
    path: Path
    progress: Progress
    contents: tuple[str, ...]

    def load(self, algorithm: type[BaseAlgorithm], env: VecEnv, *, device: str) -> BaseAlgorithm:
        """Return the model, with its replay buffer and the state of all random numbers."""
        model = algorithm.load(self.path, env=env, device=device)
        if isinstance(model, OffPolicyAlgorithm) and "replay_buffer" in self.contents:
            load_replay_buffer(self.path, model)
        if model.seed is not None:
            # Not the seed itself: the environments would begin with the episodes that they began the run with.
            seed = resume_seed(model.seed, self.step)
            env.seed(seed)
            model.action_space.seed(seed)
        _set_random_state(self.state["random"])
        return model

    @cached_property
    def state(self) -> dict[str, Any]:
        """What was saved besides the model: `random`, and `logged`, values that were not written as metrics yet."""
        with checkpoint_entry(self.path, _STATE) as file:
            if file is None:
                raise NotFoundError(f"checkpoint of step {self.step} has no {_STATE}", field="checkpoint")
            found: dict[str, Any] = pickle.loads(file.read_bytes())
            return found

    def normalized(self, env: VecEnv) -> VecEnv:
        """Wrap the environments in the VecNormalize of the checkpoint, if it has one."""
        return load_vec_normalize(self.path, env) if "vecnormalize" in self.contents else env


def resume_seed(seed: int, step: int) -> int:
    """Return the seed of the environments for a run that goes on at this step."""
    return zlib.crc32(f"{seed}:{step}".encode()) & 0x7FFFFFFF


def save(run: Run, model: BaseAlgorithm, *, step: int, progress: Progress) -> str | None:
    """Record a checkpoint, after everything that was recorded up to its step, and return its id."""
    for write in list(run.gatherers):
        write()
    return save_checkpoint(
        run,
        model,
        step=step,
        vec_normalize=True,
        replay_buffer=True,
        entries={_STATE: pickle.dumps({"random": _random_state(), "logged": _unwritten(model)})},
        metadata={_METADATA_KEY: asdict(progress)},
    )


@contextmanager
def find_checkpoint(run_id: str) -> Iterator[Saved | None]:
    """Download the last checkpoint of a run that can be read, for as long as the block runs; None if there is none."""
    with TemporaryDirectory(prefix="openmanus-rl-resume-") as folder:
        path = Path(folder) / "model.zip"
        for row in _stored(run_id):
            found = _download(row, path)
            if found is not None:
                yield found
                return
        yield None


def _stored(run_id: str) -> Iterator[Mapping[str, Any]]:
    offset: int | None = 0
    while offset is not None:
        page = ModelCheckpointManager.list_checkpoints(
            training_run_id=run_id,
            filters=[Filter.not_null("storage_path"), Filter.not_null("step")],
            order_by="-step",
            limit=20,
            offset=offset,
        )
        # Others may have been recorded to the run by hand.
        yield from (row for row in page.rows if _METADATA_KEY in row["metadata"])
        offset = page.next_offset


def _download(row: Mapping[str, Any], path: Path) -> Saved | None:
    try:
        path.unlink(missing_ok=True)
        StorageManager.download_file(MODEL_CHECKPOINTS, row["storage_path"], path)
        if not is_zipfile(path):
            raise BadZipFile("not a zip file")
    except (NotFoundError, ChecksumMismatch, BadZipFile) as error:
        _logger.warning("checkpoint of step %s cannot be used, an earlier one is: %s", row["step"], error)
        return None
    told = row["metadata"][_METADATA_KEY]
    progress = Progress(int(told["next_evaluation"]), bool(told["is_complete"]), told.get("mean_reward"))
    return Saved(int(row["step"]), path, progress, tuple(row["metadata"].get("contents", ())))


def _unwritten(model: BaseAlgorithm) -> dict[str, dict[str, Any]]:
    logger = model.logger
    return {"name_to_value": dict(logger.name_to_value), "name_to_count": dict(logger.name_to_count)}


def _random_state() -> dict[str, Any]:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_random_state(state: Mapping[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    # Training may go on on a machine with other devices.
    if len(state["cuda"]) == torch.cuda.device_count() > 0:
        torch.cuda.set_rng_state_all(state["cuda"])
