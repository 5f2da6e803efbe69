"""What a gateway is started on: the database, the keys and the way to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from openmanus_rl._object_storage import read_object_storage
from openmanus_rl.local.assets import Assets
from openmanus_rl.local.gateway_process import SERVICE_SETTINGS, GatewayConfig, Reach
from openmanus_rl.local.home import Home, read_json, write_private_json
from openmanus_rl.local.keys import ApiKeys
from openmanus_rl.local.progress import Progress
from openmanus_rl.settings import read_variables

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Base:
    """A database that is ready to be served."""

    keys: ApiKeys
    gateway_url: str
    """Connects as the gateway's role."""
    database_url: str
    """Connects as the owner."""
    recorder_url: str
    postgres_port: int
    postgres_version: str
    reach: Reach = field(default_factory=Reach)
    external: str = ""
    """Which Postgres it is, if somebody else runs it; empty for the embedded one."""

    def __repr__(self) -> str:
        return f"Base(external={self.external!r})"  # A traceback must not carry secrets.


@dataclass(frozen=True, slots=True)
class Start:
    """One attempt to start a stack."""

    home: Home
    assets: Assets
    deno: str
    version: str
    progress: Progress
    phase: Callable[[str], None]
    """Reports what begins now; raises if a stop signal arrived."""

    def config(self, base: Base) -> GatewayConfig:
        """Return the configuration of a gateway on a database."""
        return GatewayConfig(
            home=self.home,
            assets=self.assets,
            deno=self.deno,
            keys=base.keys,
            database_url=base.gateway_url,
            postgres_port=base.postgres_port,
            version=self.version,
            reach=base.reach,
            services={name: value for name, value in read_variables().items() if name in SERVICE_SETTINGS},
            object_storage=read_object_storage(read_variables()),
        )


def remember(home: Home, **values: object) -> None:
    """Keep values for the next start."""
    try:
        write_private_json(home.state, (read_json(home.state) or {}) | values)
    except OSError as error:  # For example a full disk. Only the next start is slower.
        _logger.warning("%s could not be written: %s", home.state, error)
