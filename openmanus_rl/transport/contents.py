"""The contents of stored files by version, for backups of files that only the gateway can reach: those in S3."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from openmanus_rl.transport.http import HttpClient
from openmanus_rl.transport.translate import error_from_response, translated

__all__ = ["GatewayContents"]

_TIMEOUT = httpx.Timeout(120.0, connect=5.0)


class _Blocks(io.RawIOBase):
    """A response as a raw file."""

    def __init__(self, response: httpx.Response) -> None:
        self._blocks = response.iter_raw()
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


class GatewayContents:
    """Reads and writes contents through the running gateway."""

    def __init__(self, url: str, secret_key: str) -> None:
        self._url = f"{url}/gateway/contents"
        self._headers = {"apikey": secret_key}
        self._http = HttpClient(proof_key=secret_key, use_environment_proxies=False)

    @contextmanager
    def reading(self, version: str, size: int) -> Iterator[io.BufferedReader | None]:
        """Read a content of a known size; None if it is missing."""
        attempt = f"read stored file {version}"
        with (
            translated(attempt),
            self._http.client.stream(
                "GET", f"{self._url}/{version}", params={"size": size}, headers=self._headers, timeout=_TIMEOUT
            ) as response,
        ):
            if response.status_code == httpx.codes.NOT_FOUND:
                yield None
                return
            if not response.is_success:
                response.read()
                raise error_from_response(response, attempt)
            yield io.BufferedReader(_Blocks(response), buffer_size=2**20)

    def write(self, version: str, blocks: Iterable[bytes]) -> None:
        """Write a content; one that is there already is the same."""
        attempt = f"write stored file {version}"
        with translated(attempt):
            response = self._http.client.put(
                f"{self._url}/{version}", content=blocks, headers=self._headers, timeout=_TIMEOUT
            )
        if not response.is_success:
            raise error_from_response(response, attempt)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
