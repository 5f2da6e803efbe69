"""Broadcast and presence: what clients of one channel tell each other, by hand, supabase-js and supabase-py."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from supabase import create_async_client

from .process import ROOT, Gateway, GatewaySettings, deno_binary
from .test_realtime_tables import ME, OTHER, Socket, connect, member, opened

__all__ = ["connect"]

SCRIPT = ROOT / "tests" / "integration" / "gateway" / "rooms.ts"
PERMISSIONS = ["--no-config", "--no-lock", "--allow-net=127.0.0.1", "--allow-env"]


def say(socket: Socket, event: str, payload: Any, topic: str = "room") -> None:
    socket.send(topic, "broadcast", {"type": "broadcast", "event": event, "payload": payload})


def heard(socket: Socket) -> tuple[str, Any]:
    payload = socket.next("broadcast")["payload"]
    assert payload["type"] == "broadcast"
    return payload["event"], payload["payload"]


def hears_nothing(socket: Socket, event: str = "broadcast") -> None:
    with pytest.raises(TimeoutError):
        socket.next(event, seconds=0.5)


def test_a_broadcast_reaches_everybody_else_in_the_room(connect: Callable[..., Socket]) -> None:
    one, two, elsewhere = connect(), connect(), connect()
    for socket in (one, two):
        assert socket.join("room", broadcast={"self": False})["status"] == "ok"
    elsewhere.join("other")
    say(one, "moved", {"x": 1})
    assert heard(two) == ("moved", {"x": 1})
    hears_nothing(one)
    hears_nothing(elsewhere)


def test_a_client_may_hear_itself_and_be_told_that_it_was_heard(connect: Callable[..., Socket]) -> None:
    socket = connect()
    socket.join("room", broadcast={"self": True, "ack": True})
    say(socket, "moved", [1, "ü"])
    assert heard(socket) == ("moved", [1, "ü"])
    assert socket.next("phx_reply")["payload"]["status"] == "ok"


def test_presence_is_told_at_once_and_kept_up(connect: Callable[..., Socket]) -> None:
    one, two = connect(), connect()
    one.join("room", presence={"key": "ann", "enabled": True})
    assert one.next("presence_state")["payload"] == {}
    one.send("room", "presence", {"type": "presence", "event": "track", "payload": {"page": 1}})
    joined = one.next("presence_diff")["payload"]
    assert joined["joins"]["ann"]["metas"][0]["page"] == 1
    assert joined["leaves"] == {}
    two.join("room", presence={"key": "bob", "enabled": True})
    assert two.next("presence_state")["payload"]["ann"]["metas"][0]["page"] == 1
    two.send("room", "presence", {"type": "presence", "event": "track", "payload": {}})
    assert list(one.next("presence_diff")["payload"]["joins"]) == ["bob"]
    two.send("room", "phx_leave", {})
    assert list(one.next("presence_diff")["payload"]["leaves"]) == ["bob"]


def test_a_broken_connection_is_an_absence(connect: Callable[..., Socket], gateway: Gateway) -> None:
    watching = connect()
    watching.join("room", presence={"key": "ann", "enabled": True})
    with opened(gateway) as leaving:
        leaving.join("room", presence={"key": "bob", "enabled": True})
        leaving.send("room", "presence", {"type": "presence", "event": "track", "payload": {}})
        assert list(watching.next("presence_diff")["payload"]["joins"]) == ["bob"]
    assert list(watching.next("presence_diff")["payload"]["leaves"]) == ["bob"]


@pytest.fixture
def policies(settings: GatewaySettings) -> Iterator[None]:
    with psycopg.connect(settings.database_url, autocommit=True) as sql:
        sql.execute(
            f"""
            create policy "members hear the lobby" on realtime.messages for select to authenticated
              using (realtime.topic() = 'lobby');
            create policy "one speaks there" on realtime.messages for insert to authenticated
              with check (realtime.topic() = 'lobby' and auth.uid() = '{ME}' and extension = 'broadcast');
            """
        )
        yield
        sql.execute('drop policy "members hear the lobby" on realtime.messages')
        sql.execute('drop policy "one speaks there" on realtime.messages')


@pytest.mark.usefixtures("policies")
def test_private_channels_are_for_whom_their_policies_let_in(gateway: Gateway, connect: Callable[..., Socket]) -> None:
    config: dict[str, Any] = {"private": True, "broadcast": {"ack": True}}
    refused = connect().join("lobby", **config)
    assert refused["status"] == "error"
    assert "You do not have permissions to read from this Channel topic: lobby" in refused["response"]["reason"]
    assert connect().join("cellar", token=member(gateway), **config)["status"] == "error"

    speaker, listener, public = connect(), connect(), connect()
    assert speaker.join("lobby", token=member(gateway, ME), **config)["status"] == "ok"
    assert listener.join("lobby", token=member(gateway, OTHER), **config)["status"] == "ok"
    public.join("lobby")
    say(speaker, "news", 1, "lobby")
    assert heard(listener) == ("news", 1)
    hears_nothing(public)
    say(listener, "news", 2, "lobby")
    assert listener.next("phx_reply")["payload"]["status"] == "error"
    say(public, "news", 3, "lobby")
    hears_nothing(speaker)


@pytest.mark.usefixtures("policies")
def test_broadcasts_come_by_http_too_and_with_the_same_rights(
    gateway: Gateway, connect: Callable[..., Socket], settings: GatewaySettings
) -> None:
    public, private = connect(), connect()
    public.join("room")
    private.join("lobby", token=member(gateway, OTHER), private=True)
    url = f"{gateway.url}/realtime/v1/api/broadcast"
    key = {"apikey": settings.publishable_key}
    message = {"topic": "room", "event": "news", "payload": {"a": 1}}
    assert httpx.post(url, json={"messages": [message]}, headers=key).status_code == 202
    assert heard(public) == ("news", {"a": 1})
    secret = {"topic": "lobby", "event": "news", "payload": {"b": 2}, "private": True}
    assert httpx.post(url, json={"messages": [secret]}, headers=key).status_code == 202
    hears_nothing(private)
    speaker = key | {"Authorization": f"Bearer {member(gateway, ME)}"}
    assert httpx.post(url, json={"messages": [secret]}, headers=speaker).status_code == 202
    assert heard(private) == ("news", {"b": 2})
    assert httpx.post(url, json={"messages": [message]}).status_code == 401
    for body in (b"no json", b"{}", b'{"messages": [{"topic": 1}]}'):
        assert httpx.post(url, content=body, headers=key).status_code == 422
    assert httpx.post(url, content=b"x" * 300_000, headers=key).status_code == 413


def test_who_floods_the_others_is_cut_off(connect: Callable[..., Socket]) -> None:
    socket = connect()
    socket.join("room")
    for number in range(250):
        say(socket, "flood", number)
    assert "Too many messages" in socket.next("system")["payload"]["message"]


def test_supabase_js_and_supabase_py_meet(gateway: Gateway) -> None:
    """Bytes and JSON, presence, and a broadcast without a socket, through the clients that people use."""
    asyncio.run(_meet(gateway))


async def _meet(gateway: Gateway) -> None:
    key = gateway.settings.publishable_key
    command = [deno_binary(), "run", *PERMISSIONS, str(SCRIPT), gateway.url, key]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    try:
        assert json.loads(await asyncio.wait_for(process.stdout.readline(), 60)) == {"joined": True}
        client = await create_async_client(gateway.url, key)
        channel = client.channel(
            "meeting",
            {
                "config": {
                    "broadcast": {"ack": False, "self": False},
                    "presence": {"key": "py", "enabled": True},
                    "private": False,
                }
            },
        )
        channel.on_broadcast("from-js", lambda message: said.put_nowait(("broadcast", message["payload"])))
        joined = asyncio.Event()
        await channel.subscribe(lambda status, _: joined.set() if str(status.value) == "SUBSCRIBED" else None)
        await asyncio.wait_for(joined.wait(), 20)
        await channel.track({"language": "python"})
        await channel.send_broadcast("from-py", {"n": 1})
        lines = [json.loads(await asyncio.wait_for(process.stdout.readline(), 30)) for _ in range(2)]
        assert {"heard": {"n": 1}} in lines
        assert {"present": {"language": "python"}} in lines
        heard_here = [await asyncio.wait_for(said.get(), 20) for _ in range(2)]
        assert ("broadcast", {"via": "socket"}) in heard_here
        assert ("broadcast", {"via": "http"}) in heard_here
        await client.remove_all_channels()
    finally:
        process.kill()
        await process.wait()
