"""What has to be known on another machine to reach the Supabase from there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openmanus_rl.errors import InvalidInput, SettingsError
from openmanus_rl.local.embedded import ensure_stack
from openmanus_rl.settings import Settings, read_variables
from openmanus_rl.transport.loopback import is_loopback

__all__ = ["find_secrets"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def find_secrets(
    settings: Settings, *, names: Sequence[str], allow_loopback: bool = False, who: str = "workers"
) -> tuple[str, dict[str, str]]:
    """Return the URL of the Supabase and the secrets to reach it, with those of the given variables."""
    if not allow_loopback and (settings.has_local_stack or is_loopback(settings.require_url())):
        raise SettingsError(
            f"{who} on other machines cannot reach this Supabase: it listens on this machine only",
            setting="SUPABASE_URL",
            hint="use a hosted project (docs/deploying.md), or --allow-loopback if the workers run on this machine",
        )
    url, secrets = _read_keys(settings)
    variables = read_variables()
    for name in names:
        if not _VARIABLE.fullmatch(name) or name not in variables:
            raise InvalidInput(
                f"{name}: there is no such variable", field="secret", hint="set it here or in .env.supabase first"
            )
        secrets[name] = variables[name]
    return url, secrets


def _read_keys(settings: Settings) -> tuple[str, dict[str, str]]:
    if settings.has_local_stack:
        stack = ensure_stack(settings)
        return stack.url, {
            "SUPABASE_SERVICE_ROLE_KEY": stack.secret_key,
            "SUPABASE_ANON_KEY": stack.publishable_key,
        }
    keys = {"SUPABASE_KEY" if settings.member_key else "SUPABASE_SERVICE_ROLE_KEY": settings.require_key()}
    if settings.anon_key is not None:
        keys["SUPABASE_ANON_KEY"] = settings.anon_key.get_secret_value()
    return settings.require_url(), keys
