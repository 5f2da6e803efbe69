"""Those who act on the API: each with the key and token that the real ones would have."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from openmanus_rl.transport.batch_text import encode_batch

from .examples import one_of_each
from .writing import Connection, Database, Record, new_id

SECRET = "the secret key"
ADMIN = "an admin"
OWNER = "the editor who owns it"
OTHER = "an editor who does not own it"
VIEWER = "a viewer"
STRANGER = "somebody who merely has an account"
PUBLISHABLE = "the publishable key"
ACTORS = [SECRET, ADMIN, OWNER, OTHER, VIEWER, STRANGER, PUBLISHABLE]

MEMBERS = {ADMIN: "admin", OWNER: "editor", OTHER: "editor", VIEWER: "viewer"}
MAY_CHANGE = (SECRET, ADMIN, OWNER)
MAY_READ = (SECRET, *MEMBERS)


@dataclass
class World:
    """A stack on which the owner has a private and a public run, with a row of every kind hanging on each."""

    http: httpx.Client
    db: Connection
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    user_ids: dict[str, str] = field(default_factory=dict)
    records: dict[str, dict[str, Record]] = field(default_factory=dict)

    def call(self, actor: str, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request as somebody."""
        headers = self.headers[actor] | options.pop("headers", {})
        return self.http.request(method, path, headers=headers, **options)

    def rpc(self, actor: str, function: str, **arguments: Any) -> httpx.Response:
        return self.call(actor, "POST", f"/rest/v1/rpc/{function}", json=arguments)

    def ingest(self, actor: str, **batch: list[Record]) -> list[Record]:
        """Write a batch as somebody; return what was refused."""
        answer = self.rpc(actor, "ingest", batch=batch)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["refused"])

    def load(self, actor: str, batch: dict[str, list[Record]]) -> httpx.Response:
        """Write a batch as somebody, as a recorder sends it."""
        headers = {"Content-Type": "text/plain"}
        return self.call(actor, "POST", "/rest/v1/rpc/load_batch", content=encode_batch(batch), headers=headers)

    def run_id(self, visibility: str) -> str:
        return str(self.records[visibility]["training_runs"]["id"])


@contextmanager
def populated(url: str, database_url: str, *, publishable_key: str, secret_key: str) -> Iterator[World]:
    """Give everybody an account, make members of most, and let the owner write two runs."""
    with httpx.Client(base_url=url, timeout=30) as http, Database(database_url).connect() as db:
        world = World(http=http, db=db)
        world.headers[PUBLISHABLE] = {"apikey": publishable_key}
        world.headers[SECRET] = {"apikey": secret_key}
        for actor in (*MEMBERS, STRANGER):
            add_account(world, actor, publishable_key)
        members = [{"user_id": world.user_ids[actor], "role": role} for actor, role in MEMBERS.items()]
        added = world.call(SECRET, "POST", "/rest/v1/members", json=members)
        assert added.status_code == 201, added.text
        for visibility in ("private", "public"):
            records = one_of_each(visibility=visibility, status="running")
            refused = world.ingest(OWNER, **{kind: [record] for kind, record in records.items()})
            assert refused == [], refused
            world.records[visibility] = records
        yield world


def add_account(world: World, actor: str, publishable_key: str) -> None:
    """Make an account, which takes the secret key, and sign in to it."""
    credentials = {"email": f"{new_id()}@example.org", "password": secrets.token_urlsafe(16)}
    made = world.call(SECRET, "POST", "/auth/v1/admin/users", json=credentials | {"email_confirm": True})
    assert made.status_code == 200, made.text
    answer = world.call(PUBLISHABLE, "POST", "/auth/v1/token?grant_type=password", json=credentials)
    assert answer.status_code == 200, answer.text
    session = answer.json()
    world.user_ids[actor] = session["user"]["id"]
    world.headers[actor] = {"apikey": publishable_key, "Authorization": f"Bearer {session['access_token']}"}
