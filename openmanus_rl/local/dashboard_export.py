"""Export the dashboard as static files, to serve it next to a hosted Supabase project."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

from openmanus_rl.errors import ConflictError, LocalFileError, StackError
from openmanus_rl.local.home import read_json

_BASE = re.compile(r'<base href="/"\s*/?>')


def export_dashboard(source: Path, target: Path, *, config: dict[str, Any], base: str, force: bool) -> None:
    """Write the built dashboard and its configuration to a folder that is empty or holds an earlier export."""
    page = _page(source, base)
    try:
        exported_before = _is_export(target)
        if target.exists() and not exported_before and not force and any(target.iterdir()):
            raise ConflictError(
                f"{target} is not empty and holds no exported dashboard",
                hint="choose another folder, or write into this one with --force",
            )
        if exported_before:  # File names contain a hash of the content, so old files would accumulate.
            shutil.rmtree(target / "assets", ignore_errors=True)
        shutil.copytree(source, target, dirs_exist_ok=True)
        # Static hosts serve 404.html for unknown paths; the app then shows the page of that path.
        for name in ("index.html", "404.html"):
            (target / name).write_text(page, encoding="utf-8")
        (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise LocalFileError(f"{target} can't be written: {error.strerror or error}", path=str(target)) from error


def _page(source: Path, base: str) -> str:
    page = (source / "index.html").read_text(encoding="utf-8")
    replaced, count = _BASE.subn(lambda _: f'<base href="{html.escape(base)}">', page, count=1)
    if count == 0 and base != "/":
        raise StackError(f'{source / "index.html"} has no <base href="/">, so it can\'t be moved to {base}')
    return replaced


def _is_export(folder: Path) -> bool:
    config = read_json(folder / "config.json")
    return config is not None and "supabaseUrl" in config and (folder / "index.html").exists()
