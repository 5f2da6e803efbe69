"""The backends by name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence

from openmanus_rl.errors import InvalidInput
from openmanus_rl.jobs.backends.base import Backend
from openmanus_rl.jobs.backends.local import LocalBackend
from openmanus_rl.settings import Settings

__all__ = ["KINDS", "make_backends"]

KINDS = ("local", "skypilot")


def make_backends(settings: Settings, kinds: Sequence[str] | None = None) -> dict[str, Backend]:
    """Return the backends of these kinds, by default all that can be used here."""
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise InvalidInput(f"{unknown[0]!r} is no backend; there are {', '.join(KINDS)}", field="backends")
    backends: dict[str, Backend] = {}
    for kind in kinds or KINDS:
        if kind == "local":
            backends[kind] = LocalBackend(settings)
        elif _has_skypilot():
            module = importlib.import_module("openmanus_rl.jobs.backends.skypilot")
            backends[kind] = module.SkyPilotBackend(settings)
        elif kinds is not None:
            raise InvalidInput(
                "skypilot is not installed", field="backends", hint='run: pip install "openmanus-rl[skypilot]"'
            )
    return backends


def _has_skypilot() -> bool:
    # Not imported: that takes seconds.
    return all(importlib.util.find_spec(name) for name in ("sky", "openmanus_rl.jobs.backends.skypilot"))
