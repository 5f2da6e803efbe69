"""The destination of records, the embedded stack or a Supabase project, over its fastest connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openmanus_rl.connections import find_database_url, get_client
from openmanus_rl.delivery.courier import Sink
from openmanus_rl.delivery.http_sink import HttpSink
from openmanus_rl.errors import SettingsError, StackError, TransientError
from openmanus_rl.settings import Settings, load_settings
from openmanus_rl.spool.roots import address_of, spool_root

if TYPE_CHECKING:
    from openmanus_rl.transport.client import Client
    from openmanus_rl.transport.loading import Loader
    from openmanus_rl.transport.storage import Storage

__all__ = ["HttpSink", "PostgresSink", "connect", "connect_for"]


def connect(settings: Settings) -> Sink:
    """Connect to the destination, directly to Postgres if its address is known, else over HTTP."""
    # One attempt each: the courier retries, and reports the error meanwhile.
    settings = settings.model_copy(update={"retry_limit_seconds": 0.0})
    if _database_url(settings) is None:
        return HttpSink(_client(settings))
    # Imported here: importing psycopg would double the time that `status` and `init` take.
    from openmanus_rl.transport.loading import Loader

    # Looked up before each connection: after the stack has ended, another process may use its port.
    loader = Loader(partial(_known_url, settings), connect_timeout_seconds=settings.connect_timeout_seconds)
    return PostgresSink(loader, partial(_client, settings))


def _client(settings: Settings) -> Client:
    with _stopped_stack_is_transient():
        return get_client(settings)


def _database_url(settings: Settings) -> str | None:
    with _stopped_stack_is_transient():
        return find_database_url(settings)


def _known_url(settings: Settings) -> str:
    url = _database_url(settings)
    assert url is not None, "a destination with a database URL always has one"
    return url


@contextmanager
def _stopped_stack_is_transient() -> Iterator[None]:
    try:
        yield
    except StackError as error:
        raise TransientError(str(error)) from error


def connect_for(root: Path) -> Sink:
    """Connect to the destination of the spools below a root, with the current settings.

    Keys may have changed since. If the settings now name another destination, raise a `SettingsError`.
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
    """Loads batches directly into Postgres, and uploads files over HTTP."""

    def __init__(self, loader: Loader, client: Callable[[], Client]) -> None:
        self._client = client
        self.load = loader.load
        self.interrupt = loader.interrupt

    @property
    def storage(self) -> Storage:
        """Storage for files; connected on demand, since most batches have none."""
        return self._client().storage
