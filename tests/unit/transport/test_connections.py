"""Which Supabase is used, and that connections are made once."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from pydantic import SecretStr
from pytest_httpx import HTTPXMock

from openmanus_rl import connections
from openmanus_rl.connections import forget_clients, get_client
from openmanus_rl.errors import ConnectionFailed, SettingsError
from openmanus_rl.settings import Settings
from openmanus_rl.utils.supabase_client import get_supabase

from .conftest import ANON_KEY, KEY, URL


@dataclass(frozen=True)
class FakeStack:
    url: str
    publishable_key: str = ANON_KEY
    secret_key: str = KEY
    database_url: str = "postgresql://postgres:pw@127.0.0.1:1/postgres"

    def is_current(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_gateways_left() -> None:
    forget_clients()


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[FakeStack]:
    """The stacks that were asked for, each on a port of its own."""
    started: list[FakeStack] = []

    def ensure_stack(_settings: Settings) -> FakeStack:
        started.append(FakeStack(f"http://127.0.0.1:{5000 + len(started)}"))
        return started[-1]

    module = ModuleType("openmanus_rl.local.embedded")
    module.ensure_stack = ensure_stack  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "openmanus_rl.local.embedded", module)
    return started


HOSTED = Settings(url=URL, service_role_key=SecretStr(KEY), anon_key=SecretStr(ANON_KEY))


def test_the_settings_gateway_is_made_once() -> None:
    first = get_client(HOSTED)

    assert get_client(HOSTED.model_copy()) is first
    assert first.url == URL
    assert get_client(HOSTED.model_copy(update={"retry_limit_seconds": 1.0})) is not first


def test_with_nothing_set_the_embedded_stack_is_started_once(stacks: list[FakeStack]) -> None:
    client = get_client(Settings())

    assert get_client(Settings()) is client
    assert len(stacks) == 1
    assert client.url == "http://127.0.0.1:5000"
    assert client.database_url == stacks[0].database_url


@pytest.mark.usefixtures("stacks")
def test_an_embedded_stack_that_is_gone_is_looked_for_again(httpx_mock: HTTPXMock) -> None:
    settings = Settings(retry_limit_seconds=0)
    httpx_mock.add_exception(httpx.ConnectError("refused"))

    with pytest.raises(ConnectionFailed):
        get_client(settings).select("x")

    assert get_client(settings).url == "http://127.0.0.1:5001"


def test_a_gateway_needs_the_service_key() -> None:
    with pytest.raises(SettingsError, match=r"SUPABASE_SERVICE_ROLE_KEY \(or SUPABASE_KEY\) is missing"):
        get_client(Settings(url=URL, anon_key=SecretStr(ANON_KEY)))


def test_the_raw_client_uses_the_service_key_and_is_made_once(httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{"id": 1}])
    client = get_supabase(settings=HOSTED)

    assert client.table("tasks").select("*").execute().data == [{"id": 1}]
    assert httpx_mock.get_requests()[0].headers["apikey"] == KEY
    assert get_supabase(settings=HOSTED) is client


def test_the_raw_client_may_use_the_anon_key(httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[])

    get_supabase(use_anon_key=True, settings=HOSTED).table("tasks").select("*").execute()

    assert httpx_mock.get_requests()[0].headers["apikey"] == ANON_KEY


@pytest.mark.usefixtures("stacks")
def test_the_raw_client_reaches_the_embedded_stack() -> None:
    client = get_supabase(settings=Settings())

    assert str(client.supabase_url) == "http://127.0.0.1:5000/"


def test_only_transport_imports_the_client_libraries() -> None:
    package = Path(connections.__file__).parent
    fenced = {"supabase", "postgrest", "storage3", "supabase_auth", "supabase_functions", "httpx", "psycopg"}
    strays = []
    for path in package.rglob("*.py"):
        # The agents' own HTTP is to model servers, not to Supabase.
        if path.is_relative_to(package / "transport") or path == package / "agents" / "models" / "http.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            strays += [f"{path}: {name}" for name in names if name.split(".")[0] in fenced]
    assert strays == []
