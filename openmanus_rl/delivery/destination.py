"""Where records go: the embedded stack or the Supabase that the settings name, by the fastest way it offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmanus_rl.connections import find_database_url, get_client
from openmanus_rl.delivery.batches import Batch
from openmanus_rl.delivery.courier import Sink
from openmanus_rl.errors import BadResponse, SettingsError, StackError, TransientError
from openmanus_rl.settings import Settings, load_settings
from openmanus_rl.spool.roots import address_of, spool_root

if TYPE_CHECKING:
    from openmanus_rl.transport.client import Client
    from openmanus_rl.transport.loading import Loader
    from openmanus_rl.transport.storage import Storage

__all__ = ["HttpSink", "PostgresSink", "connect", "connect_for"]


def connect(settings: Settings) -> Sink:
    """Return the way to the destination: straight into Postgres where its address is known, else over HTTP."""
    # One attempt each: the courier itself tries again, and says meanwhile what it waits for.
    settings = settings.model_copy(update={"retry_limit_seconds": 0.0})
    if _database_url(settings) is None:
        return HttpSink(_client(settings))
    # Here, not above: loading psycopg takes as long as all else that `status` and `init` need.
    from openmanus_rl.transport.loading import Loader

    # Asked for anew before each connection: the address of a stack which ended may be somebody else's by now.
    loader = Loader(partial(_known_url, settings), connect_timeout_seconds=settings.connect_timeout_seconds)
    return PostgresSink(loader, partial(_client, settings))


def _client(settings: Settings) -> Client:
    with _somebody_may_start_it():
        return get_client(settings)


def _database_url(settings: Settings) -> str | None:
    with _somebody_may_start_it():
        return find_database_url(settings)


def _known_url(settings: Settings) -> str:
    url = _database_url(settings)
    assert url is not None, "one destination always offers the same way"
    return url


@contextmanager
def _somebody_may_start_it() -> Iterator[None]:
    try:
        yield
    except StackError as error:
        raise TransientError(str(error)) from error


def connect_for(root: Path) -> Sink:
    """Return the way to the destination of the spools below a root, by the settings as they are now.

    Keys change; where the settings meanwhile name another destination, these spools are not for it.
    """
    settings = load_settings()
    if spool_root(settings) != root:
        raise SettingsError(
            f"the settings name {address_of(settings)}, which is not where the spools in {root} go",
            setting="SUPABASE_URL",
            hint="they wait until the settings name their destination again",
        )
    return connect(settings)


class PostgresSink:
    """Loads batches straight into Postgres; files go over HTTP."""

    def __init__(self, loader: Loader, client: Callable[[], Client]) -> None:
        self._client = client
        self.load = loader.load
        self.interrupt = loader.interrupt

    @property
    def storage(self) -> Storage:
        """Where files go; most batches have none."""
        return self._client().storage


class HttpSink:
    """Sends batches to `ingest` over HTTP."""

    def __init__(self, client: Client) -> None:
        self.storage = client.storage
        self._client = client

    def load(self, batch: Batch) -> list[dict[str, Any]]:
        """Write a batch in one transaction and return what was refused."""
        answer = self._client.rpc("ingest", {"batch": batch}, retryable=False)
        refused = answer.get("refused") if isinstance(answer, dict) else None
        if not isinstance(refused, list):
            # Taken for an answer, it would let records be forgotten that nobody has.
            raise BadResponse("call ingest: the answer does not say what was refused")
        return refused

    def interrupt(self, entries: dict[str, list[list[str]]], reason: str) -> None:
        """Mark what a process left running when it ended."""
        self._client.rpc("interrupt", {"entries": entries, "reason": reason}, retryable=False)
