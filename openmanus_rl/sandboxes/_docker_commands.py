"""Commands in containers, which end at their time limit together with everything that they started."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from openmanus_rl.sandboxes._commands import as_arguments
from openmanus_rl.sandboxes._docker_network import can_enter_namespaces
from openmanus_rl.sandboxes._extras import require
from openmanus_rl.sandboxes._marked import end_marked
from openmanus_rl.sandboxes.base import CommandResult, SandboxError

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

__all__ = ["run_in"]

RUN_VARIABLE = "OPENMANUS_RL_RUN"
_STDOUT, _STDERR = 1, 2
_FIRST_POLL_SECONDS = 0.02
_POLL_SECONDS = 0.25
_GRACE_SECONDS = 0.2
# The engine can't end what it started with exec. In the container, /proc tells which processes carry the mark. One look
# that finds none is not enough: all that it listed may have ended by themselves, after they started others.
_END_SCRIPT = """
looks=0
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
  looks=$((looks + 1))
  for folder in /proc/[0-9]*; do
    if grep -qz "^$MARK$" "$folder/environ" 2>/dev/null; then kill -9 "${folder#/proc/}"; looks=0; fi
  done
  [ "$looks" -lt 3 ] || exit 0
  [ "$looks" = 0 ] || sleep 0.05 2>/dev/null || sleep 1
done
exit 1
"""


def run_in(
    client: docker.DockerClient,
    container: Container,
    command: str | Sequence[str],
    *,
    timeout_seconds: float,
    environment: Mapping[str, str],
    folder: str | None,
    user: str | None,
    stdin: bytes | None,
    output_limit_bytes: int,
) -> CommandResult:
    """Run a command in a container; raise `SandboxError` if it could not be ended."""
    mark = secrets.token_hex(16)
    deadline = time.monotonic() + timeout_seconds
    exec_id = client.api.exec_create(
        container.id,
        as_arguments(command),
        stdin=stdin is not None,
        environment=dict(environment) | {RUN_VARIABLE: mark},
        workdir=folder,
        user=user or "",
    )["Id"]
    output = _Output(client.api.exec_start(exec_id, socket=True), output_limit_bytes)
    if stdin is not None:
        threading.Thread(target=output.send, args=(stdin,), daemon=True).start()
    try:
        if not _wait(client, exec_id, output, deadline):
            _end(client, container, mark, user)
            output.join(_GRACE_SECONDS)
            return output.result(None)
        output.join(_GRACE_SECONDS)
        return output.result(client.api.exec_inspect(exec_id)["ExitCode"])
    finally:
        output.close()


def _wait(client: docker.DockerClient, exec_id: str, output: _Output, deadline: float) -> bool:
    """Wait until the command has ended; not until its output has, which it may have left to another process."""
    pause = _FIRST_POLL_SECONDS
    while time.monotonic() < deadline:
        output.join(max(0.0, min(pause, deadline - time.monotonic())))
        if not client.api.exec_inspect(exec_id)["Running"]:
            return True
        if not output.is_alive():
            time.sleep(pause)  # It closed its output, and works on.
        pause = min(pause * 1.5, _POLL_SECONDS)
    return False


def _end(client: docker.DockerClient, container: Container, mark: str, user: str | None) -> None:
    if can_enter_namespaces():
        end_marked(RUN_VARIABLE, mark)
        return
    if not _end_from_inside(client, container, f"{RUN_VARIABLE}={mark}", user):
        container.kill()
        raise SandboxError("a command did not end at its time limit, so its container was stopped")


def _end_from_inside(client: docker.DockerClient, container: Container, mark: str, user: str | None) -> bool:
    """Return whether all processes with the mark were ended; a fork bomb may leave no room for the script."""
    errors = require("docker.errors", extra="docker")
    script = ["sh", "-c", _END_SCRIPT]
    try:
        exec_id = client.api.exec_create(container.id, script, environment={"MARK": mark}, user=user or "")["Id"]
        client.api.exec_start(exec_id)
        return bool(client.api.exec_inspect(exec_id)["ExitCode"] == 0)
    except errors.APIError:
        return False


class _Output(threading.Thread):
    """Reads both outputs of a command, and keeps the beginning of each."""

    def __init__(self, stream: Any, limit_bytes: int) -> None:
        super().__init__(daemon=True, name="sandbox-output")
        self._stream = stream
        self._socket: socket.socket = getattr(stream, "_sock", stream)
        self._limit_bytes = limit_bytes
        self._kept = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self._is_truncated = False
        self.start()

    def run(self) -> None:
        """Read until the end."""
        frames_iter = require("docker.utils.socket", extra="docker").frames_iter
        with suppress(OSError, ValueError):
            for number, data in frames_iter(self._stream, tty=False):
                kept = self._kept[number]
                room = self._limit_bytes - len(kept)
                kept += data[:room]
                self._is_truncated |= len(data) > room

    def send(self, data: bytes) -> None:
        """Write the input, and end it."""
        with suppress(OSError):
            self._socket.sendall(data)
            self._socket.shutdown(socket.SHUT_WR)

    def result(self, exit_code: int | None) -> CommandResult:
        """Return what came so far."""
        return CommandResult(exit_code, bytes(self._kept[_STDOUT]), bytes(self._kept[_STDERR]), self._is_truncated)

    def close(self) -> None:
        """Stop reading."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.join(_GRACE_SECONDS)
        with suppress(OSError, ValueError):
            # The response holds the connection.
            getattr(self._stream, "_response", self._stream).close()
