#!/usr/bin/env python3
"""Write what the form of a new run knows of Stable-Baselines3: each algorithm's parameters, their defaults and meaning.

scripts/generate_algorithms.py [FILE]     FILE defaults to dashboard/src/pages/new_run/algorithms.json of this checkout
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from stable_baselines3 import A2C, DQN, PPO, SAC, TD3

FILE = Path(__file__).resolve().parents[1] / "dashboard" / "src" / "pages" / "new_run" / "algorithms.json"
ALGORITHMS = {"ppo": PPO, "dqn": DQN, "a2c": A2C, "sac": SAC, "td3": TD3}
TITLES = {
    "ppo": "Proximal Policy Optimization",
    "dqn": "Deep Q-Network",
    "a2c": "Advantage Actor Critic",
    "sac": "Soft Actor-Critic",
    "td3": "Twin Delayed DDPG",
}
ACTIONS = {"ppo": "any", "a2c": "any", "dqn": "discrete", "sac": "continuous", "td3": "continuous"}
# Set by the rest of the configuration or by the training service, or not expressible in JSON.
ELSEWHERE = {
    "self",
    "policy",
    "env",
    "seed",
    "device",
    "verbose",
    "tensorboard_log",
    "_init_setup_model",
    "replay_buffer_class",
    "rollout_buffer_class",
}
# What people change first; the others are folded away.
COMMON = {
    "learning_rate",
    "n_steps",
    "batch_size",
    "n_epochs",
    "gamma",
    "gae_lambda",
    "clip_range",
    "ent_coef",
    "buffer_size",
    "learning_starts",
    "tau",
    "train_freq",
    "gradient_steps",
    "target_update_interval",
    "exploration_fraction",
    "exploration_final_eps",
    "policy_delay",
    "target_policy_noise",
}


def described(docstring: str) -> dict[str, str]:
    """Return what a docstring says of each parameter, in one line each."""
    found = re.findall(r"^:param (\w+):(.*?)(?=^:|\Z)", docstring, re.MULTILINE | re.DOTALL)
    return {name: _sentence(text) for name, text in found}


def _sentence(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    # Names are marked, and other pages linked, for Sphinx.
    text = re.sub(r"\s*See :ref:`[^`]*`\.?", "", text)
    text = re.sub(r"\s*\(?(?:see|cf|Cf)? ?(?:issue #\d+ )?\(?(?:cf )?https?://\S+\)?", "", text, flags=re.IGNORECASE)
    text = text.replace("``", "`").rstrip(" .")
    return text[:1].upper() + text[1:]


def kind_of(name: str, annotation: str) -> str:
    """Return how a parameter is asked for."""
    if name == "action_noise":
        return "noise"
    if "Callable" in annotation:
        return "schedule"
    if "dict[" in annotation:
        return "json"
    if "tuple[int, str]" in annotation:
        return "frequency"
    if "str" in annotation:
        return "word"
    return {"bool": "flag", "int": "whole"}.get(annotation.replace(" | None", ""), "number")


def parameters(algorithm: type[Any]) -> list[dict[str, Any]]:
    """Return the parameters that a run can set, in the order of the signature."""
    meanings = described(inspect.getdoc(algorithm) or "")
    given = inspect.signature(algorithm.__init__).parameters
    return [
        {
            "name": name,
            "kind": kind_of(name, _written(parameter.annotation)),
            "nullable": "None" in _written(parameter.annotation),
            "default": parameter.default,
            "common": name in COMMON,
            "meaning": meanings.get(name, ""),
        }
        for name, parameter in given.items()
        if name not in ELSEWHERE
    ]


def _written(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def algorithms() -> dict[str, Any]:
    """Return everything that the form knows."""
    return {
        name: {
            "title": TITLES[name],
            "actions": ACTIONS[name],
            "policies": list(algorithm.policy_aliases),
            "parameters": parameters(algorithm),
        }
        for name, algorithm in ALGORITHMS.items()
    }


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    target.write_text(json.dumps(algorithms(), indent=2, ensure_ascii=False) + "\n")
