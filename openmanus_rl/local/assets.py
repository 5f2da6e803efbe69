"""The files that the stack runs: bundled in a wheel, or the sources in a checkout."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import deno  # type: ignore[import-untyped]

from openmanus_rl.errors import StackError

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Assets:
    """The gateway's entry point, the migrations and the dashboard."""

    gateway: Path
    migrations: Path
    dashboard: Path | None
    bundled: bool

    def gateway_digest(self) -> str:
        """Return a hash of the gateway's code."""
        digest = hashlib.sha256()
        sources = [self.gateway] if self.bundled else sorted(self.gateway.parent.glob("**/*.ts"))
        for source in sources:
            digest.update(source.read_bytes())
        return digest.hexdigest()


def find_assets() -> Assets:
    """Locate the gateway and the migrations of this installation."""
    checkout = _PACKAGE.parent
    if (checkout / "supabase" / "local" / "gateway.ts").exists():
        return Assets(
            gateway=checkout / "supabase" / "local" / "gateway.ts",
            migrations=checkout / "supabase" / "migrations",
            dashboard=_existing(checkout / "dashboard" / "dist"),
            bundled=False,
        )
    embedded = _PACKAGE / "_embedded"
    if (embedded / "gateway.js").exists():
        return Assets(
            gateway=embedded / "gateway.js",
            migrations=embedded / "migrations",
            dashboard=_existing(embedded / "dashboard"),
            bundled=True,
        )
    raise StackError(f"the gateway is missing from {embedded}; run `pip install --force-reinstall openmanus-rl`")


def find_deno() -> str:
    """Locate the Deno that came with this installation, or one on the PATH."""
    try:
        return str(deno.find_deno_bin())
    except FileNotFoundError as error:
        found = shutil.which("deno")
        if found is None:
            raise StackError(
                "Deno, which runs the gateway, is missing; run `pip install --force-reinstall deno`"
            ) from error
        return found


def _existing(folder: Path) -> Path | None:
    return folder if (folder / "index.html").exists() else None
