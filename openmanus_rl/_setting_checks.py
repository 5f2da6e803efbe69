"""Checks of single settings: each either returns what was given, cleaned, or raises a `SettingsError`."""

from __future__ import annotations

import base64
import binascii
import enum
import ipaddress
import json
import math
import re
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from openmanus_rl.errors import SettingsError

_PLACEHOLDER = re.compile(
    r"""(?:^|[/.\[])your[-_ ]  # your-project-ref
      | <[^>]*>                # <project-ref>
      | \.\.\.|…              # sb_secret_...
      | ^(?:change[-_ ]?me|placeholder|x{3,})$
      | example\.supabase\.co
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Narrower: a password may hold anything, and "your-super-secret-…" is what self-hosted Supabase really starts with.
_DATABASE_PLACEHOLDER = re.compile(
    r"\[your[-_ ]password\]|<password>|your[-_]database[-_]password|db\.your[-_]project", re.IGNORECASE
)
_MEMBER_KEY = re.compile(r"omrl_[A-Za-z0-9_-]{43}")
_OWN_KEY = "use a key of yours (omrl_…), made on the page Keys of the dashboard or with `openmanus-rl keys create`"
_HOSTED_DOMAIN = ".supabase.co"
_DASHBOARD_PROJECT = re.compile(r"/project/([a-z0-9]+)")


class KeyKind(enum.Enum):
    """What an API key is, as far as its text tells."""

    PUBLISHABLE = "publishable key (sb_publishable_…)"
    SECRET = "secret key (sb_secret_…)"
    ANON_JWT = "anon key"
    SERVICE_ROLE_JWT = "service_role key"
    OTHER_JWT = "token of another role"
    MEMBER = "key of a member (omrl_…)"
    UNKNOWN = "unknown"

    @property
    def privileged(self) -> bool:
        """Whether the key bypasses row level security."""
        return self in (KeyKind.SECRET, KeyKind.SERVICE_ROLE_JWT)


def key_kind(key: str) -> KeyKind:
    """Say what kind of key this is; a JWT's role is read without verifying it."""
    if key.startswith("sb_publishable_"):
        return KeyKind.PUBLISHABLE
    if key.startswith("sb_secret_"):
        return KeyKind.SECRET
    if key.startswith("omrl_"):
        return KeyKind.MEMBER
    claims = _jwt_claims(key)
    if claims is None:
        return KeyKind.UNKNOWN
    return {"anon": KeyKind.ANON_JWT, "service_role": KeyKind.SERVICE_ROLE_JWT}.get(
        str(claims.get("role")), KeyKind.OTHER_JWT
    )


def _jwt_claims(token: str) -> dict[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    return claims if isinstance(claims, dict) else None


def check_key(setting: str, key: str, *, privileged: bool, project_ref: str | None) -> None:
    """Refuse a key of the wrong kind, of another project, expired, or still a placeholder."""
    wanted = "sb_secret_… or the service_role key" if privileged else "sb_publishable_… or the anon key"
    where = f"use {wanted} from Project Settings > API Keys"
    refuse_placeholder(setting, key, hint=where)
    if not key.isascii() or any(character.isspace() for character in key):
        raise SettingsError(f"{setting} holds spaces or characters that no key has", setting=setting, hint=where)
    kind = key_kind(key)
    if kind in (KeyKind.UNKNOWN, KeyKind.OTHER_JWT):
        what = "not an API key" if kind is KeyKind.UNKNOWN else "a token of neither anon nor service_role"
        raise SettingsError(f"{setting} is {what}", setting=setting, hint=where)
    if kind is KeyKind.MEMBER:
        raise SettingsError(
            f"{setting} holds the {kind.value}", setting=setting, hint=f"put it into SUPABASE_KEY, or {where}"
        )
    if kind.privileged != privileged:
        danger = "" if privileged else ", which must stay secret"
        raise SettingsError(f"{setting} holds the {kind.value}{danger}", setting=setting, hint=where)
    claims = _jwt_claims(key) or {}
    expires_at = claims.get("exp")
    if isinstance(expires_at, (int, float)) and expires_at < time.time():
        raise SettingsError(f"{setting} has expired", setting=setting, hint=where)
    key_ref = claims.get("ref")
    if project_ref and isinstance(key_ref, str) and key_ref != project_ref:
        raise SettingsError(
            f"{setting} belongs to project {key_ref}, but SUPABASE_PROJECT_REF says {project_ref}",
            setting=setting,
            hint=where,
        )


def check_own_key(setting: str, key: str, *, project_ref: str | None) -> None:
    """Refuse what is neither a member's key nor the secret key."""
    kind = key_kind(key)
    if kind is not KeyKind.MEMBER:
        if kind in (KeyKind.PUBLISHABLE, KeyKind.ANON_JWT):
            raise SettingsError(
                f"{setting} holds the {kind.value}, which reads public runs and nothing else",
                setting=setting,
                hint=f"{_OWN_KEY}; the publishable key belongs into SUPABASE_ANON_KEY",
            )
        check_key(setting, key, privileged=True, project_ref=project_ref)
    elif not _MEMBER_KEY.fullmatch(key):
        raise SettingsError(f"{setting} is not a whole key of a member", setting=setting, hint=_OWN_KEY)


def refuse_placeholder(setting: str, value: str, *, hint: str) -> None:
    """Refuse a URL, reference or key that was left as it stands in the example file."""
    if _PLACEHOLDER.search(value):
        raise SettingsError(f"{setting} still holds a placeholder", setting=setting, hint=hint)


def refuse_database_placeholder(setting: str, value: str, *, hint: str) -> None:
    """Refuse a part of the database's address that was left as it stands in the example file or the dashboard."""
    if _DATABASE_PLACEHOLDER.search(value):
        raise SettingsError(f"{setting} still holds a placeholder", setting=setting, hint=hint)


def check_url(url: str, *, project_ref: str | None) -> str:
    """Return the API's base URL without a trailing slash, or say what is wrong with it."""
    setting, form = "SUPABASE_URL", "it looks like https://<ref>.supabase.co or http://127.0.0.1:54321"
    refuse_placeholder(setting, url, hint=form)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"{setting} {url!r} is not a URL: {error}", setting=setting, hint=form) from error
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not _plausible_host(host):
        raise SettingsError(f"{setting} {url!r} is not an http(s) URL", setting=setting, hint=form)
    if parts.username is not None or parts.password is not None:
        raise SettingsError(f"{setting} holds a user or password", setting=setting, hint=f"remove it; {form}")
    if match := _DASHBOARD_PROJECT.search(parts.path):
        raise SettingsError(
            f"{setting} is the address of the dashboard, not of the API",
            setting=setting,
            hint=f"use https://{match[1]}{_HOSTED_DOMAIN}",
        )
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise SettingsError(
            f"{setting} {url!r} holds a path or query",
            setting=setting,
            hint=f"use {parts.scheme}://{parts.netloc}",
        )
    if project_ref and host.endswith(_HOSTED_DOMAIN) and host != project_ref + _HOSTED_DOMAIN:
        raise SettingsError(
            f"{setting} is of project {host.removesuffix(_HOSTED_DOMAIN)}, but SUPABASE_PROJECT_REF says {project_ref}",
            setting=setting,
            hint="make them agree, or give only one of them",
        )
    bracketed = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{bracketed}" + (f":{port}" if port is not None else "")


def hosted_project_ref(url: str) -> str | None:
    """Return the project reference in a hosted project's URL."""
    host = urlsplit(url).hostname or ""
    return host.removesuffix(_HOSTED_DOMAIN) if host.endswith(_HOSTED_DOMAIN) else None


def _plausible_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return bool(re.fullmatch(r"(?!-)[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", host))
    return True


def check_database_url(url: str) -> None:
    """Refuse a database URL that can't be one, without ever showing its password."""
    setting = "DATABASE_URL"
    form = "it looks like postgresql://user:password@host:5432/postgres, with special characters of the password as %XX"
    refuse_database_placeholder(setting, url, hint="fill in the database password, which the dashboard leaves out")
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname or "host=" in parts.query) and parts.port != 0
        plausible = parts.scheme in ("postgres", "postgresql") and has_host
    except ValueError:
        plausible = False
    if not plausible:
        # Not chained: the reason quotes the URL's tail, which may hold the password.
        raise SettingsError(f"{setting} is not a Postgres URL", setting=setting, hint=form) from None


def database_address(url: str) -> str:
    """Return which database a URL leads to, whoever connects: `postgresql://host:port/name`."""
    parts = urlsplit(url)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = (given.get("host") or given.get("hostaddr") or parts.hostname or "").lower()
    if host == "localhost" or host == "::1" or host.startswith("127."):
        host = "127.0.0.1"
    port = given.get("port") or parts.port or 5432
    name = given.get("dbname") or unquote(parts.path.lstrip("/")) or unquote(parts.username or "postgres")
    return f"postgresql://{f'[{host}]' if ':' in host else quote(host, safe=',')}:{port}/{quote(name, safe='')}"


def parse_flag(setting: str, text: str | None, *, default: bool) -> bool:
    """Read a yes or no."""
    if text is None:
        return default
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise SettingsError(f"{setting} {text!r} is neither yes nor no", setting=setting, hint="use 1 or 0")


def parse_choice(setting: str, text: str | None, choices: Sequence[str]) -> str:
    """Read one of some words, the first if none is given."""
    if text is None:
        return choices[0]
    if text not in choices:
        named = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise SettingsError(f"{setting} {text!r} is not a mode", setting=setting, hint=f"use {named}")
    return text


def parse_steps(name: str, value: str | None) -> tuple[int, ...]:
    """Read steps, such as "120,80"; an error names the setting."""
    try:
        return tuple(int(step) for step in value.split(",")) if value else ()
    except ValueError as error:
        raise SettingsError(
            f"{name} {value!r} is not a list of steps", setting=name, hint="unset it; a run sets it for its workers"
        ) from error


_LARGEST_COUNT = 10_000


def check_object(setting: str, text: str | None) -> str | None:
    """Return the text of a JSON object as it is."""
    try:
        if text is None or isinstance(json.loads(text), dict):
            return text
    except (ValueError, RecursionError):
        pass
    raise SettingsError(f"{setting} is not a JSON object", setting=setting, hint='use e.g. {"infra": "slurm"}')


def parse_count(setting: str, text: str | None, *, default: int) -> int:
    """Read a positive whole number."""
    if text is None:
        return default
    if not text.strip().isdecimal() or not 1 <= int(text) <= _LARGEST_COUNT:
        raise SettingsError(
            f"{setting} {text!r:.50} is not a whole number from 1 to {_LARGEST_COUNT}",
            setting=setting,
            hint="use e.g. 4",
        )
    return int(text)


def parse_seconds(setting: str, text: str | None, *, default: float, zero_allowed: bool = False) -> float:
    """Read a duration in seconds."""
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero_allowed):
        raise SettingsError(f"{setting} {text!r} is not a number of seconds", setting=setting, hint="use e.g. 30")
    return seconds
