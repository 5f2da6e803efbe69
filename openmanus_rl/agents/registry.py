"""Makes agents by name: those of this package, or one of the user's own, named `module:attribute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from openmanus_rl.agents.base import Agent, AgentError
from openmanus_rl.errors import InvalidInput, OpenManusError

__all__ = ["AGENT_NAMES", "make_agent"]

# The browser's libraries are an extra: an agent's module is imported only when it is asked for.
_PLACES = {
    "noop": "openmanus_rl.agents.noop:NoopAgent",
    "oracle": "openmanus_rl.agents.oracle:OracleAgent",
    "scripted": "openmanus_rl.agents.scripted:ScriptedAgent",
    "chat": "openmanus_rl.agents.chat:ChatAgent",
    "browser": "openmanus_rl.agents.browser.agent:BrowserAgent",
}
AGENT_NAMES = tuple(_PLACES)


def make_agent(name: str, *, model: str | None = None, options: Mapping[str, Any] | None = None) -> Agent:
    """Return an agent. `InvalidInput` says which name, model or option is wrong, and what exists."""
    if name in _PLACES:
        agent: Agent = _find(_PLACES[name])(model=model, options=options)
        return agent
    if ":" not in name:
        raise InvalidInput(
            f"there is no agent {name!r}; the agents are {', '.join(AGENT_NAMES)}, or module:attribute", field="agent"
        )
    return _make_own(name, model=model, options=options)


def _make_own(place: str, *, model: str | None, options: Mapping[str, Any] | None) -> Agent:
    factory = _find(place)
    try:
        agent = factory(model=model, options=options)
    except OpenManusError:
        raise
    except Exception as error:
        raise AgentError(
            f"agent {place}: it could not be made: {type(error).__name__}: {error}",
            hint="the attribute is called with the keyword arguments model and options",
        ) from error
    if not callable(getattr(agent, "run", None)):
        raise InvalidInput(f"agent {place}: {type(agent).__name__} has no method run", field="agent")
    if not hasattr(agent, "sees_solution"):
        # What does not ask for the solution does not get it.
        agent.sees_solution = False
    made: Agent = agent
    return made


def _find(place: str) -> Callable[..., Any]:
    module_name, _, attribute = place.partition(":")
    try:
        found: Any = import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"agent {place}: it cannot be imported: {error}",
            field="agent",
            hint="name an importable module and an attribute of it, such as my_package.agents:MyAgent",
        ) from error
    if not callable(found):
        raise InvalidInput(f"agent {place}: {type(found).__name__} cannot be called", field="agent")
    make: Callable[..., Any] = found
    return make
