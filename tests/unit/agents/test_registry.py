"""Agents are made by name, and a wrong name, model or option is named together with what exists."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from openmanus_rl.agents.base import AgentError
from openmanus_rl.agents.registry import AGENT_NAMES, make_agent
from openmanus_rl.errors import InvalidInput


class OwnAgent:
    def __init__(self, *, model: str | None, options: Any) -> None:
        self.model, self.options = model, options

    def run(self, *_: Any) -> Any:
        return None


def own_failing_agent(**_: Any) -> Any:
    raise RuntimeError("no license")


NOT_CALLABLE = 5
HERE = __name__


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_every_agent_of_the_package_can_be_made(name: str) -> None:
    agent = make_agent(name, model="some-model")
    assert agent.sees_solution is (name == "oracle")


def test_an_unknown_name_is_named_with_those_that_exist() -> None:
    with pytest.raises(InvalidInput, match=r"'brwser'; the agents are noop, oracle, scripted, chat, browser") as error:
        make_agent("brwser")
    assert error.value.field == "agent"


def test_an_unknown_option_is_named_with_those_that_exist() -> None:
    with pytest.raises(
        InvalidInput, match=r"no option 'temprature'; did you mean 'temperature'\?.*max_output_tokens"
    ) as error:
        make_agent("chat", model="m", options={"temprature": 1})
    assert error.value.field == "options.temprature"
    with pytest.raises(InvalidInput, match="it has no options"):
        make_agent("noop", options={"x": 1})


@pytest.mark.parametrize(
    ("agent", "options", "field"),
    [
        ("chat", {"temperature": "hot"}, "options.temperature"),
        ("chat", {"temperature": float("nan")}, "options.temperature"),
        ("chat", {"base_url": "file:///etc/passwd"}, "options.base_url"),
        ("chat", {"tools": ["shell", "sudo"]}, "options.tools.1"),
        ("chat", {"endpoint": "../x"}, "options.endpoint"),
        ("chat", [1], "options"),
        ("browser", {"provider": "netscape"}, "options.provider"),
        ("browser", {"viewport_width": 10}, "options.viewport_width"),
        ("scripted", {"script": [{"goto": "/"}, {"clik": "a"}]}, "options.script[1]"),
        ("scripted", {"script": [{"goto": 5}]}, "options.script[0]"),
        ("scripted", {"script": [{"sleep": -1}]}, "options.script[0]"),
        ("scripted", {"script": [{"fill": "x"}]}, "options.script[0]"),
        ("scripted", {"script": [{"goto": "/", "click": "a"}]}, "options.script[0]"),
    ],
)
def test_a_bad_option_is_named(agent: str, options: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        make_agent(agent, model="m", options=options)
    assert error.value.field == field


def test_a_key_is_no_option_and_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as error:
        make_agent("chat", model="m", options={"api_key": "sk-very-secret"})
    assert "sk-very-secret" not in f"{error.value!r} {error.value.details}"
    assert "OPENAI_API_KEY" in str(error.value)


@pytest.mark.parametrize("name", ["chat", "browser"])
def test_agents_with_a_model_need_one(name: str) -> None:
    with pytest.raises(InvalidInput) as error:
        make_agent(name)
    assert error.value.field == "model"


def test_an_agent_of_ones_own_is_named_by_its_place() -> None:
    agent: Any = make_agent(f"{HERE}:OwnAgent", model="m", options={"any": "thing"})
    assert (agent.model, agent.options) == ("m", {"any": "thing"})
    assert agent.sees_solution is False


@pytest.mark.parametrize(
    "name",
    ["no.such.module:Agent", "json:NoSuchThing", f"{HERE}:NOT_CALLABLE", "json:", ":x", "json:dumps.x", f"{HERE}:dict"],
)
def test_a_place_without_an_agent_is_named(name: str) -> None:
    with pytest.raises(InvalidInput) as error:
        make_agent(name, options={})
    assert error.value.field == "agent"
    assert name in str(error.value)


def test_an_own_agent_that_cannot_be_made_says_why() -> None:
    with pytest.raises(AgentError, match="no license"):
        make_agent(f"{HERE}:own_failing_agent")


def test_agents_without_a_browser_do_not_need_its_libraries() -> None:
    code = (
        "import sys; sys.modules['playwright'] = None; sys.modules['imageio_ffmpeg'] = None\n"
        "from openmanus_rl.agents.registry import AGENT_NAMES, make_agent\n"
        "for name in AGENT_NAMES: make_agent(name, model='m')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
