"""Adds the repository's other Markdown files to the site, and makes links between all of them work in both places.

In the repository a page links to files by their paths, as a Git host shows them; on the site the same files have other
paths. The README is the site's first page.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# Files outside docs/ and what they are on the site.
ADDED = {
    "README.md": "README.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "supabase/local/README.md": "gateway.md",
}
_SOURCES = {page: source for source, page in ADDED.items()}
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside docs/."""
    for source, page in ADDED.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files of the repository into links to pages of the site."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")

    def to_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        found = ADDED.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        # A file that is no page: the strict build complains, as about any link that leads nowhere.
        return (
            link[0]
            if found is None
            else f"{link[1]}{posixpath.relpath(found, posixpath.dirname(here) or '.')}{link[3]}"
        )

    return _LINK.sub(to_site, markdown)
