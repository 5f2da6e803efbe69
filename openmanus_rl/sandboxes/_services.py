"""What environments of services share, whether these are processes or containers."""

from __future__ import annotations

import http.client
import re
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from openmanus_rl.sandboxes._exchange import exchange
from openmanus_rl.sandboxes.base import (
    OUTPUT_LIMIT_BYTES,
    Address,
    CommandResult,
    Episode,
    HttpResponse,
    SandboxCancelled,
    SandboxError,
)
from openmanus_rl.sandboxes.spec import Health, Service, ServicesSpec, Source

__all__ = ["LOOPBACK", "ServiceSandbox", "check_rollout_id", "read_source", "tail"]

LOOPBACK = "127.0.0.1"
_LOG_TAIL_BYTES = 256 * 1024
_HEALTH_BODY_BYTES = 64 * 1024
_CANCEL_POLL_SECONDS = 0.25
_FIRST_PAUSE_SECONDS = 0.02
_ROLLOUT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def check_rollout_id(rollout_id: str) -> None:
    """Refuse an id that can't be part of a name."""
    if _ROLLOUT_ID.fullmatch(rollout_id) is None:
        raise SandboxError(f"rollout {rollout_id!r:.100}: the id must consist of letters, digits and hyphens")


def read_source(source: Source, task_files: Path | None) -> bytes | Path:
    """Return the content that a spec gives, or the file or folder among the task's files that it names."""
    content = source.content()
    if content is not None:
        return content
    return find_task_file(str(source.path), task_files)


def find_task_file(name: str, task_files: Path | None) -> Path:
    """Return a file or folder of the task; links that lead elsewhere are refused."""
    if task_files is None:
        raise SandboxError(f"the environment needs {name!r}, but the task has no files")
    path = (task_files / name).resolve()
    if not path.is_relative_to(task_files.resolve()):
        raise SandboxError(f"{name!r} leads out of the task's files")
    if not path.exists():
        raise SandboxError(f"the task's files have no {name!r}")
    return path


def tail(path: Path, limit_bytes: int = _LOG_TAIL_BYTES) -> bytes:
    """Return the end of a log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - limit_bytes))
            return file.read(limit_bytes)
    except FileNotFoundError:
        return b""


class ServiceSandbox(ABC):
    """A sandbox of services that are reached by connections from this machine."""

    kind: str
    episode: Episode | None = None

    def __init__(self, spec: ServicesSpec) -> None:
        self.spec = spec
        self.services: dict[str, Address] = {}

    @property
    def url(self) -> str | None:
        """Return the URL that the agent opens, with the address at which the service is reached from here."""
        if self.spec.url is None:
            return None
        parts = self.spec.parsed_url()
        address = self.services[parts.hostname or ""]
        return parts._replace(netloc=f"{address.host}:{address.port}").geturl()

    @abstractmethod
    def connect(self, service: str, *, timeout_seconds: float) -> socket.socket:
        """Return a connection to the port of a service, or raise OSError."""

    @property
    @abstractmethod
    def started(self) -> Collection[str]:
        """Return the names of the services that have been started."""

    @abstractmethod
    def check_service(self, service: str) -> None:
        """Raise `SandboxError` if a service has died."""

    @abstractmethod
    def run(
        self,
        command: str | Sequence[str],
        *,
        service: str | None = None,
        timeout_seconds: float = 60.0,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        stdin: bytes | None = None,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> CommandResult:
        """Run a command inside."""

    def check(self) -> None:
        """Raise `SandboxError` if a service has died."""
        for name in self.started:
            self.check_service(name)

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
        """Make an HTTP request to a service of this sandbox, by its name or address; any other host is refused."""
        service, target = self._find_target(url)
        try:
            return exchange(
                self.connect(service, timeout_seconds=timeout_seconds),
                method,
                target,
                host=urlsplit(url).netloc,
                headers=headers,
                body=body,
                timeout_seconds=timeout_seconds,
                limit_bytes=limit_bytes,
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SandboxError(f"{method} {url}: {error or type(error).__name__}") from error

    def _find_target(self, url: str) -> tuple[str, str]:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise SandboxError(f"{url!r:.200}: {error}") from error
        if parts.scheme != "http" or parts.username is not None:
            raise SandboxError(f"{url!r:.200} is not an http URL of this environment")
        service = next((name for name, address in self.services.items() if port == address.port), None)
        if host in self.services and port in (None, self.port_of(host), self.services[host].port):
            service = host
        elif host not in (LOOPBACK, "localhost") or service is None:
            names = ", ".join(self.services) or "none"
            raise SandboxError(f"{url!r:.200} is not of this environment; its services are: {names}")
        return service, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def port_of(self, service: str) -> int | None:
        """Return the port that a service listens on, as the spec gives it."""
        return getattr(self.spec.services[service], "port", None)

    def database_url(self, service: str | None = None) -> str:
        """Return the URL of a service's Postgres, for SQL validators."""
        known = [name for name, each in self.spec.services.items() if each.database and name in self.services]
        if service is None and len(known) != 1:
            raise SandboxError(f"name the service with the database; there are: {', '.join(known) or 'none'}")
        name = service or known[0]
        database = self.spec.services[name].database if name in known else None
        if database is None:
            raise SandboxError(f"service {name!r:.100} has no database")
        address = self.services[name]
        password = "" if database.password is None else ":" + quote(database.password, safe="")
        login = quote(database.user, safe="") + password
        return f"postgresql://{login}@{address.host}:{address.port}/{quote(database.name, safe='')}"

    def find_service(self, service: str | None) -> str:
        """Return the name of the service that is meant."""
        name = self.spec.main_service if service is None else service
        if name is None or name not in self.spec.services:
            names = ", ".join(sorted(self.spec.services)) or "none"
            wanted = "name the service" if service is None else f"there is no service {service!r:.100}"
            raise SandboxError(f"{wanted}; the services are: {names}")
        return name

    def await_health(self, name: str, service: Service, *, is_cancelled: Callable[[], bool]) -> None:
        """Wait until a service is ready; raise `SandboxError` if it dies or the time is over."""
        health = service.health or (Health(tcp=True) if name in self.services else None)
        deadline = time.monotonic() + (health.timeout_seconds if health else 0)
        pause = _FIRST_PAUSE_SECONDS
        while True:
            raise_if_cancelled(is_cancelled)
            self.check_service(name)
            problem = self._find_problem(name, health) if health else None
            if problem is None or health is None:
                return
            if time.monotonic() >= deadline:
                raise SandboxError(f"service {name}: not healthy after {health.timeout_seconds:g} s: {problem}")
            # Most services are ready soon: ask them often at first.
            pause = min(pause * 1.5, health.interval_seconds)
            wait(pause, is_cancelled=is_cancelled, deadline=deadline)

    def _find_problem(self, name: str, health: Health) -> str | None:
        timeout = min(10.0, health.timeout_seconds)
        if health.command is not None:
            result = self.run(health.command, service=name, timeout_seconds=timeout, output_limit_bytes=4096)
            shown = (result.stderr or result.stdout).decode(errors="replace").strip()[-500:]
            return None if result.exit_code == 0 else f"the command ended with {result.exit_code}: {shown}"
        try:
            connection = self.connect(name, timeout_seconds=timeout)
            if health.http is None:
                connection.close()
                return None
            answer = exchange(
                connection,
                "GET",
                health.http,
                host=name,
                timeout_seconds=timeout,
                limit_bytes=_HEALTH_BODY_BYTES,
            )
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        return None if answer.status < 400 else f"GET {health.http} answers {answer.status}"


def raise_if_cancelled(is_cancelled: Callable[[], bool]) -> None:
    """Give up the start if somebody asked for it."""
    if is_cancelled():
        raise SandboxCancelled("the start was cancelled")


def wait(seconds: float, *, is_cancelled: Callable[[], bool], deadline: float) -> None:
    """Sleep, but no longer than a deadline and only until the start is cancelled."""
    end = min(time.monotonic() + seconds, deadline)
    while (left := end - time.monotonic()) > 0:
        raise_if_cancelled(is_cancelled)
        time.sleep(min(left, _CANCEL_POLL_SECONDS))
