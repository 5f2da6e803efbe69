"""The keys of a database: made once, kept in it, and the same for every gateway that serves it."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from openmanus_rl.local.external.facts import PRIVATE_SCHEMA
from openmanus_rl.local.keys import ApiKeys, new_api_keys
from openmanus_rl.transport.postgres import PostgresConnection

_TABLE = f"{PRIVATE_SCHEMA}.gateway"
# No role but the owner may even see the schema.
_CREATE_TABLE = f"""
create schema if not exists {PRIVATE_SCHEMA};
revoke all on schema {PRIVATE_SCHEMA} from public;
create table if not exists {_TABLE} (
  is_only boolean primary key default true check (is_only),
  publishable_key text not null,
  secret_key text not null,
  jwt_secret text not null,
  role text not null,
  password text not null,
  made_at timestamptz not null default now()
);
revoke all on table {_TABLE} from public;
comment on table {_TABLE} is 'API keys, and the role of the gateways. To replace them, delete the row and migrate.';
"""
_MAX_NAME_LENGTH = 63


@dataclass(frozen=True, slots=True)
class DatabaseKeys:
    """The API keys of a database, and the role by which its gateways log in."""

    api: ApiKeys
    role: str
    password: str

    def __repr__(self) -> str:
        return f"DatabaseKeys(role={self.role!r})"  # Keep secrets out of tracebacks and logs.


def read_keys(connection: PostgresConnection) -> DatabaseKeys | None:
    """Return the keys of a database that is set up; None if they were deleted."""
    row = connection.execute(
        f"select publishable_key, secret_key, jwt_secret, role, password from {_TABLE}".encode()
    ).fetchone()
    return DatabaseKeys(ApiKeys(*row[:3]), row[3], row[4]) if row else None


def ensure_keys(connection: PostgresConnection, database: str) -> DatabaseKeys:
    """Return the keys of a database, made if there are none; the caller holds the lock of the setup."""
    connection.execute(_CREATE_TABLE.encode())
    known = read_keys(connection)
    if known is not None:
        return known
    keys = DatabaseKeys(new_api_keys(), _new_role_name(database), secrets.token_hex(24))
    connection.execute(
        f"insert into {_TABLE} (publishable_key, secret_key, jwt_secret, role, password)"
        " values (%s, %s, %s, %s, %s)".encode(),
        [keys.api.publishable_key, keys.api.secret_key, keys.api.jwt_secret, keys.role, keys.password],
    )
    return keys


def _new_role_name(database: str) -> str:
    """Return a name of its own: roles, and their passwords, belong to all databases of a server."""
    label = re.sub(r"[^a-z0-9]+", "_", database.lower()).strip("_")
    start, mark = "openmanus_gateway_", f"_{secrets.token_hex(4)}"
    return f"{start}{label[: _MAX_NAME_LENGTH - len(start) - len(mark)]}{mark}"
