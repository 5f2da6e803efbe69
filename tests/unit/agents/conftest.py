"""A model server on the loopback interface, and agents that know no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...support.agents import ModelServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that answers as it is told, and that the keys of this process belong to."""
    state = ModelServer()
    monkeypatch.setenv("OPENAI_BASE_URL", state.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("GEMINI_BASE_URL", state.url)
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-very-secret")
    yield state
    state.close()
