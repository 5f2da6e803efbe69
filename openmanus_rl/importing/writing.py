"""Writes the records of lines, some megabytes at a time, and reports which lines were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openmanus_rl.connections import get_client
from openmanus_rl.delivery.batches import Load, load_in_parts
from openmanus_rl.delivery.destination import HttpSink
from openmanus_rl.errors import TimeoutExceeded
from openmanus_rl.transport.retry import RetryPolicy

__all__ = ["BATCH_BYTES", "BatchWriter", "opened_database"]

BATCH_BYTES = 4 * 1024 * 1024
# Small records too have a fixed cost in memory and in the merge.
_BATCH_RECORDS = 20_000
_ANOTHER_TURN = "another turn is recorded for this step already; import this file into a run of its own with --run"

_TOO_SLOW = "it is too large to be written in time; with DATABASE_URL set, it goes straight to Postgres"


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: str
    record: dict[str, Any]
    line_number: int
    counted: bool


@contextmanager
def opened_database() -> Iterator[Load]:
    """Connect to the database, directly if the settings allow it, else over HTTP."""
    client = get_client()
    if client.database_url is None:
        yield HttpSink(client).load
        return
    from openmanus_rl.transport.loading import Loader

    loader = Loader(lambda: get_client().database_url or "")
    try:
        yield loader.load
    finally:
        loader.close()


class BatchWriter:
    """Collects the records of one file's lines and writes them in batches, each in one transaction."""

    def __init__(
        self,
        load: Load,
        *,
        on_refused: Callable[[int, str], None],
        batch_bytes: int = BATCH_BYTES,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.written: Counter[str] = Counter()
        """How many records of each kind were written."""
        self._load_batch = load
        self._on_refused = on_refused
        self._batch_bytes = batch_bytes
        self._retry = retry or RetryPolicy()
        self._entries: list[_Entry] = []
        self._waiting_bytes = 0

    def add(self, kind: str, record: dict[str, Any], *, line_number: int, counted: bool = True) -> None:
        """Add a record of a line; parents must be added before their children."""
        known = {name: value for name, value in record.items() if value is not None}
        self._entries.append(_Entry(kind, known, line_number, counted))

    def begin_line(self, size_bytes: int) -> None:
        """Write pending records first if this line would exceed the batch size, so that a huge line is sent alone."""
        if self._waiting_bytes + size_bytes > self._batch_bytes or len(self._entries) >= _BATCH_RECORDS:
            self.flush()
        self._waiting_bytes += size_bytes

    def flush(self) -> None:
        """Write all pending records; after a failure they stay pending."""
        refused: dict[int, str] = {}
        try:
            if self._entries:
                self._load(self._entries, refused)
        except TimeoutExceeded:
            lines = {entry.line_number for entry in self._entries}
            if len(lines) > 1 or self._waiting_bytes <= self._batch_bytes:
                raise
            # A huge line. A retry would take as long again, and the import would not proceed.
            refused = dict.fromkeys(lines, _TOO_SLOW)
        self._entries, self._waiting_bytes = [], 0
        for line_number, reason in sorted(refused.items()):
            self._on_refused(line_number, reason)

    def _load(self, entries: Sequence[_Entry], refused: dict[int, str]) -> None:
        by_kind: dict[str, list[_Entry]] = {}
        for entry in entries:
            by_kind.setdefault(entry.kind, []).append(entry)
        batch = {kind: [entry.record for entry in found] for kind, found in by_kind.items()}
        refusals = load_in_parts(batch, lambda part: self._retry.run(lambda _left_seconds: self._load_batch(part)))
        self.written.update(entry.kind for entry in entries if entry.counted)
        # Parents come first, so the first reason of a line is the cause of the others.
        for refusal in refusals:
            entry = by_kind[refusal["kind"]][refusal["index"]]
            self.written[entry.kind] -= entry.counted
            is_taken = refusal["kind"] == "agent_states" and refusal["code"] == "OM409"
            refused.setdefault(entry.line_number, _ANOTHER_TURN if is_taken else refusal["message"])
