"""Draws the pictures of environments that have none, each in a process of its own: an environment is anyone's code."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
from contextlib import suppress

import orjson

from openmanus_rl import _child
from openmanus_rl.managers.previews import PreviewManager

__all__ = ["draw_missing_previews"]

_KINDS = ["gymnasium", "grid"]
_DRAW_SECONDS = 60.0
_MOST_BYTES = 370_000  # The database takes data: URLs of up to 500 kB.
_MODULE = "openmanus_rl.jobs.preview_process"
# Of variables that the code of an environment has no use for.
_SECRET = re.compile("KEY|TOKEN|SECRET|PASSWORD|DATABASE_URL|^SUPABASE_|^POSTGRES_|^PG")


def draw_missing_previews() -> int:
    """Draw the pictures of some environments, and return how many were looked at."""
    if importlib.util.find_spec("openmanus_rl.environments") is None:
        return 0
    versions = PreviewManager.list_missing(_KINDS)
    for version in versions:
        picture, error = draw({**version["spec"], "kind": version["kind"]})
        PreviewManager.save(version, picture=picture, error=error)
    return len(versions)


def draw(spec: dict[str, object], *, seconds: float = _DRAW_SECONDS) -> tuple[bytes | None, str | None]:
    """Return the picture of an environment as a PNG, or why there is none."""
    process = subprocess.Popen(
        _child.command(_MODULE),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={name: value for name, value in _child.environment().items() if not _SECRET.search(name)},
    )
    try:
        picture, told = process.communicate(orjson.dumps(spec), timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"it was not drawn within {seconds:.0f} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0 or not picture:
        lines = told.decode("utf-8", "replace").strip().splitlines()
        return None, (lines[-1] if lines else f"exit code {process.returncode}")[:1000]
    return (picture, None) if len(picture) <= _MOST_BYTES else (None, f"it has {len(picture)} bytes, which is too many")
