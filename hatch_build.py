"""Puts the embedded stack's parts into the built package: the bundled gateway, the migrations, the dashboard."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EMBEDDED = "openmanus_rl/_embedded"


class EmbeddedStackHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds files at build time and writes nothing into the source tree."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what `openmanus-rl up` needs, unless this is an editable install, which runs from the sources."""
        if version == "editable":
            return
        root = Path(self.root)
        self._scratch = tempfile.TemporaryDirectory(prefix="openmanus-rl-build-")
        include = build_data["force_include"]
        # An unpacked source distribution has the bundle already, so that building from it needs no network.
        ready = root / EMBEDDED / "gateway.js"
        bundle = ready if ready.exists() else self._bundle(root, Path(self._scratch.name) / "gateway.js")
        include[str(bundle)] = f"{EMBEDDED}/gateway.js"
        if self.target_name == "wheel":
            include[str(root / "supabase" / "migrations")] = f"{EMBEDDED}/migrations"
            dashboard = root / "dashboard" / "dist"
            if (dashboard / "index.html").exists():
                include[str(dashboard)] = f"{EMBEDDED}/dashboard"

    def finalize(self, *_: object) -> None:
        """Remove the scratch folder."""
        if hasattr(self, "_scratch"):
            self._scratch.cleanup()

    def _bundle(self, root: Path, target: Path) -> Path:
        gateway = root / "supabase" / "local" / "gateway.ts"
        command = [
            _find_deno(),
            "bundle",
            "--frozen",
            "--platform=deno",
            "--minify",
            "--output",
            str(target),
            str(gateway),
        ]
        done = subprocess.run(command, cwd=gateway.parent, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not target.exists():
            raise RuntimeError(f"deno could not bundle {gateway}:\n{done.stdout}{done.stderr}")
        return target


def _find_deno() -> str:
    # In an isolated build the program is on the PATH but not where its own package looks for it.
    found = shutil.which("deno")
    if found is None:
        import deno

        found = str(deno.find_deno_bin())
    return found
