"""An agent that does nothing and answers nothing: the lower bound of every task set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openmanus_rl.agents.base import Recorder, Task
from openmanus_rl.agents.options import Options, parse_options
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["NoopAgent"]


class NoopAgent:
    """Does nothing and answers nothing."""

    sees_solution = False

    def __init__(self, *, model: str | None = None, options: Mapping[str, Any] | None = None) -> None:
        del model
        parse_options(Options, options, agent="noop")

    def run(self, task: Task, environment: Sandbox, recorder: Recorder) -> Any:
        """Return no answer."""
        del task, environment, recorder
