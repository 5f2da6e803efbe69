"""Libraries that only some environments need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from openmanus_rl.sandboxes.base import SandboxError

__all__ = ["require"]


def require(module: str, *, extra: str) -> Any:
    """Import a library; if it is missing, the error names the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or module).partition(".")[0]
        raise SandboxError(f'{library} is not installed; run: pip install "openmanus-rl[{extra}]"') from error
