"""A server in front of the real one that fails in the ways in which servers and networks do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx

Fault = Callable[["Handler", bytes], None]


class FaultySupabase:
    """Passes requests on to a Supabase, or does what `fault` says instead for those below a path."""

    def __init__(self, upstream: str, faulty_path: str) -> None:
        self.upstream = upstream
        self.faulty_path = faulty_path
        self.fault: Fault | None = None
        self.requests = 0
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    server_state: FaultySupabase

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server_state.requests += 1
        if self.server_state.fault is not None and self.path.startswith(self.server_state.faulty_path):
            self.server_state.fault(self, body)
        else:
            self.answer(self.ask_upstream(body))

    do_GET = do_POST = do_PATCH = handle_any

    def ask_upstream(self, body: bytes, **headers: str) -> httpx.Response:
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")}
        address = self.server_state.upstream + self.path
        return httpx.request(self.command, address, content=body, headers=kept | headers, timeout=60)

    def answer(self, response: httpx.Response) -> None:
        self.reply(response.status_code, response.content, response.headers.get("content-type", ""))

    def reply(
        self, status: int, body: bytes, kind: str = "application/json", length: int | None = None, **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        # A client may not have waited for it.
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The tests say what matters."""


def too_many(handler: Handler, _body: bytes) -> None:
    handler.reply(429, b'{"message": "too many requests"}', Retry_After="7")


def broken(handler: Handler, _body: bytes) -> None:
    handler.reply(500, b'{"message": "out of order"}')


def html(handler: Handler, _body: bytes) -> None:
    handler.reply(200, b"<html>Sign in to the network</html>", "text/html")


def other_json(handler: Handler, _body: bytes) -> None:
    handler.reply(200, b'{"status": "ok"}')


def bad_request_of_a_proxy(handler: Handler, _body: bytes) -> None:
    handler.reply(400, b"<html>400 Bad Request</html>", "text/html")


def bad_request_in_json(handler: Handler, _body: bytes) -> None:
    """Like those of a framework that a proxy is written in."""
    handler.reply(400, b'{"statusCode": 400, "error": "Bad Request", "message": "no such route"}')


def other_host(handler: Handler, _body: bytes) -> None:
    handler.reply(421, b"this server is called omrl.test", "text/plain")


def half_an_answer(handler: Handler, body: bytes) -> None:
    """The database has committed, and the client doesn't hear of it."""
    response = handler.ask_upstream(body)
    handler.reply(response.status_code, response.content[:5], length=len(response.content))
    handler.close_connection = True


def slow(handler: Handler, body: bytes) -> None:
    """So does this one, but nothing comes at all for a while."""
    response = handler.ask_upstream(body)
    time.sleep(1.5)
    handler.answer(response)


def revoked(handler: Handler, body: bytes) -> None:
    key = "sb_secret_" + "x" * 31
    handler.answer(handler.ask_upstream(body, apikey=key, Authorization=f"Bearer {key}"))


def refuse_large_bodies(handler: Handler, body: bytes) -> None:
    if len(body) > 20_000:
        handler.reply(413, b"<html>Request Entity Too Large</html>", "text/html")
    else:
        handler.answer(handler.ask_upstream(body))


@contextmanager
def faulty_supabase(upstream: str, faulty_path: str = "/") -> Iterator[FaultySupabase]:
    state = FaultySupabase(upstream, faulty_path)
    handler = type("OneHandler", (Handler,), {"server_state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
