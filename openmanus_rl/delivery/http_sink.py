"""Delivers batches over HTTP: as text to `load_batch`, or as JSON to `ingest`."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Any

from openmanus_rl.delivery.batches import Batch
from openmanus_rl.errors import BadResponse, ConnectionFailed, InvalidInput, TooLargeError, TransientError
from openmanus_rl.transport.batch_text import encode_batch
from openmanus_rl.transport.held import HeldBody
from openmanus_rl.transport.loopback import is_loopback
from openmanus_rl.transport.sqlstate import class_for_code

if TYPE_CHECKING:
    from openmanus_rl.transport.client import Client

__all__ = ["HttpSink"]

_logger = logging.getLogger(__name__)

_TOO_SLOW = 408
_TOO_LARGE = 413
_LEAST_BYTES = 64 * 1024
_WORTH_COMPRESSING_BYTES = 16 * 1024
_GZIP = 31  # zlib's number for the format


class HttpSink:
    """Writes batches over HTTP, each in one request and one transaction.

    Two requests may be on their way: while the database writes a batch, the next one is sent except for its last byte,
    which follows when the first is answered. So they are written in their order.
    """

    def __init__(self, client: Client, *, compress: bool | None = None) -> None:
        """Compress requests where the server takes that, and by default not on this machine, where it gains nothing."""
        self.storage = client.storage
        self.most_bytes = 2**40
        self.rest_until = 0.0
        self._client = client
        self._compress = not is_loopback(client.url) if compress is None else compress
        # By the identity of the batch, which the request holds on to.
        self._ahead: dict[int, _Request] = {}
        self._may_send_ahead = False

    def load(self, batch: Batch, leases: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Write a batch in one transaction and return what was refused."""
        request = self._ahead.pop(id(batch), None)
        try:
            request = request or self._request(batch, leases)
        except ValueError:
            return self._ingest(batch, leases)
        try:
            refused = _refused(request.send(self._client), "load_batch")
            self.rest_until = time.monotonic() + self._client.rest_seconds
        except (InvalidInput, BadResponse) as error:
            if isinstance(error, TooLargeError) and error.status == _TOO_LARGE:
                self._note_limit(len(request.content), error)
                raise
            if request.is_compressed and error.status is not None and 400 <= error.status < 500:
                self._compress = False
                _logger.warning("a compressed request was refused, sending as it is from now on: %s", error)
                return self.load(batch, leases)
            if class_for_code(error.code) is None:
                # Not the database: whoever stands before it would refuse every other batch, too.
                raise BadResponse(error.message, hint=error.hint, status=error.status, details=error.details) from error
            # One bad value fails the whole text. From JSON, the database refuses only its record.
            return self._ingest(batch, leases)
        # Not after a failure: the two of them may be what the server fails at.
        self._may_send_ahead = True
        return refused

    def prepare(self, batch: Batch) -> None:
        """Send a batch except for its end; `load` of the same batch completes it."""
        if not self._may_send_ahead:
            return
        try:
            request = self._request(batch, ())
        except (ValueError, InvalidInput):
            return  # `load` finds out why.
        request.begin(self._client)
        self._ahead[id(batch)] = request

    def close(self) -> None:
        """Break off what was sent ahead."""
        while self._ahead:
            self._ahead.popitem()[1].drop()

    def interrupt(self, entries: dict[str, list[list[str]]], reason: str) -> None:
        """Mark everything that an ended process left running as interrupted."""
        self._client.rpc("interrupt", {"entries": entries, "reason": reason}, retryable=False)

    def _request(self, batch: Batch, leases: Sequence[str]) -> _Request:
        content = encode_batch(batch, leases)
        is_compressed = (
            self._compress and self._client.accepts_gzip is True and len(content) >= _WORTH_COMPRESSING_BYTES
        )
        if is_compressed:
            content = zlib.compress(content, 1, wbits=_GZIP)
        if len(content) > self.most_bytes and sum(map(len, batch.values())) > 1:
            raise TooLargeError(f"{len(content)} bytes are more than the server was found to take")
        return _Request(batch, content, is_compressed=is_compressed)

    def _ingest(self, batch: Batch, leases: Sequence[str]) -> list[dict[str, Any]]:
        arguments = {"batch": batch, "leases": list(leases) or None}
        return _refused(self._client.rpc("ingest", arguments, retryable=False), "ingest")

    def _note_limit(self, size_bytes: int, error: TooLargeError) -> None:
        """Remember the size of requests that are too large, so that they are not sent in vain."""
        limit = max(_LEAST_BYTES, size_bytes // 2)
        if limit < self.most_bytes:
            _logger.warning(
                "a request of %s bytes is too large for the server or a proxy; sending at most %s from now on. "
                "Larger ones are faster: raise the limit, in nginx client_max_body_size. %s",
                f"{size_bytes:,}",
                f"{limit:,}",
                error,
            )
            self.most_bytes = limit


class _Request:
    """A batch as the body of a request, which may have been sent already except for its end."""

    def __init__(self, batch: Batch, content: bytes, *, is_compressed: bool) -> None:
        self.batch = batch
        self.content = content
        self.is_compressed = is_compressed
        self._held = HeldBody(content)
        self._answer: Future[Any] | None = None

    def begin(self, client: Client) -> None:
        self._answer = Future()
        # A daemon: a process that ends breaks it off.
        Thread(target=self._run, args=(client, self._answer), name="openmanus-rl sending ahead", daemon=True).start()

    def send(self, client: Client) -> Any:
        """Send the request, or the rest of it, and return the answer."""
        if self._answer is not None:
            self._held.release()
            try:
                return self._answer.result()
            except TransientError as error:
                # A proxy may not have waited so long for the rest. Even if it was written, it may be sent again.
                if not isinstance(error, ConnectionFailed) and error.status != _TOO_SLOW:
                    raise
        return self._call(client, self.content)

    def drop(self) -> None:
        self._held.drop()

    def _run(self, client: Client, answer: Future[Any]) -> None:
        try:
            answer.set_result(self._call(client, self._held))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asks for the answer
            answer.set_exception(error)

    def _call(self, client: Client, body: bytes | HeldBody) -> Any:
        encoding = "gzip" if self.is_compressed else None
        return client.rpc_with_text("load_batch", body, encoding=encoding, retryable=False)


def _refused(answer: Any, function: str) -> list[dict[str, Any]]:
    refused = answer.get("refused") if isinstance(answer, dict) else None
    if not isinstance(refused, list):
        # Treating it as success would drop records that were not stored.
        raise BadResponse(f"call {function}: the answer does not say what was refused")
    return refused
