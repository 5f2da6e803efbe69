"""People and their keys on the session's stack."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Person:
    """An account with a session, and mostly a member."""

    id: str
    email: str
    headers: dict[str, str]


@dataclass
class Workspace:
    """The stack as people and programs reach it: over HTTP alone."""

    stack: Any
    http: httpx.Client

    @property
    def secret(self) -> dict[str, str]:
        return {"apikey": self.stack.secret_key}

    @property
    def publishable(self) -> dict[str, str]:
        return {"apikey": self.stack.publishable_key}

    def rpc(self, headers: dict[str, str], function: str, **arguments: Any) -> httpx.Response:
        return self.http.post(f"/rest/v1/rpc/{function}", headers=headers, json=arguments)

    def done(self, headers: dict[str, str], function: str, **arguments: Any) -> Any:
        """Call a function that must succeed."""
        answer = self.rpc(headers, function, **arguments)
        assert answer.status_code in (200, 204), answer.text
        return answer.json() if answer.content else None

    def rows(self, headers: dict[str, str], query: str) -> list[dict[str, Any]]:
        answer = self.http.get(f"/rest/v1/{query}", headers=headers)
        assert answer.status_code == 200, answer.text
        return list(answer.json())

    def person(self, role: str | None = None) -> Person:
        """Make an account, a member if a role is given, and sign in to it."""
        email = f"{secrets.token_hex(6)}@example.org"
        account = {"email": email, "password": PASSWORD}
        made = self.http.post("/auth/v1/admin/users", headers=self.secret, json=account | {"email_confirm": True})
        assert made.status_code == 200, made.text
        if role is not None:
            member = {"user_id": made.json()["id"], "role": role}
            assert self.http.post("/rest/v1/members", headers=self.secret, json=member).status_code == 201
        return Person(made.json()["id"], email, self.session(email))

    def session(self, email: str, password: str = PASSWORD) -> dict[str, str]:
        answer = self.sign_in(email, password)
        assert answer.status_code == 200, answer.text
        return self.publishable | {"Authorization": f"Bearer {answer.json()['access_token']}"}

    def sign_in(self, email: str, password: str) -> httpx.Response:
        body = {"email": email, "password": password}
        return self.http.post("/auth/v1/token?grant_type=password", headers=self.publishable, json=body)

    def key(self, person: Person, name: str = "a trainer", **options: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.done(person.headers, "create_key", name=name, **options)
        return made

    def entries(self, **filters: str) -> list[dict[str, Any]]:
        """Return what the audit log says, newest first."""
        query = "".join(f"&{name}=eq.{value}" for name, value in filters.items())
        return self.rows(self.secret, f"audit_log?order=happened_at.desc,id.desc{query}")


@pytest.fixture(scope="session")
def http(stack: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.url, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
def workspace(stack: Any, http: httpx.Client) -> Workspace:
    return Workspace(stack, http)


@pytest.fixture(scope="session")
def admin(workspace: Workspace) -> Person:
    return workspace.person("admin")


@pytest.fixture
def editor(workspace: Workspace, admin: Person) -> Person:
    """An editor, in a workspace that has an admin."""
    assert admin
    return workspace.person("editor")


Make = Callable[..., Any]
