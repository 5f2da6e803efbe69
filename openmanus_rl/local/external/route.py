"""How the gateway reaches a database: as which role, over what, and how the server proves itself.

What libpq found out for this process holds for the gateway too: the host of several that answered, whether the server
speaks TLS, which certificates to trust, and a password that a file named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from openmanus_rl.errors import OpenManusError, SettingsError
from openmanus_rl.local.external.facts import API_ROLES, Facts
from openmanus_rl.local.external.keys import DatabaseKeys
from openmanus_rl.local.gateway_process import Reach
from openmanus_rl.transport.postgres import PostgresConnection, connect
from openmanus_rl.transport.postgres_names import resolved_options, with_options
from openmanus_rl.transport.retry import RetryPolicy

_VERIFIED = ("verify-ca", "verify-full")


@dataclass(frozen=True, slots=True)
class Route:
    """A way to the database that was tried."""

    url: str
    reach: Reach
    role: str
    port: int
    note: str | None = None

    def __repr__(self) -> str:
        return f"Route(role={self.role!r})"  # A traceback must not carry secrets.


def find_route(database_url: str, connection: PostgresConnection, facts: Facts, keys: DatabaseKeys) -> Route:
    """Return how the gateway connects: as a role of its own, else as the role that DATABASE_URL names."""
    options = resolved_options(connection)
    reach = _reach(connection, options)
    try:
        _try(database_url, keys.role, keys.password, scram_only=reach.scram_only)
        return _route(connection, reach, keys.role, keys.password)
    except OpenManusError as error:
        refusal = error.message
    _require_fallback(reach, facts, options, refusal)
    route = _route(connection, reach, facts.login, options.get("password", ""))
    return Route(
        route.url,
        reach,
        facts.login,
        route.port,
        note=f'the gateway logs in as "{facts.login}", since its own role "{keys.role}" could not ({refusal})',
    )


def _reach(connection: PostgresConnection, options: dict[str, str]) -> Reach:
    host = connection.pgconn.hostaddr.decode() if not connection.info.host else connection.info.host
    if host.startswith("/"):
        # Who may make a socket in a folder is the system's matter: there is nobody in between.
        return Reach(host=host, socket_path=f"{host}/.s.PGSQL.{connection.info.port}", scram_only=False)
    mode = options.get("sslmode") or "prefer"
    if not connection.pgconn.ssl_in_use:
        return Reach(host=host)
    authorities = _authorities(options.get("sslrootcert", ""))
    if options.get("sslcert") and Path(options["sslcert"]).exists():
        raise SettingsError(
            "DATABASE_URL names a client certificate, which the gateway cannot show",
            setting="DATABASE_URL",
            hint="let the server accept a password (scram-sha-256) over TLS",
        )
    if options.get("channel_binding") == "require" and mode not in _VERIFIED:
        mode = "verify-full"  # Which is as strong a proof that nobody is in between.
    elif mode not in _VERIFIED:
        # As libpq does: certificates that are there are checked.
        mode = "verify-ca" if authorities else "require"
    return Reach(host=host, tls=mode, authorities=authorities, scram_only=mode not in _VERIFIED)


def _authorities(path: str) -> str | None:
    if path == "system":
        return None
    file = Path(path) if path else Path("~/.postgresql/root.crt").expanduser()
    return file.read_text(encoding="utf-8") if file.exists() else None


def _try(database_url: str, role: str, password: str, *, scram_only: bool) -> None:
    proof = {"require_auth": "scram-sha-256"} if scram_only else {}
    url = with_options(database_url, user=role, password=password, **proof)
    connect(url, retry=RetryPolicy(limit_seconds=0)).close()


def _route(connection: PostgresConnection, reach: Reach, role: str, password: str) -> Route:
    host = "localhost" if reach.socket_path else f"[{reach.host}]" if ":" in reach.host else reach.host
    login = quote(role, safe="") + (f":{quote(password, safe='')}" if password else "")
    name = quote(connection.info.dbname, safe="")
    port = connection.info.port
    return Route(f"postgresql://{login}@{host}:{port}/{name}", reach, role, port)


def _require_fallback(reach: Reach, facts: Facts, options: dict[str, str], refusal: str) -> None:
    """Refuse to log in as the user where the server would not prove itself, or the user may not act as others."""
    if reach.scram_only and options.get("require_auth", "scram-sha-256") != "scram-sha-256":
        raise SettingsError(
            f"the gateway cannot log in to the database: {refusal}",
            setting="DATABASE_URL",
            hint="let the server accept the gateway's role by scram-sha-256 (pg_hba.conf), or use TLS with "
            "sslmode=verify-full, or a Unix socket",
        )
    lacking = [name for name in API_ROLES if name not in facts.roles_held]
    if lacking and not facts.is_superuser:
        raise SettingsError(
            f'the gateway cannot log in to the database: {refusal}; and "{facts.login}" may not act as '
            f"{', '.join(lacking)}",
            setting="DATABASE_URL",
            hint="run `openmanus-rl migrate`, or let the server accept the gateway's role (pg_hba.conf)",
        )
