"""Which Supabase to talk to: the one that the settings name, or the embedded one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from openmanus_rl.gateway.client import Gateway
from openmanus_rl.gateway.http import HttpDoor, is_loopback
from openmanus_rl.gateway.retry import RetryPolicy
from openmanus_rl.gateway.translate import translated
from openmanus_rl.settings import Settings, load_settings

if TYPE_CHECKING:
    from supabase import Client

__all__ = ["forget_gateways", "get_gateway", "get_supabase"]

# Keyed by process too: what was made before a fork shares its sockets with the parent.
_gateways: dict[tuple[int, Settings], Gateway] = {}
_clients: dict[tuple[int, Settings, bool], Client] = {}


class Stack(Protocol):
    """What the embedded stack tells about itself."""

    @property
    def url(self) -> str: ...
    @property
    def publishable_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def database_url(self) -> str: ...


def get_gateway(settings: Settings | None = None) -> Gateway:
    """Return this process's gateway for the settings, starting the embedded stack if nothing names another."""
    settings = settings or load_settings()
    key = (os.getpid(), settings)
    gateway = _gateways.get(key)
    if gateway is None:
        gateway = _gateways.setdefault(key, _connect(settings))
    return gateway


def get_supabase(*, use_anon_key: bool = False, settings: Settings | None = None) -> Client:
    """Return supabase-py's own client with the service role key, or the anon key; its errors are its own."""
    settings = settings or load_settings()
    key = (os.getpid(), settings, use_anon_key)
    client = _clients.get(key)
    if client is None:
        client = _clients.setdefault(key, _new_client(settings, use_anon_key=use_anon_key))
    return client


def forget_gateways() -> None:
    """Close and drop every cached connection, as after the embedded stack has moved to another port."""
    for key in [key for key in _gateways if key[0] == os.getpid()]:
        _gateways.pop(key).door.close()
    _clients.clear()


def _connect(settings: Settings) -> Gateway:
    if not settings.is_embedded:
        return Gateway.connect(settings)
    stack = _ensure_stack()
    return Gateway.from_url_and_key(
        stack.url,
        stack.secret_key,
        anon_key=stack.publishable_key,
        database_url=stack.database_url,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        request_timeout_seconds=settings.request_timeout_seconds,
        retry=RetryPolicy(limit_seconds=settings.retry_limit_seconds),
        # The stack may have been started anew elsewhere: the next call looks for it again.
        on_unreachable=lambda: _forget(settings),
    )


def _forget(settings: Settings) -> None:
    _gateways.pop((os.getpid(), settings), None)


def _ensure_stack() -> Stack:
    # Imported here: the embedded stack's parts are not needed where settings name another Supabase.
    from openmanus_rl.gateway.embedded import ensure_stack

    stack: Stack = ensure_stack()
    return stack


def _new_client(settings: Settings, *, use_anon_key: bool) -> Client:
    if settings.is_embedded:
        stack = _ensure_stack()
        url, key = stack.url, stack.publishable_key if use_anon_key else stack.secret_key
    else:
        url = settings.require_url()
        key = settings.require_anon_key() if use_anon_key else settings.require_service_role_key()
    # Imported here: supabase-py is slow to import, and the gateway itself does without most of it.
    from supabase import create_client
    from supabase.lib.client_options import SyncClientOptions

    door = HttpDoor(
        connect_timeout_seconds=settings.connect_timeout_seconds,
        request_timeout_seconds=settings.request_timeout_seconds,
        use_environment_proxies=not is_loopback(url),
    )
    with translated("make a Supabase client"):
        return create_client(url, key, SyncClientOptions(httpx_client=door.client, auto_refresh_token=False))
