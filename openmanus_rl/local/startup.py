"""The steps of starting a stack."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from openmanus_rl.errors import StackError
from openmanus_rl.local import cluster, gateway_process, migrations, ports, roles, upgrade
from openmanus_rl.local.account import account_for, change_owner
from openmanus_rl.local.assets import Assets, find_assets, find_deno
from openmanus_rl.local.gateway_process import SERVICE_SETTINGS, GatewayConfig, GatewayProcess
from openmanus_rl.local.health import check_health
from openmanus_rl.local.home import REQUIRED_FREE_MB, Home, read_json, write_private_json
from openmanus_rl.local.keys import Keys, load_keys, new_keys, renewed, save_keys
from openmanus_rl.local.postgres import PostgresProcess, stop_left_over
from openmanus_rl.local.progress import Progress
from openmanus_rl.settings import read_variables

_logger = logging.getLogger(__name__)

_GATEWAY_PORT_ATTEMPTS = 5


@dataclass(slots=True)
class Stack:
    """A running Postgres and gateway."""

    postgres: PostgresProcess
    gateway: GatewayProcess
    keys: Keys
    database_url: str
    recorder_url: str
    postgres_version: str

    @property
    def url(self) -> str:
        return f"http://{ports.HOST}:{self.gateway.port}"


class _Interrupted(Exception):
    """A stop signal arrived while the stack was starting."""


def start_stack(
    home: Home,
    *,
    port: int | None,
    previous_port: int | None,
    version: str,
    progress: Progress,
    stopping: Callable[[], bool],
) -> Stack | None:
    """Start everything; None if a stop signal arrived meanwhile, after stopping what was started."""
    assets = find_assets()
    deno = find_deno()
    chosen_port = _choose_port(port, previous_port, progress)
    _check_free_space(home, progress)

    def phase(text: str) -> None:
        if stopping():
            raise _Interrupted
        _logger.info(text)
        progress.phase(text)

    parts: list[PostgresProcess | GatewayProcess] = []
    try:
        phase("Starting Postgres")
        postgres, keys, postgres_version = _start_postgres(home, assets, progress)
        parts.append(postgres)
        # Refuse an incompatible database before anything is written to it.
        migrations.plan(
            roles.superuser_url(keys, postgres.port), folder=assets.migrations, place=f"the database in {home.root}"
        )
        config = GatewayConfig(
            home=home,
            assets=assets,
            deno=deno,
            keys=keys,
            database_url=roles.api_url(keys, postgres.port),
            postgres_port=postgres.port,
            version=version,
            services={name: value for name, value in read_variables().items() if name in SERVICE_SETTINGS},
        )
        phase("Preparing the gateway")
        gateway_process.download(assets, deno, show=phase)
        _ensure_system_schema(home, config)
        roles.ensure_roles(keys, postgres.port)
        phase("Applying migrations")
        migrations.migrate(roles.owner_url(keys, postgres.port), folder=assets.migrations)
        phase("Starting the gateway")
        gateway = _start_gateway(config, port=chosen_port, fixed=bool(port))
        parts.append(gateway)
        _remember(home, gateway_port=gateway.port)
        phase("Checking health")
        _require_health(gateway)
    except BaseException as error:
        for part in reversed(parts):
            part.stop()
        if isinstance(error, _Interrupted):
            return None
        raise
    return Stack(
        postgres=postgres,
        gateway=gateway,
        keys=keys,
        database_url=roles.owner_url(keys, postgres.port),
        recorder_url=roles.recorder_url(keys, postgres.port),
        postgres_version=postgres_version,
    )


def _check_free_space(home: Home, progress: Progress) -> None:
    """Refuse to create a database if the disk is nearly full; if the database exists, only warn."""
    if not home.postgres.exists():
        home.require_free_space()
    elif (free_mb := home.free_mb()) < REQUIRED_FREE_MB:
        progress.note(
            f"the disk of {home.root} has only {free_mb} MB free; once it is full, nothing can be recorded; "
            "free some space"
        )


def _choose_port(port: int | None, previous_port: int | None, progress: Progress) -> int:
    if port is None and previous_port is not None and ports.is_free(previous_port):
        return previous_port  # Programs that used the killed stack can reconnect.
    if port is not None:
        ports.require_free(port)
        return port or ports.free_port()
    if ports.is_free(ports.DEFAULT_PORT):
        return ports.DEFAULT_PORT
    chosen = ports.free_port()
    progress.note(f"port {ports.DEFAULT_PORT} is {ports.describe_holder(ports.DEFAULT_PORT)}; using {chosen} instead")
    return chosen


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
        _remember(home, system_schema_of=None)  # A new database has no system schema yet.
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
    _remember(home, postgres_port=postgres.port)
    return postgres, keys, version


def _keys(home: Home) -> tuple[Keys, bool]:
    """Return the installation's keys, and whether their passwords have yet to be set in the database."""
    keys = load_keys(home.keys)
    if keys is None:
        return new_keys(), True
    return (renewed(keys), True) if keys.lack_roles else (keys, False)


def _ensure_system_schema(home: Home, config: GatewayConfig) -> None:
    digest = config.assets.gateway_digest()
    if (read_json(home.state) or {}).get("system_schema_of") == digest:
        return
    gateway_process.initialise(replace(config, database_url=roles.superuser_url(config.keys, config.postgres_port)))
    _remember(home, system_schema_of=digest)


def _start_gateway(config: GatewayConfig, *, port: int, fixed: bool) -> GatewayProcess:
    for _ in range(_GATEWAY_PORT_ATTEMPTS):
        gateway = GatewayProcess(config, port=port)
        try:
            gateway.start()
            return gateway
        except StackError:
            # Another program may have taken the port after it was chosen.
            if fixed or ports.is_free(port):
                raise
            port = ports.free_port()
    raise StackError(f"no free port was found in {_GATEWAY_PORT_ATTEMPTS} attempts; choose one with `--port N`")


def _require_health(gateway: GatewayProcess) -> None:
    health = check_health(f"http://{ports.HOST}:{gateway.port}", timeout_seconds=30.0)
    if not health.ok:
        raise StackError(
            f"the stack started but is not healthy: {health.detail}; see `openmanus-rl status` and the logs"
        )


def _remember(home: Home, **values: object) -> None:
    try:
        write_private_json(home.state, (read_json(home.state) or {}) | values)
    except OSError as error:  # For example a full disk. Only the next start is slower.
        _logger.warning("%s could not be written: %s", home.state, error)
