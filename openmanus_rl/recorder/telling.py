"""Reports refused values on stderr: once per metric or field during training, and a summary at the end."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.spool.refusals import name_of, reason_of

__all__ = ["Teller"]

_WAY_OUT = (
    "It is kept: `openmanus-rl sync` shows why, `openmanus-rl sync --refused` sends it again once that is mended."
)
_NAMED_AT_THE_END = 5


class Teller:
    """Reports the refusals of one spool. It writes to stderr directly, however logging is configured."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "refused.jsonl"
        self._read_bytes = 0
        self._inode: int | None = None
        self._told: set[str] = set()
        self._own: Counter[str] = Counter()
        self._own_records = 0
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def tell_metrics(self, refused: Mapping[str, str]) -> None:
        """Report metrics that are not numbers, by name, with the reason."""
        self._own_records += 1
        for name, reason in refused.items():
            self._own[f"metric {name!r}"] += 1
            wanted = "a whole number as its step" if reason.startswith("step") else "one number for each name"
            self._tell(f"metric {name!r}", f"{reason}. Give run.log() {wanted}; other points are kept.")

    def look(self) -> None:
        """Report what the courier noted since the last call."""
        for entry in self._fresh():
            name = name_of(entry)
            self._counts[name] += len(entry.get("places") or [None])
            # A record whose parent has not arrived yet is not an error.
            if entry.get("code") != "OM404":
                way_out = "" if entry.get("kind") == "metrics" else f" {_WAY_OUT}"
                self._tell(name, f"{reason_of(entry)}.{way_out}")

    def sum_up(self, *, rejected: int, recorded: int) -> None:
        """Report how many records were refused so far, if any."""
        self.look()
        # The courier may not have seen those that were refused before they were written.
        rejected = max(rejected, self._own_records)
        if not rejected:
            return
        counts = self._counts | self._own
        most = [f"{name} ({count:,})" for name, count in counts.most_common(_NAMED_AT_THE_END)]
        more = ", …" if len(counts) > len(most) else ""
        verb = "was" if rejected == 1 else "were"
        _write(
            f"{rejected:,} of {recorded:,} records {verb} refused so far: {', '.join(most)}{more}. "
            "`openmanus-rl sync` shows the reasons."
        )

    def _tell(self, name: str, reason: str) -> None:
        with self._lock:
            if name in self._told:
                return
            self._told.add(name)
        _write(f"{name} is refused: {reason} Further ones are only counted, in run.stats.rejected.")

    def _fresh(self) -> list[dict[str, Any]]:
        """Return the refusals since the last call; all of them if the file was replaced."""
        found = []
        with self._lock, suppress(OSError), self._file.open("rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            if inode != self._inode:
                self._inode, self._read_bytes = inode, 0
                self._counts.clear()
            file.seek(self._read_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read_bytes += len(line)
                with suppress(ValueError):
                    found.append(orjson.loads(line))
        return [entry for entry in found if isinstance(entry, dict)]


def _write(text: str) -> None:
    # At exit, or in a service, there may be no stderr.
    with suppress(OSError, ValueError, AttributeError):
        print(f"openmanus-rl: {text}", file=sys.stderr, flush=True)
