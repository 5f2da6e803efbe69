"""The embedded database: Postgres is started, and its roles, system schema and migrations are brought up to date."""

from __future__ import annotations

from dataclasses import replace

from openmanus_rl.local import cluster, gateway_process, migrations, ports, roles, upgrade
from openmanus_rl.local.account import account_for, change_owner
from openmanus_rl.local.assets import Assets
from openmanus_rl.local.base import Base, Start, remember
from openmanus_rl.local.home import REQUIRED_FREE_MB, Home, read_json
from openmanus_rl.local.keys import Keys, load_keys, new_keys, renewed, save_keys
from openmanus_rl.local.postgres import PostgresProcess, stop_left_over
from openmanus_rl.local.progress import Progress


def start_embedded(start: Start, started: list[PostgresProcess]) -> Base:
    """Start Postgres, add it to `started` for whoever must stop it, and return its database, ready to be served."""
    home, assets = start.home, start.assets
    _check_free_space(home, start.progress)
    start.phase("Starting Postgres")
    postgres, keys, postgres_version = _start_postgres(home, assets, start.progress)
    started.append(postgres)
    port = postgres.port
    # Refuse an incompatible database before anything is written to it.
    superuser_url = roles.superuser_url(keys, port)
    migrations.plan(superuser_url, folder=assets.migrations, place=f"the database in {home.root}")
    base = Base(
        keys=keys,
        gateway_url=roles.api_url(keys, port),
        database_url=roles.owner_url(keys, port),
        recorder_url=roles.recorder_url(keys, port),
        postgres_port=port,
        postgres_version=postgres_version,
    )
    start.phase("Preparing the gateway")
    gateway_process.download(assets, start.deno, show=start.phase)
    _ensure_system_schema(start, replace(base, gateway_url=superuser_url))
    roles.ensure_roles(keys, port)
    start.phase("Applying migrations")
    migrations.migrate(base.database_url, folder=assets.migrations)
    return base


def _check_free_space(home: Home, progress: Progress) -> None:
    """Refuse to create a database if the disk is nearly full; if the database exists, only warn."""
    if not home.postgres.exists():
        home.require_free_space()
    elif (free_mb := home.free_mb()) < REQUIRED_FREE_MB:
        progress.note(
            f"the disk of {home.root} has only {free_mb} MB free; once it is full, nothing can be recorded; "
            "free some space"
        )


def _start_postgres(home: Home, assets: Assets, progress: Progress) -> tuple[PostgresProcess, Keys, str]:
    binaries = cluster.installed_binaries()
    upgrade.finish_interrupted_upgrade(home)
    upgrade.require_known(home, binaries)
    account = account_for(home.postgres)
    version = cluster.require_usable(binaries, account)
    if stop_left_over(home):
        progress.note("stopped a Postgres that an earlier stack had left running")
    cluster.clear_stale_pid_file(home)
    upgrade.upgrade_data(home, binaries, account, progress)
    keys, are_new = _keys(home)
    if not home.postgres.exists():
        progress.phase("Creating a new database")
        cluster.create(home, binaries, account, password=keys.superuser_password)
        remember(home, system_schema_of=None)  # A new database has no system schema yet.
    else:
        if home.postgres.stat().st_uid != account.uid:
            change_owner(home.postgres, account)
        if are_new:
            # Check first: an incompatible version still needs the password that is replaced here.
            migrations.require_known(
                [migrations.Applied(version) for version in cluster.recorded_versions(home, binaries, account)],
                migrations.find_migrations(assets.migrations),
                place=f"the database in {home.root}",
            )
            if not home.keys.exists():
                progress.note("keys.json was missing: generated new keys and changed the database password")
            cluster.set_password(home, binaries, account, password=keys.superuser_password)
    if are_new:
        # Only now: if this start is killed earlier, the next one repeats all of it.
        save_keys(home.keys, keys)
    remembered = (read_json(home.state) or {}).get("postgres_port")
    port = remembered if isinstance(remembered, int) and ports.is_free(remembered) else ports.free_port()
    postgres = PostgresProcess(home=home, binaries=binaries, account=account, port=port)
    postgres.start()
    remember(home, postgres_port=postgres.port)
    return postgres, keys, version


def _keys(home: Home) -> tuple[Keys, bool]:
    """Return the installation's keys, and whether their passwords have yet to be set in the database."""
    keys = load_keys(home.keys)
    if keys is None:
        return new_keys(), True
    return (renewed(keys), True) if keys.lack_roles else (keys, False)


def _ensure_system_schema(start: Start, base: Base) -> None:
    digest = start.assets.gateway_digest()
    if (read_json(start.home.state) or {}).get("system_schema_of") == digest:
        return
    gateway_process.initialise(start.config(base))
    remember(start.home, system_schema_of=digest)
