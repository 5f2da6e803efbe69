"""The steps of starting a stack."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from openmanus_rl.errors import StackError
from openmanus_rl.local import ports
from openmanus_rl.local.assets import find_assets, find_deno
from openmanus_rl.local.base import Base, Start, remember
from openmanus_rl.local.embedded_base import start_embedded
from openmanus_rl.local.external.base import find_external
from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.gateway_process import GatewayConfig, GatewayProcess
from openmanus_rl.local.health import check_health
from openmanus_rl.local.home import Home
from openmanus_rl.local.postgres import PostgresProcess
from openmanus_rl.local.progress import Progress
from openmanus_rl.local.serving import Serving

_logger = logging.getLogger(__name__)

_GATEWAY_PORT_ATTEMPTS = 5


@dataclass(slots=True)
class Stack:
    """A running gateway, with its Postgres unless somebody else runs that."""

    postgres: PostgresProcess | None
    gateway: GatewayProcess
    base: Base

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
    serving: Serving | None = None,
    database: ExternalDatabase | None = None,
) -> Stack | None:
    """Start everything; None if a stop signal arrived meanwhile, after stopping what was started.

    On an external database, only the gateway is started.
    """

    def phase(text: str) -> None:
        if stopping():
            raise _Interrupted
        _logger.info(text)
        progress.phase(text)

    start = Start(home, find_assets(), find_deno(), version, progress, phase)
    chosen_port = _choose_port(port, previous_port, progress)
    started: list[PostgresProcess] = []
    gateway: GatewayProcess | None = None
    try:
        base = start_embedded(start, started) if database is None else find_external(start, database)
        phase("Starting the gateway")
        gateway = _start_gateway(replace(start.config(base), serving=serving), port=chosen_port, fixed=bool(port))
        remember(home, gateway_port=gateway.port)
        phase("Checking health")
        _require_health(gateway)
    except BaseException as error:
        for part in (gateway, *started):
            if part is not None:
                part.stop()
        if isinstance(error, _Interrupted):
            return None
        raise
    return Stack(postgres=started[0] if started else None, gateway=gateway, base=base)


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
