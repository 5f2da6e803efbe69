"""What this machine notes of an attempt that SkyPilot runs: its launch, the wish to stop it, its log."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from openmanus_rl._private import make_private
from openmanus_rl.jobs.backends._runner import read_json, write_json
from openmanus_rl.jobs.backends.base import as_log_text

__all__ = ["Notes", "exit_code_in", "printed_lines"]

# How SkyPilot marks each line of a program: "(name, pid=123) text", in colour.
_MARK = re.compile(r"^(?:\x1b\[[0-9;]*m)*\([^()\n]*\bpid=\d+[^()\n]*\)(?:\x1b\[[0-9;]*m)* ?")
_CODES = re.compile(r"failed with return code list:\s*(?:\x1b\[[0-9;]*m)*\s*\[(-?\d+)")
_BEGINS_ANEW = "\n[the log begins anew]\n"


class Notes:
    """The folder of one attempt. It may be missing: another machine's orchestrator may have launched the attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> dict[str, Any] | None:
        """Return what was noted under a name."""
        return read_json(self._folder / f"{name}.json")

    def write(self, name: str, **noted: Any) -> None:
        """Note something, as a whole or not at all."""
        make_private(self._folder)
        write_json(self._folder / f"{name}.json", noted)

    def remove(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def keep_log(self, text: str) -> None:
        """Keep the whole of a log as it is now; what was kept before stays where it was.

        SkyPilot shows the log of the last machine only: if it is another one's, it is added to what was kept.
        """
        content = as_log_text(text.encode("utf-8", "replace"), final=True).encode()
        parts = self._parts()
        before = parts[-1].read_bytes() if parts else b""
        if before.startswith(content):
            return  # An earlier look at the same log, or nothing new.
        if not parts or content.startswith(before):
            self._append(max(len(parts) - 1, 0), content[len(before) :])
        else:
            self._append(len(parts), _BEGINS_ANEW.encode())
            self._append(len(parts) + 1, content)

    def read_log(self, start: int, max_bytes: int) -> str:
        """Return a part of the log that was kept."""
        found = b""
        for part in self._parts():
            size = part.stat().st_size
            if start < size and len(found) < max_bytes:
                with part.open("rb") as log:
                    log.seek(start)
                    found += log.read(max_bytes - len(found))
            start = max(start - size, 0)
        return found.decode("utf-8", "ignore")

    def _append(self, part: int, content: bytes) -> None:
        make_private(self._folder)
        with (self._folder / f"log-{part:06}").open("ab") as log:
            log.write(content)

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("log-*"))


def printed_lines(shown: str) -> str:
    """Return what a program printed of a log that SkyPilot shows, without SkyPilot's own lines and marks.

    Those change from one look to the next, and would make the log look like another one.
    """
    # Not splitlines, which splits at more than ends of lines.
    lines = re.findall(r"[^\n]*\n|[^\n]+", shown)
    return "".join(_MARK.sub("", line, count=1) for line in lines if _MARK.match(line) is not None)


def exit_code_in(shown: str) -> int | None:
    """Return the exit code that SkyPilot tells at the end of a log."""
    codes = _CODES.findall(shown)
    return int(codes[-1]) if codes else None
