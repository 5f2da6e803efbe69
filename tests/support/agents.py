"""What the tests of agents share: a sandbox in a folder, a rollout that remembers, a server that speaks like models."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from openmanus_rl.sandboxes.base import Address, CommandResult, Episode, HttpResponse, SandboxError, StepResult

Answer = Callable[["_Handler"], None]


class LocalSandbox:
    """The protocol of sandboxes, in a folder of this machine."""

    def __init__(self, folder: Path, *, url: str | None = None, episode: Episode | None = None) -> None:
        self.kind = "process"
        self.url = url
        self.episode = episode
        self.is_dead = False
        self._folder = folder
        parts = urlsplit(url or "")
        self.services = {"web": Address(parts.hostname or "", parts.port or 80)} if url else {}

    def run(
        self,
        command: str | Sequence[str],
        *,
        service: str | None = None,
        timeout_seconds: float = 60.0,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        stdin: bytes | None = None,
        output_limit_bytes: int = 1024 * 1024,
    ) -> CommandResult:
        del service, environment, folder
        if self.is_dead:
            raise SandboxError("no shell answers")
        line = ["sh", "-c", command] if isinstance(command, str) else list(command)
        try:
            done = subprocess.run(
                line, cwd=self._folder, input=stdin, capture_output=True, check=False, timeout=timeout_seconds
            )
        except subprocess.TimeoutExpired as error:
            return CommandResult(None, error.stdout or b"", error.stderr or b"")
        limit = output_limit_bytes
        return CommandResult(done.returncode, done.stdout[:limit], done.stderr[:limit], len(done.stdout) > limit)

    def write_file(self, path: str, data: bytes, *, service: str | None = None, mode: int = 0o644) -> None:
        del service
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)

    def read_file(self, path: str, *, service: str | None = None, limit_bytes: int = 1 << 26) -> bytes:
        del service
        return (self._folder / path).read_bytes()[:limit_bytes]

    def put_folder(self, source: Path, target: str, *, service: str | None = None) -> None:
        raise NotImplementedError

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_seconds: float = 30.0,
        limit_bytes: int = 1024 * 1024,
    ) -> HttpResponse:
        if self.url is None or urlsplit(url).netloc != urlsplit(self.url).netloc:
            raise SandboxError(f"{url} is not of this environment")
        got = httpx.request(method, url, headers=dict(headers or {}), content=body, timeout=timeout_seconds)
        return HttpResponse(got.status_code, dict(got.headers), got.content[:limit_bytes])

    def database_url(self, service: str | None = None) -> str:
        raise NotImplementedError

    def logs(self) -> Mapping[str, bytes]:
        return {}

    def check(self) -> None:
        if self.is_dead:
            raise SandboxError("the service web has died")

    def close(self) -> None:
        """Nothing is left."""


class Countdown:
    """An episode: count down to 0, one a step, with a reward for each."""

    def __init__(self, start: int = 3) -> None:
        self.action_space: Any = {"type": "string", "enum": ["down", "wait"]}
        self._start = start
        self.value = start

    def reset(self, *, seed: int | None = None) -> StepResult:
        del seed
        self.value = self._start
        return StepResult(f"counter at {self.value}")

    def step(self, action: Any) -> StepResult:
        if action not in ("down", "wait"):
            raise ValueError(f"no such action: {action}")
        self.value -= action == "down"
        return StepResult(f"counter at {self.value}", reward=0.5 * (action == "down"), terminated=self.value == 0)

    def state(self) -> Mapping[str, Any] | None:
        return {"value": self.value}

    def render(self) -> Any | None:
        return None


class Remembered:
    """A rollout of the recorder that keeps what it is given."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = []
        self.media: list[dict[str, Any]] = []

    def log_turn(self, **fields: Any) -> str:
        self.turns.append({name: value for name, value in fields.items() if value is not None})
        return f"turn-{len(self.turns)}"

    def log_media(self, data: Any, **fields: Any) -> str | None:
        content = Path(data).read_bytes() if isinstance(data, (str, Path)) else data
        self.media.append({"content": content, **fields})
        return "path"


class ModelServer:
    """A server whose answers are given beforehand, one for each request; it keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.state = self  # type: ignore[attr-defined]
        self.released = threading.Event()
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        state: ModelServer = self.server.state  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        state.requests.append(json.loads(body))
        state.headers.append({name.lower(): value for name, value in self.headers.items()})
        state.paths.append(self.path)
        state.times.append(time.monotonic())
        state.answers.pop(0)(self)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def answer_json(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return answer_bytes(json.dumps(body).encode(), status=status, headers=headers)


def answer_bytes(
    content: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None, length: int | None = None
) -> Answer:
    def send(handler: _Handler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        handler.end_headers()
        handler.wfile.write(content)
        if length is not None:
            handler.close_connection = True

    return send


def answer_stream(events: Sequence[Any], *, is_done: bool = True, cut: int | None = None) -> Answer:
    """Answer server-sent events; with `cut`, that many bytes of them, and then the connection ends."""

    def send(handler: _Handler) -> None:
        text = b": a comment\r\n\r\n" + b"".join(b"data: " + _dump(event) + b"\r\n\r\n" for event in events)
        text += b"data: [DONE]\n\n" if is_done else b""
        text = text[:cut]
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        # In small pieces, which cut through lines and characters.
        size = max(7, len(text) // 10_000)
        for start in range(0, len(text), size):
            piece = text[start : start + size]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    return send


def _dump(event: Any) -> bytes:
    return event if isinstance(event, bytes) else json.dumps(event, ensure_ascii=False).encode()


def reset(handler: _Handler) -> None:
    """End the connection with a reset, before anything is answered."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def hang(handler: _Handler) -> None:
    """Answer nothing, until the server is closed."""
    handler.server.state.released.wait(60)  # type: ignore[attr-defined]
    handler.close_connection = True


def trickle(handler: _Handler) -> None:
    """Send a byte now and then, until the server is closed or the client is gone."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    try:
        while not handler.server.state.released.wait(0.05):  # type: ignore[attr-defined]
            handler.wfile.write(b" ")
    except OSError:
        pass


def completion(
    text: str | None = None,
    *,
    calls: Sequence[tuple[str, Any]] = (),
    usage: Mapping[str, int] | None = None,
    finish_reason: str | None = None,
    message: Mapping[str, Any] | None = None,
    choice: Mapping[str, Any] | None = None,
    **further: Any,
) -> dict[str, Any]:
    """A chat completion, with tool calls as (name, arguments); arguments that are text are sent as they are."""
    said: dict[str, Any] = {"role": "assistant", "content": text, **(message or {})}
    if calls:
        said["tool_calls"] = [
            {
                "id": f"id-{place}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for place, (name, given) in enumerate(calls)
        ]
    reason = finish_reason or ("tool_calls" if calls else "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "served",
        "choices": [{"index": 0, "message": said, "finish_reason": reason, **(choice or {})}],
        "usage": usage or {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        **further,
    }


def delta(
    given: Mapping[str, Any] | None = None, *, finish_reason: str | None = None, **further: Any
) -> dict[str, Any]:
    """A chunk of a streamed chat completion."""
    choice = {"index": 0, "delta": dict(given or {}), "finish_reason": finish_reason, **further.pop("choice", {})}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "served", "choices": [choice], **further}


def candidate(*parts: Mapping[str, Any], finish_reason: str = "STOP") -> dict[str, Any]:
    """An answer of Gemini."""
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish_reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "thoughtsTokenCount": 5},
        "modelVersion": "gemini-served",
        "responseId": "r1",
    }


def function_call(name: str, **arguments: Any) -> dict[str, Any]:
    """A function call of Gemini."""
    return {"functionCall": {"name": name, "args": arguments}}
