"""Spools as couriers and commands see them: progress, refusals, and what is not delivered yet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl._private import append_private
from openmanus_rl.spool.files import Position, is_alive, read_unwritten, segment_path
from openmanus_rl.spool.refusals import count_places, identity

__all__ = [
    "COPIED_MARK",
    "DONE_SUFFIX",
    "NEVER_WRITTEN",
    "Progress",
    "Spool",
    "damaged_records",
    "find_spools",
    "hurry",
    "overview",
    "remove_done",
    "was_hurried",
]

DONE_SUFFIX = ".done"
"""Suffix of the folder of a spool that is being removed."""
COPIED_MARK = "copied"
"""A file in a spool that was copied while its process may have been running, and may end what is open in it."""
NEVER_WRITTEN = "a process lost them, or had them only in its memory when it ended"
_RESEND_MARK = "resend"
_HURRY_MARK = "hurry"
_READ_BYTES = 1024 * 1024
# Of what `stat` counts.
_BLOCK_BYTES = 512
_KINDS_WITH_STATUS = ("rollouts", "evaluations", "training_steps", "training_runs")


@dataclass(frozen=True)
class Progress:
    """How far a spool has been delivered."""

    segment: int = 1
    offset: int = 0
    taken: int = 0
    """Complete lines before this position: delivered or refused."""
    delivered: int = 0
    """Lines of which nothing was refused."""
    refused: int = 0
    """Lines of which something was refused and has not arrived since, including those that a user discarded."""
    discarded: int = 0
    damaged: int = 0
    """Records that could not be read, or were lost before they were written to a file."""
    damage: str | None = None
    """What was wrong with the first damaged record."""
    unwritten: int = 0
    """How many damaged records were never written to a file."""
    error: str | None = None
    open: dict[str, list[str]] = field(default_factory=dict)
    """What began before this place and has not ended, by id: its kind, and the id of the status change that began it.

    When the writing process has ended, these are marked as interrupted.
    """

    @property
    def position(self) -> Position:
        return Position(self.segment, self.offset)

    def open_after(self, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[str]]:
        """Return what is open after these records."""
        found = dict(self.open)
        for kind in _KINDS_WITH_STATUS:
            for record in records.get(kind, ()):
                if record.get("status") == "running" and "status_change_id" in record:
                    found[record["id"]] = [kind, record["status_change_id"]]
                elif "status" in record or "status_change_id" in record:
                    # It ended. Or another process will end it: that is said by a change without a status.
                    found.pop(record["id"], None)
        return found

    def open_entries(self) -> dict[str, list[list[str]]]:
        """Return what is open as the database's `interrupt` takes it: [id, status_change_id], by kind."""
        entries: dict[str, list[list[str]]] = {}
        for row_id, (kind, change_id) in self.open.items():
            entries.setdefault(kind, []).append([row_id, change_id])
        return entries


_PROGRESS_FIELDS = frozenset(one.name for one in fields(Progress))


@dataclass(frozen=True)
class Spool:
    """A spool on disk."""

    folder: Path

    @property
    def progress(self) -> Progress:
        try:
            found = orjson.loads((self.folder / "progress.json").read_bytes())
            progress = Progress(**{name: value for name, value in found.items() if name in _PROGRESS_FIELDS})
            return progress if _is_place(progress) else Progress()
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            # Everything is delivered again, which changes nothing.
            return Progress()

    def save(self, progress: Progress) -> None:
        content = orjson.dumps(asdict(progress))
        aside = self.folder / f"progress.{os.getpid()}.new"
        try:
            aside.write_bytes(content)
            aside.replace(self.folder / "progress.json")
        except OSError:
            # Delivery frees space on a full disk, so it must not need any.
            with suppress(OSError):
                aside.unlink()
            if not _overwrite(self.folder / "progress.json", content):
                raise

    def meta(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = orjson.loads((self.folder / "meta.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return found

    def refused(self) -> list[dict[str, Any]]:
        """Return what the database refused: kind, record, reason, positions of its lines, and when."""
        try:
            lines = (self.folder / "refused.jsonl").read_bytes().splitlines()
        except FileNotFoundError:
            return []
        found: dict[bytes, dict[str, Any]] = {}
        for number, line in enumerate(lines):
            # An incomplete line belongs to a batch that was not finished, which is refused again.
            with suppress(ValueError):
                entry = orjson.loads(line)
                # Without places, each refusal counts as one record.
                entry.setdefault("places", [-1 - number])
                # A chunk of metrics that has grown is listed again, with all that it held before.
                found[identity(entry)] = entry
        return list(found.values())

    def add_refused(self, refused: list[dict[str, Any]]) -> None:
        """Append refusals."""
        append_private(self.folder / "refused.jsonl").close()
        with (self.folder / "refused.jsonl").open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    file.write(b"\n")
            file.write(b"".join(orjson.dumps(entry) + b"\n" for entry in refused))

    def save_refused(self, refused: list[dict[str, Any]]) -> None:
        aside = self.folder / f"refused.{os.getpid()}.new"
        aside.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in refused))
        aside.replace(self.folder / "refused.jsonl")

    def unread_bytes(self) -> int:
        """Return how many bytes have not been delivered."""
        # Sizes before progress: what is delivered meanwhile counts as undelivered, never the other way round.
        sizes = {}
        for path in self.folder.glob("*.jsonl"):
            # A missing segment was delivered.
            with suppress(FileNotFoundError):
                if path.stem.isdigit():
                    sizes[int(path.stem)] = path.stat().st_size
        progress = self.progress
        return max(0, sum(size for number, size in sizes.items() if number >= progress.segment) - progress.offset)

    def unread_records(self) -> int:
        """Return how many records have not been delivered, by counting their lines."""
        progress = self.progress
        count, segment, offset = 0, progress.segment, progress.offset
        with suppress(FileNotFoundError):
            while True:
                with segment_path(self.folder, segment).open("rb") as file:
                    file.seek(offset)
                    while part := file.read(_READ_BYTES):
                        count += part.count(b"\n")
                segment, offset = segment + 1, 0
        return count

    def may_go_on_elsewhere(self) -> bool:
        """Return whether this is a copy of a spool that may still be written elsewhere."""
        return (self.folder / COPIED_MARK).exists()

    def ask_to_resend(self) -> None:
        """Ask the courier to send refused records again."""
        (self.folder / _RESEND_MARK).touch()

    def was_asked_to_resend(self) -> bool:
        """Return whether `ask_to_resend` was called since the last time."""
        try:
            (self.folder / _RESEND_MARK).unlink()
        except FileNotFoundError:
            return False
        return True


def _is_place(progress: Progress) -> bool:
    counts = (progress.segment, progress.offset, progress.taken, progress.damaged, progress.unwritten)
    return all(isinstance(count, int) for count in counts)


def _overwrite(path: Path, content: bytes) -> bool:
    """Overwrite a file in place if its blocks suffice. A kill meanwhile leaves an invalid file, which is ignored."""
    try:
        with path.open("r+b", buffering=0) as file:
            if len(content) > os.fstat(file.fileno()).st_blocks * _BLOCK_BYTES:
                return False
            file.write(content)
            file.truncate()
    except OSError:
        return False
    return True


def hurry(root: Path) -> None:
    """Ask the courier of these spools to deliver at once."""
    with suppress(OSError):
        (root / _HURRY_MARK).touch()


def was_hurried(root: Path) -> bool:
    """Return whether `hurry` was called since the last time."""
    try:
        (root / _HURRY_MARK).unlink()
    except OSError:
        return False
    return True


def find_spools(root: Path) -> Iterator[Spool]:
    """Yield the spools below a root, oldest first."""
    if root.exists():
        for folder in sorted(root.iterdir()):
            # A name that begins with a dot is a copy in progress.
            is_whole = folder.suffix != DONE_SUFFIX and not folder.name.startswith(".")
            if is_whole and (folder / "meta.json").exists():
                yield Spool(folder)


def remove_done(root: Path) -> None:
    """Remove delivered spools whose removal was cut short by a kill."""
    for folder in root.glob(f"*{DONE_SUFFIX}"):
        shutil.rmtree(folder, ignore_errors=True)


def overview(root: Path) -> dict[str, Any]:
    """Count what is queued, refused and damaged below a root, with the last error of delivery, if any."""
    spools = list(find_spools(root))
    progress = [spool.progress for spool in spools]
    return {
        "spools": len(spools),
        "queued": sum(spool.unread_records() for spool in spools),
        "queued_bytes": sum(spool.unread_bytes() for spool in spools),
        "refused": sum(count_places(entry["places"] for entry in spool.refused()) for spool in spools),
        "damaged": sum(map(damaged_records, spools)),
        "error": next((one.error for one in reversed(progress) if one.error is not None), None),
    }


def damaged_records(spool: Spool) -> int:
    """Return how many records can't be delivered: unreadable, lost, or only in the memory of a process that died.

    Includes unwritten records that no courier has counted yet.
    """
    progress, unwritten = spool.progress, read_unwritten(spool.folder)
    is_final = False
    # Fails in a read-only home, where nothing can be locked, and for a spool that was just removed.
    with suppress(OSError):
        is_final = not is_alive(spool.folder) and not spool.may_go_on_elsewhere()
    count = unwritten.lost + (unwritten.in_memory if is_final else 0)
    return progress.damaged + max(0, count - progress.unwritten)
