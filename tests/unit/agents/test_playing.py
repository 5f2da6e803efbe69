"""The agents without a model: noop, oracle and scripted, in a shell and in an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.agents.base import AgentError, LimitReached, Limits, Task
from openmanus_rl.agents.recording import LimitedRecorder
from openmanus_rl.agents.registry import make_agent
from openmanus_rl.errors import InvalidInput

from ...support.agents import Countdown, LocalSandbox, Remembered


def run(
    name: str,
    sandbox: LocalSandbox,
    *,
    options: dict[str, Any] | None = None,
    solution: Any = None,
    metadata: dict[str, Any] | None = None,
    limits: Limits | None = None,
) -> tuple[Any, Remembered]:
    rollout = Remembered()
    task = Task(id="t1", description="Count.", solution=solution, metadata=metadata or {})
    recorder = LimitedRecorder(rollout, limits or Limits())
    return make_agent(name, options=options).run(task, sandbox, recorder), rollout


def test_noop_does_nothing_and_answers_nothing(tmp_path: Path) -> None:
    answer, rollout = run("noop", LocalSandbox(tmp_path))
    assert answer is None
    assert rollout.turns == []


def test_the_oracle_plays_a_script_from_its_file(tmp_path: Path) -> None:
    script = '#!/usr/bin/env bash\nset -e\n[[ -f "$(dirname "${BASH_SOURCE[0]}")/solve.sh" ]]\necho found > result\n'
    answer, rollout = run("oracle", LocalSandbox(tmp_path), solution={"script": script})
    assert answer is None
    assert (tmp_path / "result").read_text() == "found\n"
    assert rollout.turns[0]["tool_calls"][0]["success"] is True


def test_a_script_that_is_longer_than_an_argument_is_played(tmp_path: Path) -> None:
    script = "# " + "x" * 300_000 + "\ncat > result\necho done >> result\n"
    run("oracle", LocalSandbox(tmp_path), solution={"script": script})
    assert (tmp_path / "result").read_text().endswith("done\n")


def test_a_script_that_fails_is_recorded_as_such(tmp_path: Path) -> None:
    _, rollout = run("oracle", LocalSandbox(tmp_path), solution={"script": "echo no >&2; exit 4"})
    (call,) = rollout.turns[0]["tool_calls"]
    assert call["success"] is False
    assert "exit code: 4" in call["tool_output"]


def test_the_oracle_answers_and_acts(tmp_path: Path) -> None:
    assert run("oracle", LocalSandbox(tmp_path), solution={"answer": [1, 2]})[0] == [1, 2]
    actions = [{"shell": "echo 42"}, {"answer": "{stdout}"}]
    assert run("oracle", LocalSandbox(tmp_path), solution={"actions": actions})[0] == "42"


@pytest.mark.parametrize("solution", [None, {}, "text", {"hint": 1}])
def test_an_oracle_without_a_solution_says_so(tmp_path: Path, solution: Any) -> None:
    with pytest.raises(AgentError) as error:
        run("oracle", LocalSandbox(tmp_path), solution=solution)
    assert error.value.code == "no_solution"


def test_a_script_of_the_task_is_played_in_the_shell(tmp_path: Path) -> None:
    script = [
        {"shell": "echo 7"},
        {"sleep": 0},
        {"shell": "echo {stdout}1"},
        {"answer": {"n": "{stdout}", "raw": "{x}"}},
    ]
    answer, rollout = run("scripted", LocalSandbox(tmp_path), metadata={"script": script})
    assert answer == {"n": "71", "raw": "{x}"}
    assert [turn["action"] for turn in rollout.turns][2] == {"shell": "echo 71"}


def test_the_option_wins_over_the_task(tmp_path: Path) -> None:
    metadata = {"script": [{"answer": "task"}]}
    answer, _ = run("scripted", LocalSandbox(tmp_path), options={"script": [{"answer": "option"}]}, metadata=metadata)
    assert answer == "option"


def test_an_episode_is_played(tmp_path: Path) -> None:
    script = [{"step": "down"}, {"step": "wait"}, {"answer": "{observation}"}]
    answer, rollout = run("scripted", LocalSandbox(tmp_path, episode=Countdown(3)), options={"script": script})
    assert answer == "counter at 2"
    assert [turn.get("reward") for turn in rollout.turns] == [0.5, 0.0, None]
    assert [turn["observation"] for turn in rollout.turns] == ["counter at 3", "counter at 2", "counter at 2"]


def test_steps_without_an_episode_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="no episode"):
        run("scripted", LocalSandbox(tmp_path), options={"script": [{"step": 1}]})


def test_no_script_is_an_error_that_says_where_to_put_one(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="metadata"):
        run("scripted", LocalSandbox(tmp_path))


def test_a_tasks_bad_script_is_refused_before_it_is_begun(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"script\[1\]: there is no action 'rm'"):
        run("scripted", LocalSandbox(tmp_path), metadata={"script": [{"shell": "touch begun"}, {"rm": "x"}]})
    assert not (tmp_path / "begun").exists()


def test_a_script_is_cut_off_at_its_steps(tmp_path: Path) -> None:
    with pytest.raises(LimitReached):
        run("scripted", LocalSandbox(tmp_path), options={"script": [{"shell": "true"}] * 9}, limits=Limits(max_steps=4))


def test_a_script_that_sleeps_beyond_its_time_is_cut_off(tmp_path: Path) -> None:
    script = [{"sleep": 3000}, {"answer": 1}]
    with pytest.raises(LimitReached) as reached:
        run("scripted", LocalSandbox(tmp_path), options={"script": script}, limits=Limits(max_seconds=0.2))
    assert reached.value.kind == "seconds"


def test_a_browser_script_without_a_url_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AgentError) as error:
        run("scripted", LocalSandbox(tmp_path), options={"script": [{"goto": "/"}]})
    assert error.value.code == "no_url"
