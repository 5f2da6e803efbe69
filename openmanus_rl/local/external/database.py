"""Which database a stack is started for; needs no database client."""

from __future__ import annotations

from dataclasses import dataclass

from openmanus_rl._setting_checks import database_address
from openmanus_rl.settings import Settings


@dataclass(frozen=True, slots=True)
class ExternalDatabase:
    """The database that a stack is started for."""

    url: str
    migrate: bool = False
    """Whether to set it up, or bring it to this version, first."""

    def __repr__(self) -> str:
        return f"ExternalDatabase({self.address!r})"  # A traceback must not carry secrets.

    @property
    def address(self) -> str:
        return database_address(self.url)


def database_of(settings: Settings, *, migrate: bool = False) -> ExternalDatabase | None:
    """Return the external database that the settings name; None for the embedded stack."""
    if not settings.is_external:
        return None
    return ExternalDatabase(settings.require_database_url(), migrate=migrate)
