"""Uploads a batch's files to storage before its records are loaded: streamed, and each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmanus_rl.delivery.batches import Batch, Load
from openmanus_rl.errors import ConflictError, InvalidInput, LocalFileError, NotFoundError, UnsupportedError
from openmanus_rl.media.blobs import BLOB_FIELD, UNKEPT_FIELD, blob_path
from openmanus_rl.media.content import MEDIA_BUCKET
from openmanus_rl.media.sniffing import UNKNOWN_TYPE, plain_type, type_of_name
from openmanus_rl.transport.transfer import FileSource, fingerprint

if TYPE_CHECKING:
    from openmanus_rl.transport.storage import Storage

__all__ = ["Uploads", "needs_storage"]

_CHECKPOINT_BUCKET = "model-checkpoints"
_KINDS = ("media", "model_checkpoints")
_PRIVATE = (BLOB_FIELD, UNKEPT_FIELD)
# With remote storage, an upload is mostly latency.
_AT_A_TIME = 4
_REMEMBERED = 10_000
# Smaller files are sent without checking first whether they exist or are too large.
_ASK_FIRST_BYTES = 256 * 1024
_UNSUPPORTED_TYPE = 415

Place = tuple[str, int]
Facts = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A file of a spool, and its destination in storage."""

    name: str
    bucket: str
    path: str
    content_type: str = field(compare=False)
    checksum: str | None = None
    overwrite: bool = False


class Refused(Exception):
    """A file is missing or storage does not accept it; the message says why."""


def needs_storage(batch: Batch) -> bool:
    """Return whether a batch has records that need a file in storage."""
    return any(name in record for _, record in _records_in(batch) for name in _PRIVATE)


class Uploads:
    """Uploads files to storage, and remembers which are there."""

    def __init__(self) -> None:
        self._stored: dict[Target, Facts] = {}

    def load(self, batch: Batch, *, folder: Path, storage: Storage, load: Load) -> list[dict[str, Any]]:
        """Upload the files of a batch, then load the records whose files are stored; return what was refused."""
        targets: dict[Place, Target] = {}
        refused: dict[Place, str] = {}
        for place, record in _records_in(batch):
            try:
                target = _target(place[0], record)
            except Refused as error:
                refused[place] = str(error)
            else:
                targets |= {place: target} if target is not None else {}
        if targets and batch.get("training_runs"):
            # Row level security asks whose the run is, so that it has to be there before its files. It is loaded again
            # with the rest of its batch, which changes nothing.
            load({"training_runs": _first_of_each(batch["training_runs"])})
        outcomes = self._send_all(list(dict.fromkeys(targets.values())), folder, storage)
        facts: dict[Place, Facts] = {}
        for place, target in targets.items():
            outcome = outcomes[target]
            if isinstance(outcome, Refused):
                refused[place] = str(outcome)
            else:
                facts[place] = outcome
        return _load_others(batch, refused, facts, load)

    def _send_all(self, targets: list[Target], folder: Path, storage: Storage) -> dict[Target, Facts | Refused]:
        send = partial(self._send, folder=folder, storage=storage)
        # In order, because a later file may replace an earlier one.
        outcomes = {target: send(target) for target in targets if target.overwrite}
        others = [target for target in targets if not target.overwrite]
        pool = ThreadPoolExecutor(max_workers=_AT_A_TIME)
        try:
            outcomes |= zip(others, pool.map(send, others), strict=True)
        finally:
            # After a failure, leave the rest to the next attempt.
            pool.shutdown(cancel_futures=True)
        return outcomes

    def _send(self, target: Target, *, folder: Path, storage: Storage) -> Facts | Refused:
        """Upload one file; return a refusal, but raise errors that may be temporary."""
        known = self._stored.get(target)
        if known is not None:
            return known
        try:
            facts = self._put(target, folder, storage)
        except Refused as error:
            return error
        except UnsupportedError as error:
            if error.status != _UNSUPPORTED_TYPE:
                raise
            return Refused(error.message)
        except (InvalidInput, NotFoundError, LocalFileError) as error:
            return Refused(f"{error.message}; {error.hint}" if error.hint else error.message)
        self._stored[target] = facts
        for oldest in list(self._stored)[:-_REMEMBERED]:
            self._stored.pop(oldest, None)
        return facts

    def _put(self, target: Target, folder: Path, storage: Storage) -> Facts:
        file = blob_path(folder, target.name)
        if not file.exists():
            # Another record with the same content may have been delivered, and its file deleted.
            if not target.overwrite and storage.exists(target.bucket, target.path):
                return {}
            raise Refused(f"{target.path}: its file {file} is gone, and storage does not have it")
        source = fingerprint(file)
        if target.checksum not in (None, source.sha256):
            raise Refused(f"{target.path}: its file {file} is not what was recorded: another SHA-256, {source.sha256}")
        if source.size_bytes >= _ASK_FIRST_BYTES:
            _check_size(target, source, storage)
        if target.overwrite or source.size_bytes < _ASK_FIRST_BYTES or not storage.exists(target.bucket, target.path):
            _upload(target, source, storage)
        return {"size_bytes": source.size_bytes, "checksum": source.sha256}


def _check_size(target: Target, source: FileSource, storage: Storage) -> None:
    """Refuse a file over the bucket's limit before sending it."""
    limit_bytes = storage.bucket(target.bucket).file_size_limit_bytes
    if limit_bytes is not None and source.size_bytes > limit_bytes:
        from openmanus_rl.managers.storage.buckets import format_size

        raise Refused(
            f"{target.path}: {format_size(source.size_bytes)} is over the limit of the bucket {target.bucket}, "
            f"{format_size(limit_bytes)}"
        )


def _upload(target: Target, source: FileSource, storage: Storage) -> None:
    try:
        storage.upload(target.bucket, target.path, source, content_type=target.content_type, upsert=target.overwrite)
    except ConflictError:
        # The path contains the checksum, so the file that is there has the same content.
        if target.overwrite:
            raise


def _first_of_each(records: Sequence[Any]) -> list[Any]:
    """Return the first record of each row: the one that makes it."""
    first: dict[Any, Any] = {}
    for record in records:
        if isinstance(record, dict):
            first.setdefault(record.get("id"), record)
    return list(first.values())


def _records_in(batch: Batch) -> Iterator[tuple[Place, dict[str, Any]]]:
    for kind in _KINDS:
        for index, record in enumerate(batch.get(kind, ())):
            yield (kind, index), record


def _target(kind: str, record: dict[str, Any]) -> Target | None:
    """Return the file that a record needs in storage, or None."""
    if UNKEPT_FIELD in record:
        raise Refused(f"{kind}: {record[UNKEPT_FIELD]}")
    if BLOB_FIELD not in record:
        return None
    name = record[BLOB_FIELD]
    is_checkpoint = kind == "model_checkpoints"
    path: Any = record.get("storage_path" if is_checkpoint else "path")
    bucket: Any = _CHECKPOINT_BUCKET if is_checkpoint else record.get("bucket", MEDIA_BUCKET)
    if not all(isinstance(value, str) and value for value in (name, path, bucket)) or "/" in name:
        raise Refused(f"{kind}: {BLOB_FIELD} {name!r} with bucket {bucket!r} and path {path!r} names no file")
    # It is sent as a header, which does not allow every text.
    content_type = plain_type(record.get("content_type")) or type_of_name(path) or UNKNOWN_TYPE
    if is_checkpoint:
        return Target(name, bucket, path, content_type, overwrite=True)
    return Target(name, bucket, path, content_type, checksum=str(record["checksum"]) if "checksum" in record else None)


def _load_others(
    batch: Batch, refused: dict[Place, str], facts: dict[Place, Facts], load: Load
) -> list[dict[str, Any]]:
    """Load the records that were not refused, without their private fields, and return all refusals."""
    kept: Batch = {}
    places: dict[str, list[int]] = {}
    for kind, records in batch.items():
        for index, record in enumerate(records):
            if (kind, index) not in refused:
                places.setdefault(kind, []).append(index)
                kept.setdefault(kind, []).append(_cleaned(record, facts.get((kind, index))))
    refusals = load(kept) if kept else []
    told = [{**entry, "index": places[entry["kind"]][entry["index"]]} for entry in refusals]
    own = [
        {"kind": kind, "index": index, "code": "OM400", "message": message}
        for (kind, index), message in refused.items()
    ]
    return told + own


def _cleaned(record: dict[str, Any], facts: Facts | None) -> dict[str, Any]:
    if facts is None:
        return record
    return {name: value for name, value in {**facts, **record}.items() if name not in _PRIVATE}
