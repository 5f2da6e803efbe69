"""What can be asked of a job, and the task that SkyPilot is shown and given."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
import yaml

from .writing import Connection, new_id, write

# Besides what YAML gives a meaning: ends of lines, and characters that it takes only as escapes.
ODD = [
    "\t",
    "\r",
    "\x01",
    "\x7f",
    "\x80",
    "\x85",
    "\xa0",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\ufffe",
    "😀",
    "é",
    "'",
    '"',
    "\\",
]
SHAPES = ["{}", "a{}b", "a\n{}b\n", "{}\n", "\n{}", "a\n{}\n", "- {}: #", "---\n{}", "a\n\n{}\n\n"]


@pytest.fixture
def run_id(db: Connection) -> str:
    run_id = new_id()
    write(db, {"training_runs": [{"id": run_id, "name": "r", "environment": "e", "status": "pending"}]})
    return run_id


def preview(db: Connection, run_id: str, **config: Any) -> dict[str, Any]:
    found = db.execute("select public.preview_job(%s, %s::jsonb) as answer", [run_id, json.dumps(config)]).fetchone()
    assert found is not None
    return dict(found["answer"])


def test_the_yaml_of_a_task_reads_as_the_task_whatever_is_in_it(db: Connection, run_id: str) -> None:
    texts = [shape.format(odd) for odd in ODD for shape in SHAPES]
    variables = {f"V{number}": text for number, text in enumerate(texts)}

    shown = preview(db, run_id, accelerator="A10:1", env=variables, setup="echo 'ü\x7f'", package="a\u2028b")

    assert yaml.safe_load(shown["yaml"]) == shown["task"]
    assert variables.items() <= shown["task"]["envs"].items()


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"env": {"HF_TOKEN": "hf_abc"}}, "config.env.HF_TOKEN"),
        ({"env": {"WANDB_API_KEY": "x"}, "use_spot": True}, "config.env.WANDB_API_KEY"),
        ({"env": {"SUPABASE_SERVICE_ROLE_KEY": "x"}}, "config.env.SUPABASE_SERVICE_ROLE_KEY"),
        ({"env": {"MODEL": "x"}, "secrets": ["MODEL"]}, "config.env.MODEL"),
        ({"env": {"INDEX": "https://me:pass@example.com/"}}, "config.env.INDEX"),
        ({"package": "git+https://me:pass@example.com/a"}, "config.package"),
        ({"setup": "pip install git+https://:pass@example.com/a"}, "config.setup"),
    ],
)
def test_a_secret_in_clear_text_is_refused(db: Connection, run_id: str, config: dict[str, Any], field: str) -> None:
    with pytest.raises(psycopg.Error, match="it holds a secret, which everybody would see") as refused:
        preview(db, run_id, **config)
    assert str(refused.value).startswith(f"{field}:")
    assert "pass@" not in str(refused.value)


def test_variables_that_hold_no_secret_are_taken(db: Connection, run_id: str) -> None:
    env = {
        "TOKENIZERS_PARALLELISM": "false",
        "MAX_NEW_TOKENS": "9",
        "HF_TOKEN": "",
        "AT": "ssh://git@example.com/a:b@c",
    }
    setup = 'pip install "git+https://me:$GIT_TOKEN@example.com/a"'
    shown = preview(db, run_id, env=env, setup=setup, secrets=["GIT_TOKEN"])
    assert env.items() <= shown["task"]["envs"].items()


def test_a_whole_number_may_be_written_with_a_fraction_of_zero(db: Connection, run_id: str) -> None:
    shown = preview(db, run_id, infra="slurm", metrics_interval=50.0, autostop_minutes=5.0, disk_size_gb=1e2)
    assert shown["task"]["envs"]["METRICS_INTERVAL"] == "50"
    assert shown["task"]["resources"]["autostop"]["idle_minutes"] == 5
    assert "disk_size: 100\n" in shown["yaml"]
