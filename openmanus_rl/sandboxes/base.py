"""What every sandbox can do, whichever provider started it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from openmanus_rl.errors import OpenManusError

__all__ = [
    "Address",
    "CommandResult",
    "Episode",
    "HttpResponse",
    "Provider",
    "Sandbox",
    "SandboxCancelled",
    "SandboxError",
    "StepResult",
]

OUTPUT_LIMIT_BYTES = 1024 * 1024
FILE_LIMIT_BYTES = 64 * 1024 * 1024


class SandboxError(OpenManusError):
    """An environment could not be started, or failed: not the agent's fault."""

    logs: Mapping[str, bytes] = MappingProxyType({})
    """The end of each service's log, if it did not start; the services themselves are gone."""


class SandboxCancelled(SandboxError):
    """The start was given up because somebody asked for it."""


@dataclass(frozen=True)
class Address:
    """Where a service listens, as the worker reaches it: on the loopback interface."""

    host: str
    port: int


@dataclass(frozen=True)
class CommandResult:
    """What a command in a sandbox printed and how it ended."""

    exit_code: int | None
    """None if it did not end within its time limit."""
    stdout: bytes
    stderr: bytes
    is_truncated: bool = False
    """Whether it printed more than the limit; the rest was dropped."""

    @property
    def timed_out(self) -> bool:
        """Return whether it was stopped at its time limit."""
        return self.exit_code is None


@dataclass(frozen=True)
class HttpResponse:
    """The answer to a request that was made inside a sandbox."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_truncated: bool = False


@dataclass(frozen=True)
class StepResult:
    """What an environment with `reset` and `step` returned."""

    observation: Any
    reward: float | None = None
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Return whether the episode is over."""
        return self.terminated or self.truncated


class Episode(Protocol):
    """An environment that is played step by step: Gymnasium, OpenEnv."""

    action_space: Any
    """A description of the possible actions (a Gymnasium space, a JSON schema), or None."""

    def reset(self, *, seed: int | None = None) -> StepResult: ...
    def step(self, action: Any) -> StepResult: ...
    def state(self) -> Mapping[str, Any] | None: ...
    def render(self) -> Any | None:
        """Return a picture of the current state, or None."""


class Sandbox(Protocol):
    """A started environment. What it does not have (a shell, a URL, an episode) is None or raises `SandboxError`."""

    @property
    def kind(self) -> str: ...
    @property
    def url(self) -> str | None:
        """Return what the agent opens, reachable from the worker."""

    @property
    def services(self) -> Mapping[str, Address]: ...
    @property
    def episode(self) -> Episode | None: ...

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
        """Run a command inside; a string goes through `sh -c`. Everything that it started ends with the time limit."""

    def write_file(self, path: str, data: bytes, *, service: str | None = None, mode: int = 0o644) -> None: ...
    def read_file(self, path: str, *, service: str | None = None, limit_bytes: int = FILE_LIMIT_BYTES) -> bytes:
        """Return a file's content; `FileNotFoundError` if there is none, `SandboxError` if it is too large."""

    def put_folder(self, source: Path, target: str, *, service: str | None = None) -> None:
        """Copy a folder's content into a folder inside, which is created."""

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

    def database_url(self, service: str | None = None) -> str:
        """Return the URL of a service's Postgres, for SQL validators."""

    def logs(self) -> Mapping[str, bytes]:
        """Return the end of each service's log."""

    def check(self) -> None:
        """Raise `SandboxError` if a service has died."""

    def close(self) -> None:
        """Remove everything; may be called again, from another thread as well."""


class Provider(Protocol):
    """Starts sandboxes of one kind, and removes those that a dead worker left behind."""

    kind: str

    def provision(
        self,
        spec: Any,
        *,
        rollout_id: str,
        owner: str,
        folder: Path,
        task_files: Path | None = None,
        seed: int | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Sandbox:
        """Start a sandbox and wait until it is healthy; if that fails, remove it all and raise `SandboxError`.

        `owner` identifies the worker, `folder` is a private folder for files of this rollout, and `task_files` is the
        folder that the paths of the spec are relative to. `SandboxCancelled` is raised once `is_cancelled` says so.
        """

    def take_back(self, *, is_alive: Callable[[str], bool]) -> list[str]:
        """Remove what owners that are no longer alive left on this machine; return what was removed."""

    def remove(self, rollout_id: str) -> list[str]:
        """Remove what is left of a rollout on this machine, whoever started it; return what was removed."""
