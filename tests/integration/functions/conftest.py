"""Callers of every kind, and a run to write to."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest

from .api import Database, Functions, legacy_key

Callers = dict[str, Functions]


@pytest.fixture(scope="session")
def http(stack: Any) -> Iterator[httpx.Client]:
    """Plain HTTP to the stack, with no key."""
    with httpx.Client(base_url=stack.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def sql(stack: Any) -> Iterator[Database]:
    """The database itself, as its owner; each statement sees what is committed."""
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        yield Database(connection)


@pytest.fixture(scope="session")
def secret(stack: Any, http: httpx.Client) -> Functions:
    """The functions with the secret key."""
    return Functions(http, {"apikey": stack.secret_key})


@pytest.fixture(scope="session")
def publishable(stack: Any, http: httpx.Client) -> Functions:
    """The functions with the publishable key."""
    return Functions(http, {"apikey": stack.publishable_key})


@pytest.fixture(scope="session")
def users(stack: Any, http: httpx.Client) -> Iterator[dict[str, str]]:
    """The ids of two editors, a viewer and an admin, and of a stranger who merely signed up; by name."""
    headers = {"apikey": stack.secret_key, "authorization": f"Bearer {stack.secret_key}"}
    ids: dict[str, str] = {}
    for name in ("editor", "other_editor", "viewer", "admin", "stranger"):
        body = {"email": _email(name), "password": PASSWORD, "email_confirm": True}
        created = http.post("/auth/v1/admin/users", json=body, headers=headers)
        assert created.status_code == 200, created.text
        ids[name] = created.json()["id"]
        role = {"other_editor": "editor", "stranger": None}.get(name, name)
        if role is not None:
            member = http.post("/rest/v1/members", json={"user_id": ids[name], "role": role}, headers=headers)
            assert member.status_code == 201, member.text
    yield ids
    for user_id in ids.values():
        http.delete(f"/auth/v1/admin/users/{user_id}", headers=headers)


PASSWORD = secrets.token_urlsafe(16)
SUFFIX = secrets.token_hex(6)


def _email(name: str) -> str:
    return f"{name}-{SUFFIX}@example.com"


@pytest.fixture(scope="session")
def callers(stack: Any, http: httpx.Client, users: dict[str, str]) -> Callers:
    """The functions as each of the users sees them, with the publishable key and the user's token."""
    found = {}
    for name in users:
        signed_in = http.post(
            "/auth/v1/token?grant_type=password",
            json={"email": _email(name), "password": PASSWORD},
            headers={"apikey": stack.publishable_key},
        )
        assert signed_in.status_code == 200, signed_in.text
        token = signed_in.json()["access_token"]
        found[name] = Functions(http, {"apikey": stack.publishable_key, "authorization": f"Bearer {token}"})
    return found


@pytest.fixture(scope="session")
def legacy(stack: Any) -> Callable[[str], str]:
    """Make an older JWT key for a role; only where the project's signing secret is known."""
    keys = stack.home / "keys.json"
    if not keys.exists():
        pytest.skip("the signing secret of this project is not known here")
    return lambda role: legacy_key(role, json.loads(keys.read_text())["jwt_secret"])


@pytest.fixture
def make_run(sql: Database) -> Callable[..., str]:
    """Make a training run, whosever it is to be; return its id."""

    def make(*, owner_id: str | None = None, visibility: str = "private", environment: str | None = None) -> str:
        return str(
            sql.one(
                "insert into public.training_runs (name, status, owner_id, visibility, environment)"
                " values ('functions', 'running', %s, %s, %s) returning id",
                owner_id,
                visibility,
                environment,
            )
        )

    return make


@pytest.fixture
def run_id(make_run: Callable[..., str]) -> str:
    """A run that belongs to nobody in particular, in the environment `webshop`."""
    return make_run(environment="webshop")
