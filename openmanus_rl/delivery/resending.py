"""Sends refused records again, once the cause is fixed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from openmanus_rl.delivery.batches import Batch, Load
from openmanus_rl.media.blobs import forget_blobs
from openmanus_rl.spool.files import lock_file
from openmanus_rl.spool.refusals import count_places, identity
from openmanus_rl.spool.spools import Spool, find_spools

__all__ = ["resend", "resend_refused"]

_RESENT_AT_ONCE = 1000


def resend(spool: Spool, entries: list[dict[str, Any]], load: Load) -> int:
    """Send refused records again and return how many were stored; those refused again are kept."""
    sendable = [entry for entry in entries if entry["kind"] != "metrics"]
    return sum(
        _resend(spool, sendable[start : start + _RESENT_AT_ONCE], load)
        for start in range(0, len(sendable), _RESENT_AT_ONCE)
    )


def _resend(spool: Spool, entries: list[dict[str, Any]], load: Load) -> int:
    batch: Batch = {}
    sent: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in entries:
        records = batch.setdefault(entry["kind"], [])
        sent[entry["kind"], len(records)] = entry
        records.append(entry["record"])
    again = {(refusal["kind"], refusal["index"]): refusal for refusal in load(batch)}
    taken = {identity(entry) for place, entry in sent.items() if place not in again}
    reasons = {identity(sent[place]): refusal for place, refusal in again.items()}
    kept = [entry for entry in spool.refused() if identity(entry) not in taken]
    for entry in kept:
        if (refusal := reasons.get(identity(entry))) is not None:
            entry.update(code=refusal["code"], field=refusal.get("field"), message=refusal["message"])
    spool.save_refused(kept)
    progress = spool.progress
    refused = count_places(entry["places"] for entry in kept) + progress.discarded
    spool.save(replace(progress, refused=refused, delivered=progress.taken - refused, error=None))
    forget_blobs(spool.folder, (entry["record"] for entry in entries), but=[entry["record"] for entry in kept])
    return len(taken)


def resend_refused(root: Path, load_from: Callable[[Spool], Load]) -> int:
    """Send all refused records again and return how many were stored.

    A courier that delivers a spool at the moment is asked to do so for that spool.
    """
    taken = 0
    for spool in find_spools(root):
        entries = spool.refused()
        if not entries:
            continue
        try:
            lock = lock_file(spool.folder / "courier.lock")
        except BlockingIOError:
            spool.ask_to_resend()
            continue
        try:
            taken += resend(spool, entries, load_from(spool))
        finally:
            os.close(lock)
    return taken
