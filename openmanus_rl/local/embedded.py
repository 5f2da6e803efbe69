"""Find the stack of this machine, embedded or on an external database, or start it in the background."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openmanus_rl
from openmanus_rl.errors import StackError
from openmanus_rl.local.external.database import database_of
from openmanus_rl.local.home import Home
from openmanus_rl.local.progress import SilentProgress
from openmanus_rl.settings import Settings, load_settings

__all__ = ["EmbeddedStack", "ensure_stack", "find_stack", "has_database", "is_supervised"]

_HEALTH_TIMEOUT_SECONDS = 5.0
# How long to wait for a gateway that is being restarted.
_RESTART_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.1

# Ignore the proxies of the environment: they must not be used for loopback addresses.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class EmbeddedStack:
    """How to reach the running stack of this machine."""

    url: str
    publishable_key: str
    secret_key: str
    database_url: str
    """Connects as the recorder's role, which can only read and write records; if external, as the settings say."""
    home: Path
    version: str

    def is_current(self) -> bool:
        """Return whether this stack still runs; after it ended, another program may listen on its ports."""
        return is_supervised(self.home) and _stack_in(self.home) == self

    def __repr__(self) -> str:
        return f"EmbeddedStack(url={self.url!r})"  # A traceback must not carry secrets.


def ensure_stack(settings: Settings | None = None) -> EmbeddedStack:
    """Return the running stack of this machine; start it in the background if none runs."""
    settings = settings or load_settings()
    home, what = settings.stack_home, _name(settings)
    stack = find_stack(home)
    if stack is not None:
        _warn_about_version(stack)
        return stack
    if not settings.autostart:
        raise StackError(
            f"{what.replace('the', 'no', 1)} runs in {home}, and OPENMANUS_RL_AUTOSTART=0 forbids starting one",
            hint="run `openmanus-rl up`, unset OPENMANUS_RL_AUTOSTART, or set SUPABASE_URL and its keys",
        )
    started = _start(settings)
    stack = find_stack(home)
    if stack is None:
        raise StackError(f"{what} in {home} stopped right after it started; see the folder `logs` in it")
    if started:
        print(f"openmanus-rl: started {what} at {stack.url}; data in {home}", file=sys.stderr)
    return stack


def _name(settings: Settings) -> str:
    return f"the gateway of {settings.database_address}" if settings.is_external else "the embedded stack"


def find_stack(home: Path) -> EmbeddedStack | None:
    """Return the stack that runs in a home and responds; None if there is none."""
    deadline = time.monotonic() + _RESTART_PATIENCE_SECONDS
    while True:
        stack = _stack_in(home)
        if stack is None or not is_supervised(home):
            return None
        if _answers(stack.url):
            return stack
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)


def is_own_stack(home: Path, url: str, secret_key: str) -> bool:
    """Return whether a URL and a secret key belong to a stack of this home, running or not."""
    for folder in (home, *sorted(home.glob("databases/*"))):
        keys, state = _read_object(folder / "keys.json"), _read_object(folder / "state.json")
        if keys.get("secret_key") == secret_key and urlsplit(url).port == state.get("gateway_port", 0):
            return True
    return False


def _stack_in(home: Path) -> EmbeddedStack | None:
    content = _read(home / "stack.json")
    if content is None:
        return None
    return EmbeddedStack(
        url=content["url"],
        publishable_key=content["publishable_key"],
        secret_key=content["secret_key"],
        database_url=content.get("recorder_url", content["database_url"]),
        home=home,
        version=content.get("version", openmanus_rl.__version__),
    )


_told: set[str] = set()


def _warn_about_version(stack: EmbeddedStack) -> None:
    """Print once that the versions of the stack and this program differ, which may make calls fail."""
    ours = openmanus_rl.__version__
    if stack.version == ours or stack.version in _told:
        return
    _told.add(stack.version)
    if _ordered(stack.version) < _ordered(ours):
        way_out = f"restart the stack with `openmanus-rl down` and `openmanus-rl up` to bring it to {ours}"
    else:
        way_out = "upgrade this program with `pip install --upgrade openmanus-rl`"
    print(
        f"openmanus-rl: the stack at {stack.url} runs version {stack.version} and this program is {ours}; {way_out}",
        file=sys.stderr,
    )


def _ordered(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


class _Notes(SilentProgress):
    """Prints the notes of a start, but not its phases."""

    def note(self, text: str) -> None:
        print(f"openmanus-rl: {text}", file=sys.stderr)


def _start(settings: Settings) -> bool:
    """Start a stack in the background; return False if another process started one first."""
    # Imported here because it is slow, and needed only if a stack must be started.
    from openmanus_rl.local.launch import start_detached

    try:
        database = database_of(settings)
        return start_detached(Home(settings.stack_home), port=None, progress=_Notes(), database=database)[1]
    except StackError as error:
        raise StackError(f"{_name(settings)} did not start: {error.message}") from error


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


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def has_database(home: Path) -> bool:
    """Return whether a home holds a database, running or not."""
    return (home / "postgres").exists()


def is_supervised(home: Path) -> bool:
    """Return whether a live process holds the home's lock; unlike a pid file, a lock cannot become stale."""
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
