"""A small web app on the loopback interface, a stranger beside it that must not be reached, and a model server."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ...support.agents import LocalSandbox, ModelServer

_HOME = """<title>Shop</title><style>body {{ margin: 0 }} input, button {{ font-size: 30px }}</style>
<form action="/hello">
<input id="name" name="name" style="position:absolute;left:100px;top:100px;width:400px;height:50px">
<button id="go" style="position:absolute;left:100px;top:200px;width:200px;height:60px">Go</button></form>
<p id="motto">We sell everything.</p>"""
_LEAVE = """<title>leaving</title><body><script>
const out = "http://127.0.0.1:{stranger}", host = "127.0.0.1:{stranger}";
const link = (rel, href) => document.head.append(Object.assign(document.createElement("link"), {{ rel, href }}));
const stun = {{ urls: "stun:127.0.0.1:{stun}" }};
const turn = {{ urls: "turn:127.0.0.1:{stun}?transport=udp", username: "a", credential: "b" }};
const tries = [
  () => fetch(out + "/fetch", {{ mode: "no-cors" }}),
  () => fetch("http://localhost:{stranger}/localhost", {{ mode: "no-cors" }}),
  () => fetch("http://[::1]:{stranger}/six", {{ mode: "no-cors" }}),
  () => fetch("http://example.com/else", {{ mode: "no-cors" }}),
  () => fetch("https://example.org/else", {{ mode: "no-cors" }}),
  () => fetch("/redirect", {{ mode: "no-cors" }}),
  () => navigator.sendBeacon(out + "/beacon", "x"),
  () => new WebSocket("ws://" + host + "/socket"),
  () => new EventSource(out + "/events"),
  () => {{ const i = new Image(); i.src = out + "/image"; document.body.append(i); }},
  () => {{ const f = document.createElement("iframe"); f.src = out + "/frame"; document.body.append(f); }},
  () => {{ const f = document.createElement("iframe"); f.src = "file:///etc/hostname"; document.body.append(f); }},
  () => link("prefetch", out + "/prefetch"),
  () => link("preconnect", out),
  () => new Worker(URL.createObjectURL(new Blob([`fetch("${{out}}/worker", {{ mode: "no-cors" }})`]))),
  () => navigator.serviceWorker.register("/worker.js"),
  () => window.open(out + "/window"),
  () => {{
    const peer = new RTCPeerConnection({{ iceServers: [stun, turn] }});
    peer.createDataChannel("x"); peer.createOffer().then((offer) => peer.setLocalDescription(offer));
  }},
  () => new WebTransport("https://" + host + "/transport"),
];
for (const one of tries) {{
  try {{ const done = one(); if (done && done.catch) done.catch(() => 0); }} catch (error) {{}}
}}
setTimeout(() => {{ document.title = "still here"; }}, 300);
</script><a id="file" href="file:///etc/hostname">file</a> <a id="out" href="{url}/out">out</a></body>"""
_DIALOG = (
    """<title>undecided</title><button id="b" onclick="document.title = confirm('Really?') ? 'yes' : 'no'">?</button>"""
)
_POPUP = """<title>opener</title><button id="b" onclick="window.open('/hello?name=popup')">open</button>
<button id="o" onclick="window.open('{url}/window')">out</button>"""


class WebApp:
    """The environment's web app, and a stranger on another port."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.app = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.visitors: list[str] = []
        self._stranger = socket.create_server(("127.0.0.1", 0))
        self.stranger_port = self._stranger.getsockname()[1]
        threading.Thread(target=self._receive, daemon=True).start()
        self._stun = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stun.bind(("127.0.0.1", 0))
        self.stun_port = self._stun.getsockname()[1]
        threading.Thread(target=self._receive_datagrams, daemon=True).start()

    @property
    def stranger_url(self) -> str:
        return f"http://127.0.0.1:{self.stranger_port}"

    def _receive(self) -> None:
        while True:
            try:
                connection, _ = self._stranger.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1)
                try:
                    self.visitors.append(connection.recv(100).decode(errors="replace"))
                except OSError:
                    self.visitors.append("a connection")

    def _receive_datagrams(self) -> None:
        while True:
            try:
                self.visitors.append(f"a datagram: {self._stun.recv(2000)!r}")
            except OSError:
                return

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._stranger.shutdown(socket.SHUT_RDWR)
        for one in (self._stranger, self._stun):
            one.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        app: WebApp = self.server.app  # type: ignore[attr-defined]
        app.requests.append(self.path)
        parts = urlsplit(self.path)
        name = parse_qs(parts.query).get("name", [""])[0]
        headers, status = {}, 200
        pages = {
            "/": _HOME.format(),
            "/hello": f"<title>Hello</title><h1>Hello, {name}!</h1><input id='code' value='4711'>",
            "/leave": _LEAVE.format(stranger=app.stranger_port, stun=app.stun_port, url=app.stranger_url),
            "/dialog": _DIALOG,
            "/popup": _POPUP.format(url=app.stranger_url),
            "/red": "<body style='background: #f00'>",
            "/blue": "<body style='background: #00f'>",
            "/file": "the file",
            "/stuck": "<title>stuck</title><button id='b' onclick='while (true) {}'>x</button>",
        }
        if parts.path == "/redirect":
            status, headers = 302, {"Location": f"{app.stranger_url}/redirected"}
        elif parts.path == "/file":
            headers = {"Content-Disposition": "attachment; filename=x.bin"}
        elif parts.path not in pages:
            status = 404
        body = pages.get(parts.path, "").encode()
        self.send_response(status)
        for key, value in {"Content-Type": "text/html", **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def app() -> Iterator[WebApp]:
    """A web app; the test fails if anything got from the browser to the stranger."""
    started = WebApp()
    yield started
    started.close()
    assert started.visitors == []


@pytest.fixture
def sandbox(app: WebApp, tmp_path: Path) -> LocalSandbox:
    """An environment with the web app."""
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    return LocalSandbox(tmp_path, url=app.url)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model server that answers as it is told."""
    state = ModelServer()
    for name in ("OPENAI", "GEMINI"):
        monkeypatch.setenv(f"{name}_BASE_URL", state.url)
        monkeypatch.setenv(f"{name}_API_KEY", "very-secret-key")
    yield state
    state.close()
