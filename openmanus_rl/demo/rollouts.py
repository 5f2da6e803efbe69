"""`demo --rollouts`: an agent does three tasks in the browser, one of them wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmanus_rl.managers.environments import EnvironmentManager
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.tasks import TaskManager
from openmanus_rl.records.rows import Rollout
from openmanus_rl.settings import Settings
from openmanus_rl.workers.worker import Event, Worker

__all__ = ["ENVIRONMENT", "DemoRollouts", "play"]

ENVIRONMENT = "demo-shop"

_TASKS: list[dict[str, Any]] = [
    {
        "external_id": "count-open-orders",
        "name": "Count the open orders of a customer",
        "description": 'How many orders of Ada Lovelace are open? Answer as JSON: {"open": number}.',
        "expected_answer": '{"open": 2}',
        "metadata": {
            "script": [
                {"goto": "/"},
                {"fill": {"#search": "Ada Lovelace"}},
                {"press": "Enter"},
                {"read": {"open": "#open-count"}},
                {"answer": '{"open": {open}}'},
            ]
        },
    },
    {
        "external_id": "ship-an-order",
        "name": "Ship an order",
        "description": "Mark order 1003 as shipped. Answer with its total and its status as JSON.",
        "expected_answer": '{"total": 85.0, "status": "shipped"}',
        "metadata": {
            "script": [
                {"goto": "/"},
                {"click": "text=1003"},
                {"click": "#ship"},
                {"read": {"total": "#total", "status": "#status"}},
                {"answer": '{"total": {total}, "status": "{status}"}'},
            ]
        },
    },
    {
        "external_id": "find-what-is-out-of-stock",
        "name": "Find what is out of stock",
        "description": "Which product is out of stock?",
        "expected_answer": "Paper tape",
        "metadata": {
            # Wrong on purpose: it reads the first product instead of the one with none left.
            "script": [
                {"goto": "/"},
                {"click": "#stock"},
                {"read": {"product": "td >> nth=0"}},
                {"answer": "{product}"},
            ]
        },
    },
]


@dataclass(frozen=True)
class DemoRollouts:
    """What the demo made."""

    rollouts: list[Rollout]
    names: dict[str, str]


def play(settings: Settings, *, tell: Callable[[Event], None] = lambda _event: None) -> DemoRollouts:
    """Save the shop and its tasks, ask for a rollout of each, work on them, and return how they ended."""
    source = Path(__file__).with_name("shop.py").read_text()
    service = {"command": ["python3", "shop.py"], "files": {"shop.py": {"text": source}}, "health": {"http": "/"}}
    EnvironmentManager.save_environment(
        ENVIRONMENT,
        kind="process",
        description="A small shop, as a local process.",
        spec={"services": {"shop": service}, "url": "http://shop/"},
    )
    TaskManager.import_tasks(_TASKS, environment=ENVIRONMENT)
    tasks = [TaskManager.get_by_external_id(task["external_id"], environment=ENVIRONMENT) for task in _TASKS]
    # Slow enough to be watched.
    options = {"pause_seconds": 0.7}
    asked = QueueManager.request_rollouts([task["id"] for task in tasks], agent="scripted", agent_options=options)
    Worker(settings, max_workers=2, until_idle=True, name="demo", tell=tell).run()
    return DemoRollouts(
        [RolloutManager.get_rollout(rollout["id"]) for rollout in asked.rollouts],
        {task["id"]: task["name"] or "" for task in tasks},
    )
