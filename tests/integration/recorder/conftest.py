"""A home of its own for each test's spool, on the session's database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ..conftest import Query
from .faulty_server import FaultySupabase, faulty_supabase

__all__ = ["Query", "wait_until"]


@pytest.fixture
def recorder_env(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The settings of a training script: the session's Supabase, and a home in which nothing was recorded."""
    env = stack.env | {"OPENMANUS_RL_HOME": str(tmp_path / "home")}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
    yield env
    _end_couriers(tmp_path / "home")
    for log in (tmp_path / "home").glob("spool/*/courier.log"):
        # Shown where a test fails.
        print(log.read_text())


def _end_couriers(home: Path) -> None:
    """End who still delivers from this home: some tests leave what can never be delivered."""
    couriers = [process for process in psutil.process_iter(["cmdline"]) if _delivers(process, home)]
    for process in couriers:
        process.kill()
    psutil.wait_procs(couriers, timeout=10)


def _delivers(process: psutil.Process, home: Path) -> bool:
    line = process.info["cmdline"] or []
    return "openmanus_rl.delivery" in line and any(str(home) in part for part in line)


@pytest.fixture
def server(recorder_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultySupabase]:
    """A Supabase of which only the HTTP address is known, and which can be made to fail."""
    with faulty_supabase(recorder_env["SUPABASE_URL"]) as state:
        monkeypatch.setenv("SUPABASE_URL", state.url)
        monkeypatch.delenv("DATABASE_URL", raising=False)
        monkeypatch.setenv("OPENMANUS_RL_REQUEST_TIMEOUT_SECONDS", "1")
        yield state


def wait_until(condition: Callable[[], bool], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
