"""Environments of local processes: no container engine is needed, and nothing is isolated.

Each service has a private folder, a small environment and limits, and ends with the process that started it. But it
runs under the account of the worker and can read what the worker can: use it for code that you trust.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from openmanus_rl import _child
from openmanus_rl._private import make_private
from openmanus_rl.sandboxes._commands import Collector, GuardedCommand, as_arguments
from openmanus_rl.sandboxes._services import (
    LOOPBACK,
    ServiceSandbox,
    check_rollout_id,
    read_source,
    tail,
)
from openmanus_rl.sandboxes._traces import (
    TOKEN_VARIABLE,
    Trace,
    claim_port,
    release_port,
    remove_traces,
    remove_tree,
)
from openmanus_rl.sandboxes.base import (
    FILE_LIMIT_BYTES,
    OUTPUT_LIMIT_BYTES,
    Address,
    CommandResult,
    SandboxError,
)
from openmanus_rl.sandboxes.spec import ProcessService, ProcessSpec, Resources

__all__ = ["ProcessProvider", "ProcessSandbox"]

LOG_LIMIT_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_OUTPUT_GRACE_SECONDS = 0.2
# Of the worker's environment, only this: the rest may hold its keys.
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
_WORK = "work"


class ProcessProvider:
    """Starts services as local processes."""

    kind = "process"

    def provision(
        self,
        spec: ProcessSpec,
        *,
        rollout_id: str,
        owner: str,
        folder: Path,
        task_files: Path | None = None,
        seed: int | None = None,  # noqa: ARG002
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> ProcessSandbox:
        """Start the services, each after those that it depends on, and wait until they are healthy."""
        check_rollout_id(rollout_id)
        self.remove(rollout_id)
        sandbox = ProcessSandbox(spec, rollout_id=rollout_id, owner=owner, folder=folder)
        try:
            sandbox.start(task_files=task_files, is_cancelled=is_cancelled)
        except BaseException as error:
            sandbox.close()
            if isinstance(error, SandboxError):
                error.logs = sandbox.logs()
            raise
        return sandbox

    def take_back(self, *, is_alive: Callable[[str], bool]) -> list[str]:
        """Remove what owners that are no longer alive left on this machine; return what was removed."""
        return remove_traces(lambda trace: not is_alive(trace.owner))

    def remove(self, rollout_id: str) -> list[str]:
        """Remove what is left of a rollout on this machine; return what was removed."""
        return remove_traces(lambda trace: trace.rollout_id == rollout_id)


class ProcessSandbox(ServiceSandbox):
    """Services that run as local processes."""

    kind = "process"
    spec: ProcessSpec

    def __init__(self, spec: ProcessSpec, *, rollout_id: str, owner: str, folder: Path) -> None:
        super().__init__(spec)
        self._folder = folder.absolute() / "sandbox"
        self._logs = folder.absolute() / "logs"
        self._trace = Trace.leave(rollout_id, owner=owner, folder=self._folder)
        self._processes: dict[str, GuardedCommand] = {}
        self._commands: list[GuardedCommand] = []
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._is_closed = False

    def start(self, *, task_files: Path | None, is_cancelled: Callable[[], bool]) -> None:
        """Start the services and wait until they are healthy."""
        remove_tree(self._folder)
        make_private(self._logs)
        for name in [*self.spec.services, *([] if self.spec.services else [_WORK])]:
            make_private(self._folder / name / "tmp")
        for name in self.spec.start_order():
            service = self.spec.services[name]
            self._copy_files(name, service, task_files)
            if service.listens:
                self.services[name] = Address(LOOPBACK, claim_port())
            command = self._spawn(
                service.command, name, environment=service.environment, resources=service.resources, merge_output=True
            )
            self._processes[name] = command
            assert command.stdout is not None
            _Log(command.stdout, self._logs / f"{name}.log")
            self.await_health(name, service, is_cancelled=is_cancelled)

    def _copy_files(self, name: str, service: ProcessService, task_files: Path | None) -> None:
        for target, source in service.files.items():
            found = read_source(source, task_files)
            if isinstance(found, bytes):
                self.write_file(target, found, service=name, mode=source.mode)
            elif found.is_dir():
                self.put_folder(found, target, service=name)
            else:
                self.write_file(target, found.read_bytes(), service=name, mode=source.mode)

    def _spawn(
        self,
        command: Sequence[str],
        name: str,
        *,
        environment: Mapping[str, str],
        resources: Resources,
        folder: Path | None = None,
        takes_input: bool = False,
        merge_output: bool = False,
    ) -> GuardedCommand:
        with self._lock:
            if self._is_closed:
                raise SandboxError("the environment is closed")
            # Known before `close` looks for it: the lock is held until it is in the list.
            started = GuardedCommand(
                command,
                folder=folder or self._folder / name,
                environment=self._environment(name) | dict(environment) | {TOKEN_VARIABLE: self._trace.token},
                resources=resources,
                takes_input=takes_input,
                merge_output=merge_output,
            )
            self._commands = [each for each in self._commands if each.is_running] + [started]
            return started

    def _environment(self, name: str) -> dict[str, str]:
        home = self._folder / name
        variables = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        # `python` is that of the worker, with the packages that it has.
        variables["PATH"] = os.pathsep.join([str(_child.PYTHON.parent), variables.get("PATH", os.defpath)])
        variables |= {"HOME": str(home), "TMPDIR": str(home / "tmp"), "USER": "sandbox"}
        for service, address in self.services.items():
            prefix = re.sub(r"\W", "_", service.upper())
            variables |= {f"{prefix}_HOST": address.host, f"{prefix}_PORT": str(address.port)}
        if name in self.services:
            variables["PORT"] = str(self.services[name].port)
        return variables

    @property
    def started(self) -> Collection[str]:
        """Return the names of the services that have been started."""
        return list(self._processes)

    def connect(self, service: str, *, timeout_seconds: float) -> socket.socket:
        """Return a connection to the port of a service."""
        address = self.services[service]
        return socket.create_connection((address.host, address.port), timeout_seconds)

    def check_service(self, service: str) -> None:
        """Raise `SandboxError` if a service has died."""
        process = self._processes[service]
        if self._is_closed:
            raise SandboxError("the environment is closed")
        # One that put itself into the background has ended well, and runs.
        if process.wait(0) and (process.exit_code != 0 or not process.is_running):
            shown = tail(self._logs / f"{service}.log", 2000).decode(errors="replace").strip()
            raise SandboxError(f"service {service} ended with exit code {process.exit_code}: {shown}")

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
        """Run a command in the folder of a service; everything that it started ends with the time limit."""
        name = self._find_folder(service)
        declared = self.spec.services.get(name)
        started = self._spawn(
            as_arguments(command),
            name,
            environment=(declared.environment if declared else {}) | dict(environment or {}),
            resources=declared.resources if declared else Resources(),
            folder=None if folder is None else self._locate(folder, name),
            takes_input=stdin is not None,
        )
        assert started.stdout is not None
        assert started.stderr is not None
        outputs = [Collector(stream, output_limit_bytes) for stream in (started.stdout, started.stderr)]
        if stdin is not None and started.stdin is not None:
            threading.Thread(target=_feed, args=(started.stdin, stdin), daemon=True).start()
        has_ended = started.wait(timeout_seconds)
        if not has_ended:
            started.kill()
        elif started.exit_code is None:
            raise SandboxError("the command was ended because the environment was closed")
        stdout, stderr = (output.content(_OUTPUT_GRACE_SECONDS) for output in outputs)
        exit_code = started.exit_code if has_ended else None
        return CommandResult(exit_code, stdout, stderr, any(output.is_truncated for output in outputs))

    def _find_folder(self, service: str | None) -> str:
        return _WORK if service is None and not self.spec.services else self.find_service(service)

    def _locate(self, path: str, name: str) -> Path:
        """Return where a path inside the sandbox is; it must not leave the folder of its service."""
        home = self._folder / name
        place = home / PurePosixPath(path)
        if "\0" in path or ".." in PurePosixPath(path).parts or not place.is_relative_to(home):
            raise SandboxError(f"{path!r:.200}: only paths below the folder of service {name} can be used")
        if not place.parent.resolve().is_relative_to(home.resolve()):
            raise SandboxError(f"{path!r:.200}: a link leads out of the folder of service {name}")
        return place

    def write_file(self, path: str, data: bytes, *, service: str | None = None, mode: int = 0o644) -> None:
        """Write a file below the folder of a service."""
        place = self._locate(path, self._find_folder(service))
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(data)
        except OSError as error:
            raise SandboxError(f"{path!r:.200} could not be written: {error.strerror}") from error

    def read_file(self, path: str, *, service: str | None = None, limit_bytes: int = FILE_LIMIT_BYTES) -> bytes:
        """Return a file's content; `FileNotFoundError` if there is none, `SandboxError` if it is too large."""
        place = self._locate(path, self._find_folder(service))
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise FileNotFoundError(path) from error
            raise SandboxError(f"{path!r:.200} could not be read: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SandboxError(f"{path!r:.200} is not a file")
            content = file.read(limit_bytes + 1)
        if len(content) > limit_bytes:
            raise SandboxError(f"{path!r:.200} has more than {limit_bytes} bytes")
        return content

    def put_folder(self, source: Path, target: str, *, service: str | None = None) -> None:
        """Copy a folder's content into a folder inside, which is created."""
        place = self._locate(target, self._find_folder(service))
        if place.is_symlink():
            raise SandboxError(f"{target!r:.200} is a link")
        try:
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise SandboxError(f"{target!r:.200} could not be written: {error}") from error

    def logs(self) -> Mapping[str, bytes]:
        """Return the end of each service's log; also after the sandbox is closed."""
        return {name: tail(self._logs / f"{name}.log") for name in self._processes}

    def close(self) -> None:
        """End every process and remove the folders; the logs stay in the rollout's folder."""
        with self._closing:
            with self._lock:
                self._is_closed = True
            for command in self._commands:
                command.kill()
            self._trace.remove()
            for address in self.services.values():
                release_port(address.port)


class _Log(threading.Thread):
    """Writes the output of a service to a file, and drops the oldest half of what is too much."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        super().__init__(daemon=True, name="sandbox-log")
        self._stream = stream
        self._path = path
        self.start()

    def run(self) -> None:
        """Copy until the end."""
        with suppress(OSError, ValueError), self._stream:
            while chunk := os.read(self._stream.fileno(), _CHUNK_BYTES):
                with self._path.open("ab") as file:
                    file.write(chunk)
                    size = file.tell()
                if size > LOG_LIMIT_BYTES:
                    self._path.write_bytes(tail(self._path, LOG_LIMIT_BYTES // 2))


def _feed(stream: IO[bytes], data: bytes) -> None:
    with suppress(OSError, ValueError), stream:
        stream.write(data)
