"""An agent that plays a script, for tests and demos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from openmanus_rl.agents.base import AgentError, Recorder, Task
from openmanus_rl.agents.browser.session import BrowserOptions
from openmanus_rl.agents.options import parse_options
from openmanus_rl.agents.script import ScriptPlayer, check_script
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["ScriptedAgent", "ScriptedOptions"]


class ScriptedOptions(BrowserOptions):
    """Options of the scripted agent."""

    script: list[Any] | None = None
    pause_seconds: float = Field(default=0.0, ge=0, le=60)


class ScriptedAgent:
    """Plays the script in its options, or the one in the task's metadata."""

    sees_solution = False

    def __init__(self, *, model: str | None = None, options: Mapping[str, Any] | None = None) -> None:
        del model
        self._options = parse_options(ScriptedOptions, options, agent="scripted")
        if self._options.script is not None:
            check_script(self._options.script, field="options.script")

    def run(self, task: Task, environment: Sandbox, recorder: Recorder) -> Any:
        """Return the script's answer."""
        options = self._options
        given = options.script if options.script is not None else task.metadata.get("script")
        if given is None:
            raise AgentError(
                f"task {task.external_id or task.id}: there is no script to play",
                code="no_script",
                hint="give one in the option script, or in the task's metadata",
            )
        script = check_script(given, field="script")
        player = ScriptPlayer(environment, recorder, options=options, pause_seconds=options.pause_seconds)
        return player.play(script)
