"""A run's configuration is taken as it was told, or refused by the name of what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from openmanus_rl.errors import InvalidInput
from openmanus_rl.training.config import ProgramConfig, TrainerConfig, parse_config

SCRIPT = {"script": "train.py", "git": {"url": "https://example.org/r.git", "ref": "main"}}


def test_what_is_not_told_has_the_documented_defaults() -> None:
    config = parse_config({"total_timesteps": 1000})

    assert isinstance(config, TrainerConfig)
    assert (config.n_envs, config.seed, config.policy, config.normalize, config.device) == (
        1,
        None,
        None,
        False,
        "auto",
    )
    assert (config.evaluation.episodes, config.evaluation_interval, config.checkpoint_interval) == (10, 100, 100)


def test_zero_means_only_at_the_end() -> None:
    config = parse_config(
        {"total_timesteps": 1e3, "evaluation": {"interval_timesteps": 0}, "checkpoint_interval_timesteps": 0}
    )

    assert isinstance(config, TrainerConfig)
    assert (config.total_timesteps, config.evaluation_interval, config.checkpoint_interval) == (1000, 0, 0)


@pytest.mark.parametrize(
    ("config", "field", "said"),
    [
        ({}, "config.total_timesteps", "is missing"),
        ({"total_timesteps": 0}, "config.total_timesteps", "greater than 0"),
        ({"total_timesteps": "1000"}, "config.total_timesteps", "valid integer"),
        ({"total_timesteps": True}, "config.total_timesteps", "valid integer"),
        ({"total_timesteps": 0.5}, "config.total_timesteps", "valid integer"),
        ({"total_timesteps": 9, "total_timestep": 9}, "config.total_timestep", "did you mean total_timesteps?"),
        ({"total_timesteps": 9, "evaluation": {"episode": 1}}, "config.evaluation.episode", "did you mean episodes?"),
        ({"total_timesteps": 9, "zzz": 1}, "config.zzz", "known are total_timesteps"),
        ({"total_timesteps": 9, "seed": -1}, "config.seed", "greater than or equal to 0"),
        ({"total_timesteps": 9, "normalize": "yes"}, "config.normalize", "valid boolean"),
        ({"entry_point": {}}, "config.entry_point", "either a module or a script"),
        ({"entry_point": {"module": "a.b"}}, "config.entry_point.module", "pattern"),
        ({"entry_point": {"script": "a.py"}}, "config.entry_point", "needs git or an archive"),
        ({"entry_point": {**SCRIPT, "script": "../a.py"}}, "config.entry_point.script", "inside the folder"),
        ({"entry_point": {**SCRIPT, "script": "/a.py"}}, "config.entry_point.script", "inside the folder"),
        ({"entry_point": {**SCRIPT, "archive": "a"}}, "config.entry_point", "not both"),
        ({"entry_point": {**SCRIPT, "git": {"url": "ext::sh -c x"}}}, "config.entry_point.git.url", "git repository"),
        ({"entry_point": {**SCRIPT, "git": {"url": "--upload-pack=x"}}}, "config.entry_point.git.url", "git"),
        (
            {"entry_point": {**SCRIPT, "git": {"url": "https://e.org/r", "ref": "-x"}}},
            "config.entry_point.git.ref",
            "b",
        ),
        ({"entry_point": SCRIPT, "requirements": ["-r x"]}, "config.requirements.0", "must be a requirement"),
        ({"entry_point": SCRIPT, "arguments": "x"}, "config.arguments", "valid list"),
    ],
)
def test_what_is_wrong_is_named(config: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_config(config)

    assert refused.value.field == field
    assert said in str(refused.value)
    assert field in str(refused.value)


def test_a_program_has_keys_of_its_own() -> None:
    config = parse_config(
        {"entry_point": {"module": "my.loop:train"}, "arguments": ["--lr", "1"], "lr": 3, "policy": 1}
    )

    assert isinstance(config, ProgramConfig)
    assert (config.entry_point.module, config.arguments, config.requirements) == ("my.loop:train", ["--lr", "1"], [])
