"""Copies spools from elsewhere, such as the home of a machine without a network, to deliver them from here.

The source is not changed, and processes may go on writing and delivering there. Ids of records and metric chunks are
derived from the spool's id, so each is stored once even if both sides deliver it. An older copy is replaced by one that
holds more.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.spool.files import Position, is_alive, lock_file
from openmanus_rl.spool.refusals import identity
from openmanus_rl.spool.spools import COPIED_MARK, DONE_SUFFIX, Spool, hurry

__all__ = ["adopt", "spools_in"]

# A single spool, the spools of one destination, a spool folder, and a home.
_DEPTHS = ("meta.json", "*/meta.json", "*/*/meta.json", "spool/*/*/meta.json")
# A running process writes at least once a minute.
_SILENCE_SECONDS = 600.0
_ATTEMPTS = 5
_LAST_BYTES = 1024 * 1024
# How long to wait for another process that delivers an earlier copy.
_PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.05


def spools_in(source: Path) -> list[Spool]:
    """Return the spools of a copied home, of its spool folder, of one destination's, or of a single spool."""
    if not source.is_dir():
        raise InvalidInput(f"{source}: no such folder", field="from", hint="give a home or a spool folder")
    found = {path.parent.resolve() for pattern in _DEPTHS for path in source.glob(pattern)}
    spools = [Spool(folder) for folder in sorted(found, key=lambda folder: folder.name)]
    return [spool for spool in spools if _is_spool(spool)]


def _is_spool(spool: Spool) -> bool:
    """Return whether the folder is a spool: its id must be a UUID, as folder names and chunk ids derive from it."""
    try:
        UUID((spool.meta() or {})["spool_id"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return True


def adopt(spool: Spool, root: Path) -> bool:
    """Copy a spool below a root, to be delivered from there; return False if all of it is there already."""
    meta = spool.meta()
    assert meta is not None, "a spool has a meta.json"
    target = root / str(UUID(meta["spool_id"]))
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Copied under a temporary name: a folder counts as a spool once it has a meta.json.
    aside = root / f".{target.name}.{os.getpid()}"
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        while True:
            if not _has_more(spool, than=Spool(target)):
                return False
            try:
                lock = lock_file(target / "courier.lock") if target.exists() else None
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise _busy(target) from None
                hurry(root)
                time.sleep(_LOOK_SECONDS)
                continue
            except FileNotFoundError:
                continue  # It has just been delivered and removed.
            try:
                _put(spool, meta, aside, target)
                return True
            finally:
                if lock is not None:
                    os.close(lock)
    except OSError as error:
        raise LocalFileError(
            f"{spool.folder}: can't be copied to {root}: {error.strerror or error}",
            path=str(spool.folder),
            hint="check the folder's permissions and the free space",
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _has_more(spool: Spool, *, than: Spool) -> bool:
    """Return whether a spool has records that its copy neither holds nor has delivered."""
    if not than.folder.exists():
        return True
    # It is the same folder, or the original, whose process is still writing.
    if than.folder.resolve() == spool.folder.resolve() or is_alive(than.folder):
        return False
    return _end(spool) > _end(than)


def _end(spool: Spool) -> Position:
    """Return the position after the last whole line, or after the last delivered one if its segment was deleted."""
    places = [spool.progress.position]
    for path in spool.folder.glob("*.jsonl"):
        with suppress(FileNotFoundError):
            if path.stem.isdigit():
                places.append(Position(int(path.stem), _end_of_lines(path)))
    return max(places)


def _put(spool: Spool, meta: dict[str, Any], aside: Path, target: Path) -> None:
    """Copy a spool to the target, replacing what is there."""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700)
        if _copy(spool.folder, aside) and _is_whole(Spool(aside), source=spool):
            break
    else:
        raise LocalFileError(f"{spool.folder}: changes while it is copied", path=str(spool.folder))
    if _was_written_lately(aside):
        (aside / COPIED_MARK).touch()
    if target.exists():
        _keep_refusals(Spool(target), Spool(aside))
        target.rename(target.with_name(f"{target.name}{DONE_SUFFIX}"))
    (aside / "meta.json").write_bytes(orjson.dumps(meta))
    aside.rename(target)
    shutil.rmtree(target.with_name(f"{target.name}{DONE_SUFFIX}"), ignore_errors=True)


def _keep_refusals(earlier: Spool, later: Spool) -> None:
    """Carry over the refusals of an earlier copy, which have not been discarded."""
    known = {identity(entry) for entry in later.refused()}
    later.add_refused([entry for entry in earlier.refused() if identity(entry) not in known])
    if (blobs := earlier.folder / "blobs").is_dir():
        (later.folder / "blobs").mkdir(mode=0o700, exist_ok=True)
        for path in blobs.iterdir():
            with suppress(FileNotFoundError):
                if path.suffix != ".part" and not (later.folder / "blobs" / path.name).exists():
                    _copy_blob(path, later.folder / "blobs" / path.name)


def _busy(target: Path) -> LocalFileError:
    return LocalFileError(
        f"{target}: another process delivers an earlier copy of this spool",
        path=str(target),
        hint="try again when it has ended",
    )


def _copy(source: Path, target: Path) -> bool:
    """Copy a spool's files; return False if a segment was delivered and deleted meanwhile."""
    # Progress first: segments delivered during the copy are then either copied or detected as missing.
    for name in ("progress.json", "refused.jsonl", "unwritten.json"):
        with suppress(FileNotFoundError):
            shutil.copyfile(source / name, target / name)
    # Skip symbolic links: a home from elsewhere must not read this machine's files.
    segments = sorted(path for path in source.glob("*.jsonl") if path.stem.isdigit() and not path.is_symlink())
    try:
        for path in segments:
            shutil.copyfile(path, target / path.name)
    except FileNotFoundError:
        return False
    if segments:
        _cut_torn_end(target / segments[-1].name)
    blobs = source / "blobs"
    if blobs.is_dir():
        (target / "blobs").mkdir(mode=0o700)
        for path in blobs.iterdir():
            with suppress(FileNotFoundError):
                if path.suffix != ".part" and not path.is_symlink():
                    _copy_blob(path, target / "blobs" / path.name)
    return True


def _copy_blob(path: Path, target: Path) -> None:
    """Copy a file that never changes, as a hard link where possible."""
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, target)


def _cut_torn_end(segment: Path) -> None:
    """Cut off an incomplete last line, which its process may still be writing."""
    os.truncate(segment, _end_of_lines(segment))


def _end_of_lines(segment: Path) -> int:
    """Return how many bytes of a segment are whole lines."""
    with segment.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _LAST_BYTES)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                return start + place + 1
            end = start
    return 0


def _is_whole(copy: Spool, *, source: Spool) -> bool:
    """Return whether the copy has everything that was undelivered when the copy began."""
    numbers = sorted(int(path.stem) for path in copy.folder.glob("*.jsonl") if path.stem.isdigit())
    if not numbers:
        # There were none, or they were delivered during the copy.
        return source.progress.position == copy.progress.position
    return numbers[0] <= copy.progress.segment and numbers == list(range(numbers[0], numbers[-1] + 1))


def _was_written_lately(folder: Path) -> bool:
    """Return whether its process may still be running elsewhere, judged by the time of the last record."""
    segments = sorted(path for path in folder.glob("*.jsonl") if path.stem.isdigit())
    for path in reversed(segments):
        lines = path.read_bytes().splitlines()
        with suppress(ValueError, TypeError, IndexError):
            _, when, _ = orjson.loads(lines[-1])
            return time.time() - float(when) < _SILENCE_SECONDS
    return False
