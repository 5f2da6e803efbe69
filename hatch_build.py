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
        built = root / EMBEDDED / "dashboard"
        dashboard = built if built.exists() else self._build_dashboard(root, Path(self._scratch.name))
        include[str(dashboard)] = f"{EMBEDDED}/dashboard"
        if self.target_name == "wheel":
            include[str(root / "supabase" / "migrations")] = f"{EMBEDDED}/migrations"

    def finalize(self, *_: object) -> None:
        """Remove the scratch folder."""
        if hasattr(self, "_scratch"):
            self._scratch.cleanup()

    def _bundle(self, root: Path, target: Path) -> Path:
        gateway = root / "supabase" / "local" / "gateway.ts"
        _deno(
            gateway.parent,
            "bundle",
            "--frozen",
            "--platform=deno",
            "--minify",
            "--output",
            str(target),
            str(gateway),
        )
        return target

    def _build_dashboard(self, root: Path, scratch: Path) -> Path:
        # In a copy: the build wants a folder for its packages beside the sources.
        for part in ("dashboard", "supabase/functions/_shared"):
            shutil.copytree(root / part, scratch / part, ignore=shutil.ignore_patterns("node_modules", "dist"))
        _deno(scratch / "dashboard", "install", "--frozen", "--quiet")
        _deno(scratch / "dashboard", "task", "--quiet", "build")
        return scratch / "dashboard" / "dist"


def _deno(folder: Path, *arguments: str) -> None:
    done = subprocess.run([_find_deno(), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`deno {' '.join(arguments)}` failed in {folder}:\n{done.stdout}{done.stderr}")


def _find_deno() -> str:
    # In an isolated build the program is on the PATH but not where its own package looks for it.
    found = shutil.which("deno")
    if found is None:
        import deno

        found = str(deno.find_deno_bin())
    return found
