"""What a gateway needs to know of a database before it serves it."""

from __future__ import annotations

from dataclasses import dataclass

from openmanus_rl.errors import SchemaMismatch
from openmanus_rl.local import migrations
from openmanus_rl.local.assets import Assets
from openmanus_rl.local.external import checks
from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.external.facts import read_facts
from openmanus_rl.local.external.keys import read_keys
from openmanus_rl.local.external.pooling import require_sessions
from openmanus_rl.local.external.route import Route, find_route
from openmanus_rl.local.external.setup import opened
from openmanus_rl.local.keys import ApiKeys


@dataclass(frozen=True, slots=True)
class Served:
    """A database that is ready, and the way to it."""

    keys: ApiKeys
    route: Route
    postgres_version: str


def find_served(database: ExternalDatabase, assets: Assets) -> Served:
    """Return what the gateway needs, from a database that is set up and of this version."""
    place = database.address
    with opened(database.url) as connection:
        require_sessions(database.url, connection, place)
        facts = read_facts(connection)
        checks.require_usable(facts, place)
        checks.require_owner(facts, place)
        plan = migrations.check(connection, folder=assets.migrations, place=place)
        checks.require_ready(facts, place, pending=len(plan.pending))
        keys = read_keys(connection)
        if keys is None:
            raise SchemaMismatch(f"{place} has no keys", hint="make new ones with `openmanus-rl migrate`")
        return Served(keys.api, find_route(database.url, connection, facts, keys), facts.version)
