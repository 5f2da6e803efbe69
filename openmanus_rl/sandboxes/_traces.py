"""What the sandboxes of local processes leave on this machine, so that a later worker finds and removes it.

A trace is a file in the user's folder of this package. It names the owner, and a random token that every process of
the sandbox has in its environment: whatever its process id, a process with the token is of this sandbox.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openmanus_rl._private import make_private
from openmanus_rl.sandboxes._marked import end_marked
from openmanus_rl.sandboxes.base import SandboxError
from openmanus_rl.settings import load_settings

__all__ = ["TOKEN_VARIABLE", "Trace", "claim_port", "release_port", "remove_traces", "remove_tree"]

TOKEN_VARIABLE = "OPENMANUS_RL_SANDBOX"
_PORT_ATTEMPTS = 50

_ports_file: int | None = None
_own_ports: set[int] = set()


@dataclass(frozen=True)
class Trace:
    """A sandbox, and who started it."""

    rollout_id: str
    owner: str
    token: str
    folder: str

    @staticmethod
    def leave(rollout_id: str, *, owner: str, folder: Path) -> Trace:
        """Write down that a sandbox is about to start."""
        trace = Trace(rollout_id, owner, secrets.token_hex(16), str(folder))
        make_private(_root())
        draft = trace.path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(trace)))
        draft.replace(trace.path)
        return trace

    @property
    def path(self) -> Path:
        """Return the file of this trace."""
        return _root() / f"{self.rollout_id}-{self.token}.json"

    def remove(self) -> None:
        """End the processes of the sandbox, and remove its files."""
        end_marked(TOKEN_VARIABLE, self.token)
        remove_tree(Path(self.folder))
        self.path.unlink(missing_ok=True)


def remove_traces(is_left: Callable[[Trace], bool]) -> list[str]:
    """Remove the sandboxes that are left behind, and return what they were."""
    removed = []
    for trace in _traces():
        if is_left(trace):
            trace.remove()
            removed.append(f"processes of rollout {trace.rollout_id}")
    return removed


def _root() -> Path:
    return load_settings().home / "sandboxes"


def _traces() -> Iterator[Trace]:
    for path in sorted(_root().glob("*.json")):
        try:
            trace = Trace(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            continue
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)  # Not ours: ours appear whole.
            continue
        if trace.path == path:
            yield trace


def remove_tree(folder: Path) -> None:
    """Remove a folder, also one whose content was made unwritable."""

    def retry(function: Callable[..., Any], path: str, _: Any) -> None:
        with suppress(OSError):
            Path(path).parent.chmod(0o700)
            if not Path(path).is_symlink():
                Path(path).chmod(0o700)
            function(path)

    for _ in range(3):
        if not folder.exists():
            return
        shutil.rmtree(folder, onerror=retry)
    if folder.exists():
        raise SandboxError(f"{folder} can't be removed")


def claim_port() -> int:
    """Return a free port, chosen by the kernel, that no other worker on this machine gives away before it is used."""
    for _ in range(_PORT_ATTEMPTS):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in _own_ports and _lock_port(port):
            _own_ports.add(port)
            return port
    raise SandboxError("no free port was found")


def release_port(port: int) -> None:
    """Let a port be given away again."""
    if port in _own_ports and _ports_file is not None:
        fcntl.lockf(_ports_file, fcntl.LOCK_UN, 1, port)
        _own_ports.discard(port)


def _lock_port(port: int) -> bool:
    """Lock a byte of a common file; the kernel drops the lock when this process ends."""
    global _ports_file
    if _ports_file is None:
        make_private(_root())
        _ports_file = os.open(_root() / "ports.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(_ports_file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True
