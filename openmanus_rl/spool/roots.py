"""Where the spools of a destination are."""

from __future__ import annotations

import hashlib
from pathlib import Path

from openmanus_rl.settings import Settings

__all__ = ["address_of", "spool_root"]


def address_of(settings: Settings) -> str:
    """Return a permanent name of the destination; the URL will not do for the embedded stack, whose port may change."""
    return f"embedded:{settings.home}" if settings.is_embedded else settings.require_url()


def spool_root(settings: Settings) -> Path:
    """Return the folder of the spools for this destination."""
    digest = hashlib.sha256(address_of(settings).encode()).hexdigest()[:16]
    return settings.home / "spool" / digest
