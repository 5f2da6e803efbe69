"""Whether an address is this machine's own."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

__all__ = ["is_loopback"]


def is_loopback(url: str) -> bool:
    """Whether the URL names this machine, where no proxy belongs in between."""
    host = ""
    try:
        host = urlsplit(url).hostname or ""
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
