"""Environments of OpenEnv: its own echo example, as a process, at a URL and in a container."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes.base import Episode, Sandbox, SandboxError
from openmanus_rl.sandboxes.providers import provision

NAME = "echo_world"
Start = Callable[..., Sandbox]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the environment that `openenv init` writes."""
    folder = tmp_path_factory.mktemp("openenv")
    command = [Path(sys.executable).with_name("openenv"), "init", NAME, "--output-dir", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    app = folder / NAME / "server" / "app.py"
    app.write_text(app.read_text().replace("max_concurrent_envs=1", "max_concurrent_envs=4"))
    return folder


def serve(project: Path, **more: Any) -> dict[str, Any]:
    command = f'exec python -m uvicorn {NAME}.server.app:app --host 127.0.0.1 --port "$PORT"'
    return {"kind": "openenv", "command": command, "environment": {"PYTHONPATH": str(project)}} | more


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that starts an environment."""
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(tmp_path / "home"))
    started: list[Sandbox] = []

    def run(spec: dict[str, Any], **options: Any) -> Sandbox:
        name = f"r{len(started)}"
        started.append(provision(spec, rollout_id=name, owner="test", folder=tmp_path / name, **options))
        return started[-1]

    yield run
    for sandbox in reversed(started):
        sandbox.close()
        sandbox.close()


@pytest.fixture(scope="module")
def server(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A server that was started for a rollout; its libraries take seconds to load."""
    sandbox = provision(serve(project), rollout_id="server", owner="test", folder=tmp_path_factory.mktemp("s"), seed=5)
    yield sandbox
    sandbox.close()


@pytest.fixture
def episode(start: Start, server: Sandbox) -> Episode:
    """An episode that has begun."""
    found = start({"kind": "openenv", "url": server.url}).episode
    assert found is not None
    found.reset()
    return found


def test_the_echo_example_is_started_and_played(server: Sandbox) -> None:
    episode = server.episode
    assert server.kind == "openenv"
    assert episode is not None

    first = episode.reset()
    second = episode.step({"message": "hello"})

    assert first.observation["echoed_message"]
    assert second.observation["echoed_message"] == "hello"
    assert second.observation["message_length"] == 5
    assert second.reward == pytest.approx(0.5)
    assert not second.is_done
    state = episode.state()
    assert state is not None
    assert state["step_count"] == 1
    assert "message" in episode.action_space["properties"]
    assert episode.render() is None


def test_a_server_that_runs_elsewhere_is_used_and_left(start: Start, server: Sandbox) -> None:
    for message in ("abc", "abcd"):
        client = start({"kind": "openenv", "url": server.url})
        assert client.episode is not None
        client.episode.reset()
        assert client.episode.step({"message": message}).observation["message_length"] == len(message)
        client.close()

    server.check()


@pytest.mark.parametrize("action", ["hello", 5, None, ["message"]])
def test_an_action_must_be_an_object(episode: Episode, action: Any) -> None:
    with pytest.raises(InvalidInput, match="JSON object"):
        episode.step(action)


def test_a_refused_action_is_an_error_of_the_environment(episode: Episode) -> None:
    with pytest.raises(SandboxError, match="failed in step"):
        episode.step({"nothing": {"that": "it knows"}})


def test_a_server_that_does_not_start_says_why(start: Start) -> None:
    with pytest.raises(SandboxError, match="out of luck") as caught:
        start({"kind": "openenv", "command": "echo out of luck; exit 1"})

    assert caught.value.logs == {"env": b"out of luck\n"}


def test_a_url_where_nobody_listens_is_an_error(start: Start) -> None:
    with pytest.raises(SandboxError, match="failed in connect"):
        start({"kind": "openenv", "url": "http://127.0.0.1:9", "start_timeout_seconds": 2})
