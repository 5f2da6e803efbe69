"""No environment: nothing is started, and the agent may be given a URL."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from openmanus_rl.sandboxes._exchange import connect_to_url, exchange
from openmanus_rl.sandboxes.base import OUTPUT_LIMIT_BYTES, Address, CommandResult, Episode, HttpResponse, SandboxError
from openmanus_rl.sandboxes.spec import NoneSpec

__all__ = ["BareProvider", "BareSandbox", "NoneProvider"]


class BareSandbox:
    """A sandbox without services: it has a URL, an episode, or nothing at all."""

    def __init__(self, kind: str, *, url: str | None = None, episode: Episode | None = None) -> None:
        self.kind = kind
        self.url = url
        self.episode = episode
        self.services: Mapping[str, Address] = {}

    def _refuse(self, what: str) -> NoReturn:
        raise SandboxError(f"an environment of kind {self.kind} has no {what}")

    def run(self, command: str | Sequence[str], **_: Any) -> CommandResult:
        """There is no shell."""
        self._refuse(f"shell for {command!r:.100}")

    def write_file(self, path: str, data: bytes, **_: Any) -> None:  # noqa: ARG002
        """There are no files."""
        self._refuse(f"files, such as {path!r:.100}")

    def read_file(self, path: str, **_: Any) -> bytes:
        """There are no files."""
        self._refuse(f"files, such as {path!r:.100}")

    def put_folder(self, source: Path, target: str, **_: Any) -> None:  # noqa: ARG002
        """There are no files."""
        self._refuse(f"files, such as {target!r:.100}")

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_seconds: float = 30.0,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> HttpResponse:
        """Make an HTTP request to the host of the URL; any other host is refused."""
        parts, own = urlsplit(url), urlsplit(self.url or "")
        if self.url is None or (parts.scheme, parts.netloc) != (own.scheme, own.netloc):
            raise SandboxError(f"{url!r:.200} is not of this environment")
        try:
            return exchange(
                connect_to_url(parts, timeout_seconds),
                method,
                (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
                host=parts.netloc,
                headers=headers,
                body=body,
                timeout_seconds=timeout_seconds,
                limit_bytes=limit_bytes,
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SandboxError(f"{method} {url}: {error or type(error).__name__}") from error

    def database_url(self, service: str | None = None) -> str:  # noqa: ARG002
        """There is no database."""
        self._refuse("database")

    def logs(self) -> Mapping[str, bytes]:
        """Return no logs: there are no services."""
        return {}

    def check(self) -> None:
        """There is nothing that could have died."""

    def close(self) -> None:
        """End the episode, if there is one."""
        close = getattr(self.episode, "close", None)
        if close is not None:
            close()


class BareProvider:
    """What providers that leave nothing on the machine share."""

    def take_back(self, *, is_alive: Callable[[str], bool]) -> list[str]:  # noqa: ARG002
        """There is nothing to remove."""
        return []

    def remove(self, rollout_id: str) -> list[str]:  # noqa: ARG002
        """There is nothing to remove."""
        return []


class NoneProvider(BareProvider):
    """Starts nothing."""

    kind = "none"

    def provision(self, spec: NoneSpec, **_: Any) -> BareSandbox:
        """Return a sandbox with nothing but the URL."""
        return BareSandbox(self.kind, url=spec.url)
