"""Batches of mixed records, written in one transaction each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from openmanus_rl.connections import get_client
from openmanus_rl.errors import BadResponse, OpenManusError
from openmanus_rl.records.codes import ErrorCode
from openmanus_rl.records.kinds import RecordKind
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.sqlstate import error_for_code

__all__ = ["BatchResult", "Refusal", "write_batch", "write_many"]

_RECORDS_PER_CALL = 500


@dataclass(frozen=True)
class Refusal:
    """A record that the database refused, and why."""

    kind: RecordKind
    index: int
    id: str | None
    code: ErrorCode
    field: str | None
    message: str

    def as_error(self) -> OpenManusError:
        """Return the error that a single write of this record would have raised."""
        details = {"kind": self.kind, "index": self.index, "id": self.id, "field": self.field}
        return error_for_code(self.code, self.message, details=details, field=self.field)


@dataclass(frozen=True)
class BatchResult:
    """How many records were received, and which were refused; all others are written."""

    received: int
    refused: tuple[Refusal, ...] = field(default=())

    def raise_if_refused(self) -> BatchResult:
        """Raise the error of the first refusal, or return the result."""
        if self.refused:
            raise self.refused[0].as_error()
        return self


def write_batch(
    batch: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    all_or_nothing: bool = False,
    client: Client | None = None,
) -> BatchResult:
    """Write records by kind, such as {"rollouts": [...], "agent_states": [...]}, in one transaction.

    Invalid records are refused and the others are written; with `all_or_nothing` the first refusal is raised and
    nothing is written. Records should have ids, so that sending a batch again changes nothing.
    """
    answer = (client or get_client()).rpc("ingest", {"batch": batch, "all_or_nothing": all_or_nothing})
    try:
        refused = tuple(Refusal(**refusal) for refusal in answer["refused"])
        return BatchResult(received=int(answer["received"]), refused=refused)
    except (KeyError, TypeError, ValueError) as error:
        raise BadResponse("write a batch: the answer does not say what became of it") from error


def write_many(kind: str, records: Iterable[Mapping[str, Any]], *, client: Client) -> BatchResult:
    """Write any number of records of one kind, some hundreds at a time; refusals have the index of their record."""
    received = 0
    refused: list[Refusal] = []
    remaining = iter(records)
    while part := list(islice(remaining, _RECORDS_PER_CALL)):
        result = write_batch({kind: part}, client=client)
        refused += [Refusal(r.kind, r.index + received, r.id, r.code, r.field, r.message) for r in result.refused]
        received += len(part)
    return BatchResult(received=received, refused=tuple(refused))
