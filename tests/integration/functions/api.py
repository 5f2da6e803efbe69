"""Calling the edge functions as any HTTP client would, and seeing what a call left in the database."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg

WRITERS = ("submit-rollout", "log-agent-state", "complete-rollout", "metrics")
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Functions:
    """The functions as one caller sees them."""

    client: httpx.Client
    headers: Mapping[str, str]

    def post(self, name: str, body: object = None, **options: Any) -> httpx.Response:
        """Send a body as JSON, or whatever `content=` and `headers=` say."""
        options.setdefault("headers", self.headers)
        if body is not None:
            options["content"] = json.dumps(body)
        return self.client.post(f"/functions/v1/{name}", **options)

    def get(self, name: str, **parameters: object) -> httpx.Response:
        """Ask with query parameters."""
        query = {key: str(value) for key, value in parameters.items()}
        return self.client.get(f"/functions/v1/{name}", params=query, headers=self.headers)

    def delete(self, name: str, **parameters: object) -> httpx.Response:
        """Delete what a path names."""
        query = {key: str(value) for key, value in parameters.items()}
        return self.client.delete(f"/functions/v1/{name}", params=query, headers=self.headers)

    def rpc(self, name: str, **arguments: object) -> Any:
        """Call a function of the database, which must succeed, as a worker does."""
        headers = {"authorization": f"Bearer {self.headers['apikey']}", **self.headers}
        response = self.client.post(f"/rest/v1/rpc/{name}", json=arguments, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()

    def submit(self, **body: object) -> str:
        """Begin a rollout that must be taken; return its id."""
        return str(
            ok(self.post("submit-rollout", {"episode_number": 0, "environment": "alfworld"} | body))["rollout_id"]
        )


def ok(response: httpx.Response) -> dict[str, Any]:
    """Return the answer of a call that must have succeeded."""
    assert response.status_code == 200, response.text
    return dict(response.json())


def refused(response: httpx.Response, status: int, code: str) -> str:
    """Return the message of a call that must have been refused so, in the one shape of errors."""
    assert response.status_code == status, response.text
    body = response.json()
    assert list(body) == ["error"]
    assert set(body["error"]) == {"code", "message", "details"}
    assert body["error"]["code"] == code
    assert response.headers["access-control-allow-origin"] == "*"
    return str(body["error"]["message"])


def legacy_key(role: str, jwt_secret: str) -> str:
    """Return the older kind of API key: a token signed with the project's secret that names a role."""

    def encode(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).rstrip(b"=").decode()

    claims = {"iss": "supabase", "role": role, "iat": int(time.time()), "exp": int(time.time()) + 3600}
    signed = f"{encode(json.dumps({'alg': 'HS256', 'typ': 'JWT'}).encode())}.{encode(json.dumps(claims).encode())}"
    return f"{signed}.{encode(hmac.digest(jwt_secret.encode(), signed.encode(), hashlib.sha256))}"


class Database:
    """The rows behind the functions."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        tables = self.rows(
            "select table_name from information_schema.tables where table_schema = 'public'"
            " and table_type = 'BASE TABLE' order by 1"
        )
        # A row's xmin changes with every version of it, so this notices inserts, updates and deletes.
        self._fingerprint_query = " union all ".join(
            f"select '{table}', count(*), sum(xmin::text::bigint) from public.{table}" for (table,) in tables
        )
        self._fingerprint_query += (
            " union all select 'rewards', count(*), (select sum(xmin::text::bigint) from internal.rewards)"
            " from public.rewards"
        )
        self._snapshot: str | None = None
        self._fingerprint: list[tuple[Any, ...]] = []

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()

    def one(self, query: str, *values: object) -> Any:
        """Return the only value of the only row."""
        ((value,),) = self.rows(query, *values)
        return value

    def fingerprint(self) -> list[tuple[Any, ...]]:
        """Return something that differs as soon as any row of any table was written."""
        # One snapshot sees the same rows however often it is taken: only another one is worth reading every table.
        snapshot = self.one("select pg_current_snapshot()::text")
        if snapshot != self._snapshot:
            # Sorted: Postgres may count large tables in parallel and answer in any order.
            self._fingerprint = sorted(self.rows(self._fingerprint_query))
            self._snapshot = snapshot
        return self._fingerprint

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return {table: count for table, count, _ in self.fingerprint()}
