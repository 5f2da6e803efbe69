"""Ids derived from the content of lines, so that importing them again yields the same rollouts."""

from __future__ import annotations

from hashlib import blake2b
from uuid import UUID, uuid5

__all__ = ["Naming", "digest_of"]

_FILTER_BYTES = 1 << 24


def digest_of(*parts: bytes) -> bytes:
    """Return a digest of 16 bytes."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


class Naming:
    """Derives the ids of the rollouts of one import.

    The id of a line is derived from its content alone, wherever it is; a repetition of the same content is another
    rollout, with an id that also depends on its place. Contents are remembered in a Bloom filter of constant size. A
    false positive, which is the same in each import, only means that the place is used too.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = UUID(run_id)
        self._seen = bytearray(_FILTER_BYTES)

    def rollout_id(self, digest: bytes, *, file_number: int, line_number: int) -> UUID:
        """Return the id of the rollout that begins with this line."""
        name = f"import:{digest.hex()}"
        return uuid5(self._run_id, f"{name}:{file_number}:{line_number}" if self._note(digest) else name)

    def _note(self, digest: bytes) -> bool:
        """Remember a digest and return whether it was seen before."""
        was_there = True
        for start in range(0, 16, 4):
            byte, bit = divmod(int.from_bytes(digest[start : start + 4], "big") % (_FILTER_BYTES * 8), 8)
            was_there &= bool(self._seen[byte] >> bit & 1)
            self._seen[byte] |= 1 << bit
        return was_there
