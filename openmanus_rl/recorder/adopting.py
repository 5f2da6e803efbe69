"""Taking over spools from elsewhere, such as the home of a machine that has no network: as copies, so that what they
were taken from stays as it is, and whoever writes or delivers there is not disturbed.

Records and chunks of metrics have ids that follow from the spool's own: delivered from here and from there, each
arrives once.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import orjson

from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.recorder.spools import COPIED_MARK, Spool

__all__ = ["adopt", "spools_in"]

# A home, its spools, those of one destination, and a single one.
_DEPTHS = ("meta.json", "*/meta.json", "*/*/meta.json", "spool/*/*/meta.json")
# A process that lives writes at least once a minute.
_SILENCE_SECONDS = 600.0
_ATTEMPTS = 5
_LAST_BYTES = 1024 * 1024


def spools_in(source: Path) -> list[Spool]:
    """Return the spools of a copied home, of its spool folder, of one destination's, or of a single spool."""
    if not source.is_dir():
        raise InvalidInput(f"{source}: no such folder", field="from", hint="give a home or a spool folder")
    found = {path.parent.resolve() for pattern in _DEPTHS for path in source.glob(pattern)}
    spools = [Spool(folder) for folder in sorted(found, key=lambda folder: folder.name)]
    return [spool for spool in spools if _is_spool(spool)]


def _is_spool(spool: Spool) -> bool:
    """Say whether a description is that of a spool: its id names a folder here, and the chunks of its metrics."""
    try:
        UUID((spool.meta() or {})["spool_id"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return True


def adopt(spool: Spool, root: Path) -> bool:
    """Copy a spool below a root, to be delivered from there; False if it is there already."""
    meta = spool.meta()
    assert meta is not None, "only what has its description is a spool"
    target = root / str(UUID(meta["spool_id"]))
    if target.exists():
        return False
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Not a spool to anyone until it has its name: whoever looks for spools looks for descriptions.
    aside = root / f".{target.name}.{os.getpid()}"
    try:
        for _ in range(_ATTEMPTS):
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(mode=0o700)
            _copy(spool.folder, aside)
            if _is_whole(Spool(aside)):
                break
        else:
            raise LocalFileError(f"{spool.folder}: changes while it is copied", path=str(spool.folder))
        if _was_written_lately(aside):
            (aside / COPIED_MARK).touch()
        (aside / "meta.json").write_bytes(orjson.dumps(meta))
        aside.rename(target)
    except OSError as error:
        raise LocalFileError(
            f"{spool.folder}: can't be copied to {root}: {error.strerror or error}",
            path=str(spool.folder),
            hint="check the folder's permissions and the free space",
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return True


def _copy(source: Path, target: Path) -> None:
    # How far it was delivered first: what is delivered while this goes on is then copied too, or found to be missing.
    for name in ("progress.json", "refused.jsonl", "unwritten.json"):
        with suppress(FileNotFoundError):
            shutil.copyfile(source / name, target / name)
    # Links are left out: a home from elsewhere has no business in this machine's files.
    segments = sorted(path for path in source.glob("*.jsonl") if path.stem.isdigit() and not path.is_symlink())
    for path in segments:
        with suppress(FileNotFoundError):
            shutil.copyfile(path, target / path.name)
    if segments and (last := target / segments[-1].name).exists():
        _cut_torn_end(last)
    blobs = source / "blobs"
    if blobs.is_dir():
        (target / "blobs").mkdir(mode=0o700)
        for path in blobs.iterdir():
            with suppress(FileNotFoundError):
                if path.suffix != ".part" and not path.is_symlink():
                    _copy_blob(path, target / "blobs" / path.name)


def _copy_blob(path: Path, target: Path) -> None:
    """Copy a file that never changes; where it can have a second name, that is enough."""
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, target)


def _cut_torn_end(segment: Path) -> None:
    """Leave out a line that is not whole: its writer may be at it just now, and then has it."""
    with segment.open("r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _LAST_BYTES)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                end = start + place + 1
                break
            end = start
        if end < size:
            file.truncate(end)


def _is_whole(spool: Spool) -> bool:
    """Say whether the copy has all that was not delivered when it was begun."""
    numbers = sorted(int(path.stem) for path in spool.folder.glob("*.jsonl") if path.stem.isdigit())
    start = spool.progress.segment
    return not numbers or (numbers[0] <= start and numbers == list(range(numbers[0], numbers[-1] + 1)))


def _was_written_lately(folder: Path) -> bool:
    """Say whether the process that wrote it may well go on elsewhere, by the time of the last record."""
    segments = sorted(path for path in folder.glob("*.jsonl") if path.stem.isdigit())
    for path in reversed(segments):
        lines = path.read_bytes().splitlines()
        with suppress(ValueError, TypeError, IndexError):
            _, when, _ = orjson.loads(lines[-1])
            return time.time() - float(when) < _SILENCE_SECONDS
    return False
