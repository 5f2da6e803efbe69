"""What is recorded is told at once to whom it may concern, through the whole stack."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import websockets.sync.client

JOIN = {"config": {"postgres_changes": [{"event": "*", "schema": "public", "table": "activity"}]}}


class Follower:
    """Someone who follows the activity with a key and, signed in, with a token."""

    def __init__(self, report: dict[str, Any], token: str | None = None) -> None:
        address = report["SUPABASE_URL"].replace("http", "ws")
        query = httpx.QueryParams({"apikey": report["SUPABASE_ANON_KEY"], "vsn": "2.0.0"})
        self._socket = websockets.sync.client.connect(f"{address}/realtime/v1/websocket?{query}", proxy=None)
        payload = JOIN | ({"access_token": token} if token else {})
        self._socket.send(json.dumps(["1", "1", "realtime:test", "phx_join", payload]))
        assert self._receive("phx_reply")["status"] == "ok"

    def _receive(self, event: str) -> Any:
        while True:
            message = json.loads(self._socket.recv(timeout=30))
            if message[3] == event:
                return message[4]

    def runs_until(self, wanted: str) -> list[str | None]:
        """Return the runs that are told of, up to the one wanted."""
        told: list[str | None] = []
        while not told or told[-1] != wanted:
            told.append(self._receive("postgres_changes")["data"]["record"]["training_run_id"])
        return told


def sign_in(report: dict[str, Any], path: str, body: dict[str, str]) -> dict[str, Any]:
    headers = {"apikey": report["SUPABASE_ANON_KEY"]}
    answer = httpx.post(f"{report['SUPABASE_URL']}/auth/v1/{path}", json=body, headers=headers, trust_env=False)
    assert answer.status_code == 200, answer.text
    session: dict[str, Any] = answer.json()
    return session


def insert(report: dict[str, Any], table: str, row: dict[str, str]) -> dict[str, Any]:
    headers = {"apikey": report["SUPABASE_SERVICE_ROLE_KEY"], "Prefer": "return=representation"}
    answer = httpx.post(f"{report['SUPABASE_URL']}/rest/v1/{table}", json=row, headers=headers, trust_env=False)
    assert answer.status_code == 201, answer.text
    inserted: dict[str, Any] = answer.json()[0]
    return inserted


def test_what_is_recorded_is_told_to_members_and_of_public_runs_to_visitors(running: Any) -> None:
    report = json.loads(running.run("status", "--json", "--link").stdout)
    link = {"type": "magiclink", "token_hash": report["dashboard_url"].split("token_hash=")[1]}
    owner = Follower(report, sign_in(report, "verify", link)["access_token"])
    visitor = Follower(report)
    account = {"email": "newcomer@example.org", "password": "password123"}
    headers = {"apikey": report["SUPABASE_SERVICE_ROLE_KEY"]}
    made = account | {"email_confirm": True}
    httpx.post(f"{report['SUPABASE_URL']}/auth/v1/admin/users", json=made, headers=headers, trust_env=False)
    newcomer = sign_in(report, "token?grant_type=password", account)
    stranger = Follower(report, newcomer["access_token"])

    demo = running.run("demo", "--steps", "2", "--json")
    assert demo.returncode == 0, demo.stderr
    private = json.loads(demo.stdout)["run_id"]
    assert private in owner.runs_until(private)

    public = insert(report, "training_runs", {"name": "for all", "visibility": "public"})["id"]
    assert visitor.runs_until(public) == [public]
    assert public in owner.runs_until(public)

    # What has changed is told again when it has settled, and then to whoever may see it.
    time.sleep(4)
    insert(report, "members", {"user_id": newcomer["user"]["id"], "role": "viewer"})
    later = insert(report, "training_runs", {"name": "for members"})["id"]
    told = stranger.runs_until(later)
    # The row without a run tells of the membership itself.
    assert [run for run in told if run is not None] == [later], "nothing was told before the membership"
