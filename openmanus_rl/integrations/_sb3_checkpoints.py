"""Checkpoints of Stable-Baselines3: one file that `load` reads, with everything needed to resume."""

from __future__ import annotations

import logging
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from openmanus_rl.errors import NotFoundError
from openmanus_rl.integrations._sb3_model import algorithm_of
from openmanus_rl.recorder import Run

__all__ = ["load_replay_buffer", "load_vec_normalize", "save_checkpoint"]

_logger = logging.getLogger(__name__)

# Additional entries in the zip file of the algorithm; `load` ignores them.
_VEC_NORMALIZE = "vecnormalize.pkl"
_REPLAY_BUFFER = "replay_buffer.pkl"

AnyPath = str | PathLike[str]


def save_checkpoint(run: Run, model: BaseAlgorithm, *, step: int, vec_normalize: bool, replay_buffer: bool) -> None:
    """Record a checkpoint of the model; log a warning if its file cannot be written."""
    try:
        with tempfile.TemporaryDirectory(prefix="openmanus-rl-checkpoint-") as folder:
            path = Path(folder) / "model.zip"
            model.save(path)
            contents = _add(path, model, vec_normalize=vec_normalize, replay_buffer=replay_buffer)
            metadata = {"algorithm": algorithm_of(model), "contents": ["model", *contents]}
            run.log_checkpoint(step, step=step, file=path, metadata=metadata)
    except OSError as error:
        _logger.warning("checkpoint of step %d was not saved: %s", step, error)


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
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix="openmanus-rl-") as folder:
        if name not in archive.namelist():
            what = name.removesuffix(".pkl")
            raise NotFoundError(
                f"checkpoint {path} contains no {what}",
                field="path",
                hint=f"OpenManusCallback(save_{what}=True) saves it, if the training has one",
            )
        yield Path(archive.extract(name, folder))
