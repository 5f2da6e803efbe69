"""An agent that plays the task's solution: what a task set is checked with, before a model is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from openmanus_rl.agents.base import AgentError, Recorder, Task
from openmanus_rl.agents.browser.session import BrowserOptions
from openmanus_rl.agents.options import parse_options
from openmanus_rl.agents.script import ScriptPlayer, check_script
from openmanus_rl.agents.toolbox import described
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["OracleAgent"]

_NAMES = ("script", "actions", "answer")
_DEFAULT_SECONDS = 1800.0
# Where the worker puts the other files of a solution. Only a container has a root folder of its own.
_SCRIPT_FILE = "solution/solve.sh"


class OracleAgent:
    """Plays the solution: a script in the sandbox's shell, actions, an answer."""

    sees_solution = True

    def __init__(self, *, model: str | None = None, options: Mapping[str, Any] | None = None) -> None:
        del model
        self._options = parse_options(BrowserOptions, options, agent="oracle")

    def run(self, task: Task, environment: Sandbox, recorder: Recorder) -> Any:
        """Return the solution's answer, None if it only acts."""
        solution = task.solution
        if not isinstance(solution, Mapping) or not any(name in solution for name in _NAMES):
            raise AgentError(
                f"task {task.external_id or task.id}: it has no solution that could be played",
                code="no_solution",
                hint="a solution is an object with script, actions or answer",
            )
        if "script" in solution:
            self._run_script(str(solution["script"]), environment, recorder)
        answer = None
        if "actions" in solution:
            script = check_script(solution["actions"], field="solution.actions")
            answer = ScriptPlayer(environment, recorder, options=self._options).play(script)
        if "answer" in solution:
            answer = solution["answer"]
            recorder.log_turn(action={"answer": answer})
        return answer

    def _run_script(self, script: str, environment: Sandbox, recorder: Recorder) -> None:
        recorder.check_limits()
        left = recorder.remaining_seconds
        seconds = _DEFAULT_SECONDS if left is None else max(0.1, left)
        path = f"/{_SCRIPT_FILE}" if environment.kind == "docker" else _SCRIPT_FILE
        # From a file, as scripts may ask where they are, and be longer than an argument can be.
        environment.write_file(path, script.encode(), mode=0o755)
        result = environment.run([*_interpreter(script), path], timeout_seconds=seconds)
        output = described(result, seconds)
        call = {"tool_name": "shell", "tool_input": {"script": script}, "tool_output": output}
        recorder.log_turn(observation=output, action=script, tool_calls=[{**call, "success": result.exit_code == 0}])


def _interpreter(script: str) -> list[str]:
    first, _, _ = script.partition("\n")
    return (shlex.split(first[2:]) if first.startswith("#!") else []) or ["sh"]
