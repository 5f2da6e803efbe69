"""A real S3 server of the tests' own, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import boto3
import httpx
from botocore.config import Config

BUCKET = "records"


@dataclass
class S3Server:
    """An S3 server on a loopback port; what it holds lasts as long as its process."""

    port: int
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """What the gateway is told to keep objects here."""
        return {
            "OPENMANUS_RL_STORAGE": f"s3://{BUCKET}/files",
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing-secret",
        }

    @property
    def client(self) -> Any:
        return self.service("s3")

    def service(self, name: str) -> Any:
        """Return AWS's own client of a service."""
        return boto3.client(
            name,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing-secret",
            config=Config(s3={"addressing_style": "path"}),
        )

    def object_keys(self) -> set[str]:
        return {entry["Key"] for entry in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])}

    def unfinished_uploads(self) -> list[str]:
        return [upload["Key"] for upload in self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server with one bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = S3Server(port, process)
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{server.url}/moto-api/", timeout=5)
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline, "the S3 server does not answer"
                assert process.poll() is None, "the S3 server ended"
                time.sleep(0.2)
        server.client.create_bucket(Bucket=BUCKET)
        yield server
    finally:
        process.kill()
        process.wait()


class Relay:
    """Passes connections on to a server, until it is closed; remembers the first bytes of each request it saw."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: list[socket.socket] = []
        self.seen = b""
        self.port = 0
        self.open()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on, and break those that are open."""
        # Closing alone does not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target, source is client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if is_request:
                    self.seen += data[:2000]
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
