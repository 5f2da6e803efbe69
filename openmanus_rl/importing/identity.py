"""Ids that follow from what a line says, so that the same lines imported again are the same rollouts."""

from __future__ import annotations

from hashlib import blake2b
from uuid import UUID, uuid5

__all__ = ["Naming", "digest_of"]

_FILTER_BYTES = 1 << 24


def digest_of(*parts: bytes) -> bytes:
    """Return 16 bytes that stand for these."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


class Naming:
    """Names the rollouts of one import.

    What is there once is named by what it says alone, wherever it stands; what is there again within the import is
    another rollout, named by its place too. What was seen is remembered in a Bloom filter, whose size never grows: it
    may take something new for seen, in the same way each time, and that is then named by its place as well.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = UUID(run_id)
        self._seen = bytearray(_FILTER_BYTES)

    def rollout_id(self, digest: bytes, *, file_number: int, line_number: int) -> UUID:
        """Return the id of the rollout that this line begins."""
        name = f"import:{digest.hex()}"
        return uuid5(self._run_id, f"{name}:{file_number}:{line_number}" if self._note(digest) else name)

    def _note(self, digest: bytes) -> bool:
        """Remember a digest and say whether it was there before."""
        was_there = True
        for start in range(0, 16, 4):
            byte, bit = divmod(int.from_bytes(digest[start : start + 4], "big") % (_FILTER_BYTES * 8), 8)
            was_there &= bool(self._seen[byte] >> bit & 1)
            self._seen[byte] |= 1 << bit
        return was_there
