"""Pictures of environments, which are drawn after their specs were saved."""

from __future__ import annotations

import base64

from openmanus_rl.managers.base import Manager, matching
from openmanus_rl.records.rows import EnvironmentVersion
from openmanus_rl.transport.filters import Filter

__all__ = ["PreviewManager"]


class PreviewManager(Manager[EnvironmentVersion]):
    """Finds versions of environments that have no picture, and saves those."""

    table = "environment_versions"
    noun = "version"
    key = "version"
    order_by = "-created_at"

    @classmethod
    def list_missing(cls, kinds: list[str], *, limit: int = 10) -> list[EnvironmentVersion]:
        """Return versions of these kinds that have neither a picture nor a reason why there is none, newest first."""
        missing = [Filter.is_null("preview"), Filter.is_null("preview_error")]
        return cls._page(*matching(kind=kinds), filters=missing, limit=limit).rows

    @classmethod
    def save(cls, version: EnvironmentVersion, *, picture: bytes | None, error: str | None) -> None:
        """Save a picture, a PNG, or why there is none."""
        preview = None if picture is None else "data:image/png;base64," + base64.b64encode(picture).decode()
        params = {
            "environment_id": version["environment_id"],
            "version": version["version"],
            "preview": preview,
            "preview_error": error,
        }
        cls._client().rpc("save_preview", params)
