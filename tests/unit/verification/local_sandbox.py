"""A sandbox that is a folder of this machine: commands run as they are, files lie at their own absolute paths."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openmanus_rl.sandboxes.base import CommandResult, SandboxError


class LocalSandbox:
    """What validators use of a sandbox, on the real file system below a folder."""

    kind = "local"
    url = None
    services: Mapping[str, Any] = {}
    episode = None

    def __init__(self, folder: Path, *, database_url: str | None = None) -> None:
        self.folder = folder
        self._database_url = database_url

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
        """Run a command, with all that it starts in one group, which ends with it."""
        del service
        arguments = ["sh", "-c", command] if isinstance(command, str) else list(command)
        process = subprocess.Popen(
            arguments,
            cwd=folder or self.folder,
            env={"PATH": os.environ["PATH"], **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(stdin, timeout=timeout_seconds)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code = None
        return CommandResult(code, out[:output_limit_bytes], err[:output_limit_bytes])

    def read_file(self, path: str, *, service: str | None = None, limit_bytes: int = 1024) -> bytes:
        """Return a file's content."""
        del service
        data = Path(path).read_bytes()
        if len(data) > limit_bytes:
            raise SandboxError(f"{path} has more than {limit_bytes} bytes")
        return data

    def put_folder(self, source: Path, target: str, *, service: str | None = None) -> None:
        """Copy a folder's content; like most ways into a container, without its permissions."""
        del service
        shutil.copytree(source, target, dirs_exist_ok=True, copy_function=shutil.copyfile)

    def database_url(self, service: str | None = None) -> str:
        """Return the URL of the database."""
        if self._database_url is None:
            raise SandboxError(f"service {service!r} has no database")
        return self._database_url
