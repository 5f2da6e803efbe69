"""Health checks: one request to the gateway, which queries Postgres."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlsplit

# Ignore the proxies of the environment: they must not be used for loopback addresses.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_through_proxies = urllib.request.build_opener()


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of the health function, or the reason why there is none."""

    ok: bool
    detail: str


def check_health(url: str, *, timeout_seconds: float = 5.0) -> Health:
    """Call the health function of a Supabase URL."""
    address = f"{url.rstrip('/')}/functions/v1/health"
    opener = _direct if urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1") else _through_proxies
    try:
        with opener.open(address, timeout=timeout_seconds) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return Health(ok=False, detail=_describe_error(error.code, error.read()))
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return Health(ok=False, detail=f"no answer from {address}: {reason}")
    status = answer.get("status") if isinstance(answer, dict) else None
    return Health(ok=status == "ok", detail=str(status or "unexpected answer"))


def _describe_error(status: int, body: bytes) -> str:
    try:
        database = json.loads(body)["database"]
    except (ValueError, KeyError, TypeError):
        return f"the gateway answers with status {status}"
    return f"the gateway answers, the database is {database}"
