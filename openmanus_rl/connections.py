"""Which Supabase to talk to: the one that the settings name, or a stack of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from openmanus_rl.errors import StackError
from openmanus_rl.settings import Settings, load_settings
from openmanus_rl.transport.loopback import is_loopback
from openmanus_rl.transport.retry import RetryPolicy

# The others where they are needed: httpx is slow to import, and a process that only records or copies does without.
if TYPE_CHECKING:
    from openmanus_rl.transport.client import Client
    from openmanus_rl.transport.supabase_py import SupabaseClient

__all__ = ["find_database_url", "forget_clients", "get_client", "get_supabase", "open_client"]

# Keyed by process too: what was made before a fork shares its sockets with the parent.
_clients: dict[tuple[int, Settings], Client] = {}
_supabase_clients: dict[tuple[int, Settings, bool], SupabaseClient] = {}
# The stack of this machine that a client was made for.
_stacks: WeakKeyDictionary[Client, Stack] = WeakKeyDictionary()


class Stack(Protocol):
    """What a stack of this machine tells about itself."""

    @property
    def url(self) -> str: ...
    @property
    def publishable_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def database_url(self) -> str: ...
    def is_current(self) -> bool: ...


def get_client(settings: Settings | None = None) -> Client:
    """Return this process's client for the settings, starting the stack of this machine if nothing names another."""
    settings = settings or load_settings()
    key = (os.getpid(), settings)
    client = _clients.get(key)
    if client is None or not _is_current(client):
        client = _clients[key] = _connect(settings)
    return client


def get_supabase(*, use_anon_key: bool = False, settings: Settings | None = None) -> SupabaseClient:
    """Return supabase-py's own client with the secret or the member's key, or the anon key; its errors are its own."""
    settings = settings or load_settings()
    key = (os.getpid(), settings, use_anon_key)
    client = _supabase_clients.get(key)
    if client is None:
        client = _supabase_clients.setdefault(key, _new_client(settings, use_anon_key=use_anon_key))
    return client


def open_client(settings: Settings) -> Client:
    """Return a client for the caller alone, who closes its `http`; a stack of this machine is not started for it."""
    from openmanus_rl.transport.client import Client

    if not settings.has_local_stack:
        return Client.connect(settings, proof_key=_proof_key(settings))
    from openmanus_rl.local.embedded import find_stack

    stack = find_stack(settings.stack_home)
    if stack is None:
        raise StackError(f"the stack in {settings.stack_home} does not run", hint="`openmanus-rl up` starts it")
    return _to_stack(stack, settings)


def find_database_url(settings: Settings) -> str | None:
    """Return the address of the Postgres itself, where it is known; the embedded stack is started if need be.

    With a member's key it counts as unknown: written to straight, the database would not know whose the records are.
    """
    if settings.is_embedded:
        return _ensure_stack(settings).database_url
    if settings.member_key is not None:
        return None
    return settings.database_url.get_secret_value() if settings.database_url else None


def forget_clients() -> None:
    """Close and drop every cached connection, as after the embedded stack has moved to another port."""
    for key in [key for key in _clients if key[0] == os.getpid()]:
        _clients.pop(key).http.close()
    _supabase_clients.clear()


def _connect(settings: Settings) -> Client:
    from openmanus_rl.transport.client import Client

    if not settings.has_local_stack:
        return Client.connect(settings, proof_key=_proof_key(settings))
    # The stack may have been started anew elsewhere: the next call looks for it again.
    return _to_stack(_ensure_stack(settings), settings, on_unreachable=lambda: _forget(settings))


def _to_stack(stack: Stack, settings: Settings, *, on_unreachable: Callable[[], None] | None = None) -> Client:
    from openmanus_rl.transport.client import Client

    client = Client.from_url_and_key(
        stack.url,
        stack.secret_key,
        proof_key=stack.secret_key,
        anon_key=stack.publishable_key,
        database_url=stack.database_url,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        request_timeout_seconds=settings.request_timeout_seconds,
        retry=RetryPolicy(limit_seconds=settings.retry_limit_seconds),
        on_unreachable=on_unreachable,
    )
    _stacks[client] = stack
    return client


def _proof_key(settings: Settings) -> str | None:
    """Return the key by which the named Supabase must prove itself, where it is the stack of this very home."""
    key = settings.service_role_key
    if settings.url is None or key is None or not is_loopback(settings.url):
        return None
    from openmanus_rl.local.embedded import is_own_stack

    return key.get_secret_value() if is_own_stack(settings.home, settings.url, key.get_secret_value()) else None


def _is_current(client: Client) -> bool:
    """Say whether what was made for the embedded stack still leads to it: its address is read anew each time."""
    stack = _stacks.get(client)
    return stack is None or stack.is_current()


def _forget(settings: Settings) -> None:
    _clients.pop((os.getpid(), settings), None)


def _ensure_stack(settings: Settings) -> Stack:
    # Imported here: the stack's parts are not needed where settings name another Supabase.
    from openmanus_rl.local.embedded import ensure_stack

    stack: Stack = ensure_stack(settings)
    return stack


def _new_client(settings: Settings, *, use_anon_key: bool) -> SupabaseClient:
    from openmanus_rl.transport.http import HttpClient
    from openmanus_rl.transport.supabase_py import make_supabase_client

    proof_key = _proof_key(settings)
    if settings.has_local_stack:
        stack = _ensure_stack(settings)
        url, key = stack.url, stack.publishable_key if use_anon_key else stack.secret_key
        proof_key = stack.secret_key
    else:
        url = settings.require_url()
        key = settings.require_anon_key() if use_anon_key else settings.require_key()
    http = HttpClient(
        connect_timeout_seconds=settings.connect_timeout_seconds,
        request_timeout_seconds=settings.request_timeout_seconds,
        use_environment_proxies=not is_loopback(url),
        proof_key=proof_key,
    )
    return make_supabase_client(url, key, http=http)
