"""Find the embedded stack, or start one that outlives this process."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from openmanus_rl.errors import StackError
from openmanus_rl.settings import Settings, load_settings

__all__ = ["EmbeddedStack", "ensure_stack", "find_stack"]

_HEALTH_TIMEOUT_SECONDS = 5.0
# A gateway that is just being restarted answers again within moments.
_RESTART_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.1

# Loopback must not go through a proxy that the environment names for the outside.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class EmbeddedStack:
    """How to reach the running embedded stack."""

    url: str
    publishable_key: str
    secret_key: str
    database_url: str

    def __repr__(self) -> str:
        return f"EmbeddedStack(url={self.url!r})"  # A traceback must not carry secrets.


def ensure_stack(settings: Settings | None = None) -> EmbeddedStack:
    """Return the running embedded stack, starting it in the background when there is none."""
    settings = settings or load_settings()
    stack = find_stack(settings.home)
    if stack is not None:
        return stack
    if not settings.autostart:
        raise StackError(
            f"no embedded stack runs in {settings.home} and OPENMANUS_RL_AUTOSTART=0 forbids starting one",
            hint="run `openmanus-rl up`, unset OPENMANUS_RL_AUTOSTART, or set SUPABASE_URL and its keys",
        )
    started = _start(settings.home)
    stack = find_stack(settings.home)
    if stack is None:
        raise StackError(
            f"the embedded stack in {settings.home} ended right after its start; see `logs` in that folder"
        )
    if started:
        print(f"openmanus-rl: started the embedded stack at {stack.url}; data in {settings.home}", file=sys.stderr)
    return stack


def find_stack(home: Path) -> EmbeddedStack | None:
    """Return the stack that runs in a home and answers; None when there is none."""
    deadline = time.monotonic() + _RESTART_PATIENCE_SECONDS
    while True:
        content = _read(home / "stack.json")
        if content is None or not _is_supervised(home):
            return None
        stack = EmbeddedStack(
            url=content["url"],
            publishable_key=content["publishable_key"],
            secret_key=content["secret_key"],
            database_url=content["database_url"],
        )
        if _answers(stack.url):
            return stack
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)


def _start(home: Path) -> bool:
    """Run `openmanus-rl up --detach`; True if that started a stack, False if another process was quicker."""
    done = subprocess.run(
        [sys.executable, "-m", "openmanus_rl", "up", "--detach", "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | {"OPENMANUS_RL_HOME": str(home)},
        # A Ctrl-C meant for this process must not reach the stack that others may come to use.
        start_new_session=True,
    )
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise StackError(f"the embedded stack did not start: {_last_line(done.stderr)}") from error
    if done.returncode != 0:
        raise StackError(f"the embedded stack did not start: {answer['error']['message']}")
    for note in answer["notes"]:
        print(f"openmanus-rl: {note}", file=sys.stderr)
    return bool(answer["started"])


def _read(path: Path) -> dict[str, str] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (PermissionError, NotADirectoryError) as error:
        raise StackError(
            f"{path} cannot be read: {error.strerror}", hint="set OPENMANUS_RL_HOME to your own folder"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    needed = ("url", "publishable_key", "secret_key", "database_url")
    return content if isinstance(content, dict) and all(name in content for name in needed) else None


def _is_supervised(home: Path) -> bool:
    """Say whether a live process holds the home's lock; unlike a process number, a lock can't be left behind."""
    try:
        descriptor = os.open(home / "stack.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _answers(url: str) -> bool:
    try:
        with _opener.open(f"{url}/functions/v1/health", timeout=_HEALTH_TIMEOUT_SECONDS) as response:
            return bool(json.load(response).get("status") == "ok")
    except (OSError, ValueError):
        return False


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason was given"
