"""Where the spools of a destination are."""

from __future__ import annotations

import hashlib
from pathlib import Path

from openmanus_rl.settings import Settings

__all__ = ["address_of", "spool_root"]


def address_of(settings: Settings) -> str:
    """Return a permanent name of the destination; of a stack of this machine not its URL, whose port may change."""
    if settings.is_external and settings.database_address is not None:
        return settings.database_address
    return f"embedded:{settings.home}" if settings.is_embedded else settings.require_url()


def spool_root(settings: Settings) -> Path:
    """Return the folder of the spools for this destination."""
    digest = hashlib.sha256(address_of(settings).encode()).hexdigest()[:16]
    return settings.home / "spool" / digest
