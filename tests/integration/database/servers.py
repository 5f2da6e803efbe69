"""Databases such as a Supabase project has before its first migration."""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

import psycopg

from openmanus_rl.local.assets import find_deno

from ...support.postgres_server import Server

__all__ = ["MIGRATIONS", "ROOT", "Server", "apply_migrations", "make_system_schema"]

ROOT = Path(__file__).resolve().parents[3]
MIGRATIONS = sorted((ROOT / "supabase" / "migrations").glob("*.sql"))


def make_system_schema(database_url: str) -> None:
    """Give a database the roles and schemas of a Supabase project, as the gateway does before the first migration."""
    gateway = ROOT / "supabase" / "local" / "gateway.ts"
    settings = {
        "DATABASE_URL": database_url,
        "SUPABASE_PUBLISHABLE_KEY": f"sb_publishable_{secrets.token_hex(12)}",
        "SUPABASE_SECRET_KEY": f"sb_secret_{secrets.token_hex(12)}",
        "SUPABASE_JWT_SECRET": secrets.token_hex(32),
        "STORAGE_DIR": "/nonexistent",
    }
    subprocess.run(
        [find_deno(), "run", "--allow-all", f"--config={gateway.with_name('deno.json')}", gateway, "init"],
        env={**os.environ, **settings},
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
    )


def apply_migrations(database_url: str) -> None:
    """Apply every migration file, each as one transaction."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for path in MIGRATIONS:
            with connection.transaction():
                # No parameters: then a percent sign in the file is a percent sign.
                connection.execute(path.read_bytes())
