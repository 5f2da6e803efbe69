"""Checkpoints of Stable-Baselines3: one file that `load` reads, with everything needed to resume."""

from __future__ import annotations

import logging
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from openmanus_rl.errors import NotFoundError
from openmanus_rl.integrations._sb3_model import algorithm_of
from openmanus_rl.managers.storage.buckets import BUCKETS, MODEL_CHECKPOINTS
from openmanus_rl.recorder import Run

__all__ = ["checkpoint_entry", "load_replay_buffer", "load_vec_normalize", "save_checkpoint"]

_logger = logging.getLogger(__name__)

# Additional entries in the zip file of the algorithm; `load` ignores them.
_VEC_NORMALIZE = "vecnormalize.pkl"
_REPLAY_BUFFER = "replay_buffer.pkl"

_MOST_BYTES = BUCKETS[MODEL_CHECKPOINTS].limit_bytes

AnyPath = str | PathLike[str]


def save_checkpoint(
    run: Run,
    model: BaseAlgorithm,
    *,
    step: int,
    vec_normalize: bool,
    replay_buffer: bool,
    entries: Mapping[str, bytes] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> str | None:
    """Record a checkpoint of the model and return its id; log a warning and return None if it cannot be written.

    `entries` are further files to add. A replay buffer that would make the file too large to store is left out.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="openmanus-rl-checkpoint-") as folder:
            path = Path(folder) / "model.zip"
            contents = _write(path, model, vec_normalize=vec_normalize, replay_buffer=replay_buffer)
            if path.stat().st_size > _MOST_BYTES and replay_buffer:
                _logger.warning("checkpoint of step %d: saved without the replay buffer, which is too large", step)
                contents = _write(path, model, vec_normalize=vec_normalize, replay_buffer=False)
            with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
                for name, content in (entries or {}).items():
                    archive.writestr(name, content)
            told = {"algorithm": algorithm_of(model), "contents": ["model", *contents], **(metadata or {})}
            return run.log_checkpoint(step, step=step, file=path, metadata=told)
    except OSError as error:
        _logger.warning("checkpoint of step %d was not saved: %s", step, error)
        return None


def load_vec_normalize(path: AnyPath, env: VecEnv) -> VecNormalize:
    """Wrap an environment in the VecNormalize whose statistics are in a checkpoint file.

    The statistics are updated further, as in training; for evaluation, set `training` and `norm_reward` to False.
    """
    with _entry(path, _VEC_NORMALIZE) as file:
        return VecNormalize.load(str(file), env)


def load_replay_buffer(path: AnyPath, model: OffPolicyAlgorithm) -> None:
    """Load the replay buffer in a checkpoint file into a model."""
    with _entry(path, _REPLAY_BUFFER) as file:
        model.load_replay_buffer(file)


@contextmanager
def checkpoint_entry(path: AnyPath, name: str) -> Iterator[Path | None]:
    """Extract a further file of a checkpoint while the block runs; None if there is none of this name."""
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix="openmanus-rl-") as folder:
        yield Path(archive.extract(name, folder)) if name in archive.namelist() else None


def _write(path: Path, model: BaseAlgorithm, *, vec_normalize: bool, replay_buffer: bool) -> list[str]:
    model.save(path)
    return _add(path, model, vec_normalize=vec_normalize, replay_buffer=replay_buffer)


def _add(path: Path, model: BaseAlgorithm, *, vec_normalize: bool, replay_buffer: bool) -> list[str]:
    """Add the normalization statistics and the replay buffer to a model's file; return what was added."""
    added = []
    scaler = model.get_vec_normalize_env()
    if vec_normalize and scaler is not None:
        scaler.save(str(path.with_name(_VEC_NORMALIZE)))
        added.append(_VEC_NORMALIZE)
    if replay_buffer and getattr(model, "replay_buffer", None) is not None:
        model.save_replay_buffer(path.with_name(_REPLAY_BUFFER))  # type: ignore[attr-defined]
        added.append(_REPLAY_BUFFER)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in added:
            archive.write(path.with_name(name), name)
    return [name.removesuffix(".pkl") for name in added]


@contextmanager
def _entry(path: AnyPath, name: str) -> Iterator[Path]:
    with checkpoint_entry(path, name) as file:
        if file is None:
            what = name.removesuffix(".pkl")
            raise NotFoundError(
                f"checkpoint {path} contains no {what}",
                field="path",
                hint=f"OpenManusCallback(save_{what}=True) saves it, if the training has one",
            )
        yield file
