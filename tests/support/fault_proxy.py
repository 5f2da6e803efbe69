"""A proxy before a server that cuts connections off at chosen bytes, and holds answers back."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

_PIECE_BYTES = 16 * 1024


class FaultProxy:
    """Passes bytes on in both directions.

    `cuts` are numbers of bytes, sent by clients or by the server since the proxy was started, after which it breaks off
    the connection that the byte came on, each once. With a certificate it speaks TLS on both sides, and passes requests
    on under the server's own name; then what is counted are the bytes within.
    """

    def __init__(self, upstream: str, certificate: Path | None) -> None:
        address = urlsplit(upstream)
        self._upstream = (address.hostname or "127.0.0.1", address.port or 80)
        self._to_server: ssl.SSLContext | None = None
        self._to_clients: ssl.SSLContext | None = None
        if certificate is not None:
            self._to_server = ssl.create_default_context(cafile=str(certificate))
            self._to_clients = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._to_clients.load_cert_chain(certificate, certificate.with_name("key.pem"))
        self._host = f"\r\nHost: {address.netloc}\r\n".encode()
        self._own_host = b""
        self.url = ""
        self.sent = 0
        self.answered = 0
        self.cuts_of_requests: list[int] = []
        self.cuts_of_answers: list[int] = []
        self.broken_off = 0
        self.answers_pass = Event()
        self.answers_pass.set()

    async def serve(self, started: Event, ended: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0, ssl=self._to_clients)
        own_name = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.url = f"{'http' if self._to_clients is None else 'https'}://{own_name}"
        self._own_host = f"\r\nHost: {own_name}\r\n".encode()
        started.set()
        async with server:
            await ended.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._upstream, ssl=self._to_server)
        ways = (
            self._pass_requests(reader, upstream_writer),
            self._pass_answers(upstream_reader, writer),
        )
        tasks = [asyncio.create_task(way) for way in ways]
        # Whichever side ends first ends both.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for one in (writer, upstream_writer):
            one.transport.abort()

    async def _pass_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE_BYTES):
                before, self.sent = self.sent, self.sent + len(piece)
                if self._to_server is not None:
                    # The head of a request comes in one piece.
                    piece = piece.replace(self._own_host, self._host, 1)
                if not await self._pass(piece, before, self.cuts_of_requests, writer):
                    return

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE_BYTES):
                while not self.answers_pass.is_set():
                    await asyncio.sleep(0.01)
                before, self.answered = self.answered, self.answered + len(piece)
                if not await self._pass(piece, before, self.cuts_of_answers, writer):
                    return

    async def _pass(self, piece: bytes, before: int, cuts: list[int], writer: asyncio.StreamWriter) -> bool:
        """Pass a piece on, up to the first cut in it; return False if there is one."""
        due = [cut for cut in cuts if before <= cut < before + len(piece)]
        if due:
            for cut in due:
                cuts.remove(cut)
            self.broken_off += 1
            piece = piece[: min(due) - before]
        if piece:
            writer.write(piece)
            await writer.drain()
        return not due


@contextmanager
def fault_proxy(upstream: str, certificate: Path | None = None) -> Iterator[FaultProxy]:
    """Run a proxy in a thread of its own; before a server that speaks TLS it has a certificate, its key beside it."""
    proxy, started = FaultProxy(upstream, certificate), Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    thread = Thread(target=lambda: loop.run_until_complete(proxy.serve(started, ended)), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield proxy
    finally:
        proxy.answers_pass.set()
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
