"""An external database: set up if asked to, checked, and served as it is."""

from __future__ import annotations

from openmanus_rl.local import gateway_process
from openmanus_rl.local.base import Base, Start
from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.external.serving import find_served
from openmanus_rl.local.external.setup import set_up
from openmanus_rl.local.home import write_private_json


def find_external(start: Start, database: ExternalDatabase) -> Base:
    """Return a database that somebody else runs, ready to be served."""
    start.phase(f"Connecting to {database.address}")
    if database.migrate:
        start.phase("Applying migrations")
        set_up(database.url, assets=start.assets, deno=start.deno)
    served = find_served(database, start.assets)
    if served.route.note:
        start.progress.note(served.route.note)
    start.phase("Preparing the gateway")
    gateway_process.download(start.assets, start.deno, show=start.phase)
    # By this, clients make sure that it is this stack which answers; all else is read from the database anew.
    write_private_json(start.home.keys, {"secret_key": served.keys.secret_key})
    return Base(
        keys=served.keys,
        gateway_url=served.route.url,
        database_url=database.url,
        recorder_url=database.url,
        postgres_port=served.route.port,
        postgres_version=served.postgres_version,
        reach=served.route.reach,
        external=database.address,
    )
