"""The worker: claims rollouts, gives them to its slots, keeps their leases, and cleans up after all of them."""

from __future__ import annotations

import json
import logging
import math
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from openmanus_rl.errors import OpenManusError
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.recorder.leased import LeasedRecording
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.records.ids import new_id
from openmanus_rl.sandboxes.providers import available_kinds, remove_rollout
from openmanus_rl.settings import Settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import hurry
from openmanus_rl.workers.attempt import PROVISION_SECONDS, VERIFY_SECONDS
from openmanus_rl.workers.claiming import Claimer
from openmanus_rl.workers.claims import Claim
from openmanus_rl.workers.disk import DiskWatch
from openmanus_rl.workers.leases import Renewer
from openmanus_rl.workers.owners import Owner, take_back
from openmanus_rl.workers.slots import Slot

__all__ = ["Event", "Worker"]

_logger = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
_RENEW_SECONDS = 5.0
_TICK_SECONDS = 0.2
_STOP_SECONDS = 30.0
# For a process that has said that it ends.
_LAST_SECONDS = 5.0
# Beyond the agent's own limit, for what a process does not interrupt.
_OVERTIME_SECONDS = 60.0
# Claim ahead if attempts are short: about this much work, and at most so many. What waits for long all the same goes
# back to the queue: other workers may be free.
_AHEAD_SECONDS = 0.25
_MOST_AHEAD = 128
_LONGEST_WAIT_SECONDS = 5.0


@dataclass(frozen=True)
class Event:
    """Something to tell the user: a rollout's phase or end, or something about the worker."""

    kind: Literal["claimed", "phase", "ended", "lost", "note"]
    text: str
    rollout_id: str | None = None
    seconds: float | None = None


class Worker:
    """Works on the queue until it is stopped, until nothing waits or runs, or after `idle_seconds` without work."""

    def __init__(
        self,
        settings: Settings,
        *,
        max_workers: int,
        until_idle: bool = False,
        idle_seconds: float | None = None,
        name: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        tell: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self._settings = settings
        self._max_workers = max_workers
        self._until_idle = until_idle
        self._idle_seconds = math.inf if idle_seconds is None else idle_seconds
        self._idle_since = time.monotonic()
        self._lease_seconds = lease_seconds
        self._tell = tell
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.id = new_id()
        self._root = settings.home / "workers"
        self._disk = DiskWatch(settings.home)
        # By lease: all claims that are not known to have ended, and since when those wait that no slot has begun.
        self._held: dict[str, Claim] = {}
        self._waiting: dict[str, float] = {}
        self._slots: list[Slot] = []
        self._slots_made = 0
        self._selector = selectors.DefaultSelector()
        self._mean_seconds: float | None = None
        self._is_draining = False
        self._is_returning = False
        self._end_by = math.inf
        self._lock = threading.Lock()

    def drain(self) -> None:
        """Claim nothing more, finish what was begun, and end. May be called by a signal handler."""
        self._is_draining = True

    def give_back(self) -> None:
        """Stop at once: what was begun goes back to the queue. May be called by a signal handler."""
        self._is_draining = self._is_returning = True
        self._end_by = min(self._end_by, time.monotonic() + _STOP_SECONDS)

    def run(self) -> None:
        """Work until there is nothing left to do."""
        for name in take_back(self._root):
            self._tell(Event("note", f"removed {name}, which a worker that died left behind"))
        self._owner = Owner(self._root, self.id)
        self._providers = available_kinds()
        # Not under a run: the rollouts may be of any.
        self._recording = Recording(self._settings, run_id=None)
        self._register()
        self._claimer = Claimer(self.id, lease_seconds=self._lease_seconds, providers=self._providers)
        self._selector.register(self._claimer.socket, selectors.EVENT_READ)
        self._renewer = Renewer(
            self.id,
            self._leases,
            lease_seconds=self._lease_seconds,
            interval_seconds=min(_RENEW_SECONDS, self._lease_seconds / 4),
        )
        try:
            while not self._is_finished():
                self._step()
        finally:
            self._end()

    def _register(self) -> None:
        from openmanus_rl import __version__

        QueueManager.register_worker(
            id=self.id,
            name=self._name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            max_rollouts=self._max_workers,
            providers=self._providers,
            infra=json.loads(self._settings.worker_infra) if self._settings.worker_infra else None,
        )

    def _step(self) -> None:
        for key, _ in self._selector.select(_TICK_SECONDS):
            if key.data is not None:
                self._listen(key.data)
        self._take_claims()
        self._give_out()
        self._follow_leases()
        self._watch_slots()
        self._return_waiting()
        told = self._disk.look()
        if told is not None:
            self._tell(Event("note", told))
        if not self._is_draining and not self._disk.is_full:
            self._claimer.ask(self._wanted())

    # Claiming ------------------------------------------------------------------------------------------------------

    def _take_claims(self) -> None:
        try:
            found = self._claimer.take()
        except OpenManusError as error:
            self._tell(Event("note", f"the queue cannot be read, trying again: {error}"))
            return
        if found is not None:
            self._is_draining |= found.state != "active"
            claims = {claim.lease_id: claim for claim in map(Claim, found.claims)}
            with self._lock:
                self._held |= claims
            self._waiting |= dict.fromkeys(claims, time.monotonic())
            for slot in self._slots:
                # Who gets a rollout again has lost its lease before, and may not have heard of it yet.
                if slot.claim is not None and slot.claim.rollout_id in {claim.rollout_id for claim in claims.values()}:
                    self._lose(slot.claim.lease_id)

    def _wanted(self) -> int:
        """Return how many rollouts to claim: as many as slots are free, and more if many end each second."""
        ahead = 0
        if self._mean_seconds is not None:
            ahead = min(_MOST_AHEAD, int(self._max_workers * _AHEAD_SECONDS / max(self._mean_seconds, 1e-4)))
        room = self._max_workers + ahead - self._busy - len(self._waiting)
        # With claims ahead, claim many at once instead of one after the other.
        return room if room >= ahead / 2 else 0

    def _give_out(self) -> None:
        if self._is_draining:
            return
        busy = {slot.claim.rollout_id for slot in self._slots if slot.claim is not None}
        for lease_id in list(self._waiting):
            if self._held[lease_id].rollout_id in busy:
                # An attempt that lost its lease is being stopped, and removes the folder that both work in.
                continue
            slot = next((slot for slot in self._slots if slot.is_free), None)
            if slot is None and len(self._slots) < self._max_workers:
                slot = self._add_slot()
            if slot is None:
                return
            del self._waiting[lease_id]
            claim = self._held[lease_id]
            try:
                slot.start(claim)
            except OSError:
                # Its process has just died, which `_watch_slots` finds.
                continue
            self._tell(Event("claimed", str(claim.content["rollout"]["task_description"]), claim.rollout_id))

    def _add_slot(self) -> Slot:
        self._slots_made += 1
        slot = Slot(
            self._settings,
            owner=self._owner,
            cache=self._root / "task-files",
            number=self._slots_made,
        )
        self._slots.append(slot)
        self._selector.register(slot.socket, selectors.EVENT_READ, slot)
        return slot

    # Following -----------------------------------------------------------------------------------------------------

    def _listen(self, slot: Slot) -> None:
        messages = list(slot.read())
        if slot.claim is None or not messages:
            return
        # Phases before the last message have passed already.
        last = messages[-1]
        if "done" in last:
            if last["is_last"]:
                self._remove_slot(slot)
            self._finish(slot, slot.claim, last["done"])
        else:
            slot.phase, slot.phase_since = last["phase"], time.monotonic()
            self._tell(Event("phase", slot.phase, slot.claim.rollout_id))

    def _finish(self, slot: Slot, claim: Claim, status: str) -> None:
        seconds = time.monotonic() - slot.since
        slot.claim = slot.stop_by = None
        self._mean_seconds = seconds if self._mean_seconds is None else 0.9 * self._mean_seconds + 0.1 * seconds
        if status == "returned":
            self._forget(claim.lease_id)
            self._release([claim.lease_id], "the worker returned it")
        elif not self._has_work:
            # Nothing else comes that could be delivered with it.
            hurry(spool_root(self._settings))
        self._tell(Event("ended", status, claim.rollout_id, seconds))

    def _follow_leases(self) -> None:
        news = self._renewer.take_news()
        self._is_draining |= news.is_draining
        for lease_id in news.gone & self._held.keys():
            self._lose(lease_id)
        for lease_id in news.cancelled & self._held.keys():
            slot = self._slot_of(lease_id)
            if slot is not None:
                slot.stop("cancelled", within_seconds=_STOP_SECONDS)
            elif self._waiting.pop(lease_id, None) is not None:
                self._record_end(self._held[lease_id], "cancelled", None)

    def _lose(self, lease_id: str) -> None:
        """Stop an attempt whose lease is gone: another worker may have the rollout, and its records are refused."""
        slot = self._slot_of(lease_id)
        if slot is not None and lease_id in self._held:
            self._tell(Event("lost", "its lease was lost", self._held[lease_id].rollout_id))
            slot.stop("cancelled", within_seconds=_STOP_SECONDS)
        self._forget(lease_id)

    def _watch_slots(self) -> None:
        now = time.monotonic()
        for slot in list(self._slots):
            claim = slot.claim
            if claim is not None and slot.stop_by is None:
                if self._is_returning:
                    slot.stop("returned", within_seconds=_STOP_SECONDS)
                elif now - slot.phase_since > _limit_of(slot.phase, claim) + _OVERTIME_SECONDS:
                    slot.stop("timeout", within_seconds=0)
            if slot.stop_by is not None and now > slot.stop_by:
                slot.kill()
            slot.limit_log()
            if not slot.is_running:
                self._bury(slot)

    def _remove_slot(self, slot: Slot) -> None:
        self._selector.unregister(slot.socket)
        self._slots.remove(slot)
        slot.close(within_seconds=_LAST_SECONDS)

    def _bury(self, slot: Slot) -> None:
        """A slot's process has died: remove its environment, and end or return its rollout."""
        self._listen(slot)
        if slot in self._slots:
            self._remove_slot(slot)
        claim = slot.claim
        if claim is None:
            return
        for name in remove_rollout(claim.rollout_id):
            _logger.warning("removed %s of a process that died", name)
        was_stopped = slot.stop_by is not None
        if claim.lease_id not in self._held:
            return
        reason = f"its process ended unexpectedly ({_describe_exit(slot.exit_code)})"
        if self._is_returning:
            self._forget(claim.lease_id)
            self._release([claim.lease_id], "the worker returned it")
        elif was_stopped:
            is_late = time.monotonic() - slot.phase_since > _limit_of(slot.phase, claim)
            self._record_end(claim, "timeout" if is_late else "cancelled", "it did not stop when asked, and was killed")
        else:
            # It may be the machine's fault: another attempt may do better.
            self._forget(claim.lease_id)
            self._release([claim.lease_id], reason, counts=True)
        self._tell(Event("ended", "killed" if was_stopped else reason, claim.rollout_id, time.monotonic() - slot.since))

    def _record_end(self, claim: Claim, status: str, message: str | None) -> None:
        leased = LeasedRecording(
            self._recording, rollout_id=claim.rollout_id, lease_id=claim.lease_id, run_id=claim.run_id
        )
        leased.append(
            "rollouts",
            {"id": claim.rollout_id, "status": status, "status_change_id": new_id()}
            | ({"status_message": message, "error": message} if message else {}),
        )

    # Leases --------------------------------------------------------------------------------------------------------

    def _leases(self) -> list[str]:
        with self._lock:
            return list(self._held)

    def _slot_of(self, lease_id: str) -> Slot | None:
        return next((slot for slot in self._slots if slot.claim is not None and slot.claim.lease_id == lease_id), None)

    @property
    def _busy(self) -> int:
        return sum(slot.claim is not None for slot in self._slots)

    @property
    def _has_work(self) -> bool:
        """Return whether anything that it holds has not ended; the leases of the rest end when it is delivered."""
        return bool(self._waiting) or self._busy > 0

    def _forget(self, lease_id: str) -> None:
        with self._lock:
            self._held.pop(lease_id, None)
        self._waiting.pop(lease_id, None)

    def _return_waiting(self) -> None:
        """Return what no slot has begun: all of it if the worker ends, else what has waited for too long."""
        latest = math.inf if self._is_draining else time.monotonic() - _LONGEST_WAIT_SECONDS
        waiting = [lease_id for lease_id, since in self._waiting.items() if since < latest]
        if waiting:
            # Attempts have become longer: claim no more than can begin.
            self._mean_seconds = None
            for lease_id in waiting:
                self._forget(lease_id)
            self._release(waiting, "the worker returned it")

    def _release(self, lease_ids: list[str], reason: str, *, counts: bool = False) -> None:
        try:
            QueueManager.release(self.id, lease_ids, reason=reason, counts=counts)
        except OpenManusError as error:
            # They go back to the queue when they expire.
            _logger.warning("%d rollouts could not be returned to the queue: %s", len(lease_ids), error)

    # Ending --------------------------------------------------------------------------------------------------------

    def _is_finished(self) -> bool:
        if self._held and not self._has_work and (self._until_idle or self._is_draining):
            self._renewer.hurry()
        if not self._has_work and time.monotonic() > self._end_by:
            # The database cannot be reached. What has ended is in the spool, and is delivered later.
            return True
        if self._held or (self._claimer.is_asking and self._is_draining):
            self._idle_since = time.monotonic()
            return False
        # Only after it has looked, and found nothing.
        if self._claimer.found_nothing and self._idle_since + self._idle_seconds < time.monotonic():
            return True
        return self._is_draining or (self._until_idle and self._is_idle())

    def _is_idle(self) -> bool:
        """Return whether nothing runs anywhere, and nothing waits that this worker could do."""
        if not self._claimer.found_nothing:
            return False
        try:
            queue = QueueManager.queue_overview(listed=0)
        except OpenManusError:
            return False
        if queue["held_count"]:
            return False
        if queue["waiting"]:
            self._tell(Event("note", f"{queue['waiting']} rollouts wait for another kind of worker"))
        return True

    def _end(self) -> None:
        for slot in self._slots:
            slot.close(within_seconds=_STOP_SECONDS)
        self._recording.close()
        self._claimer.close()
        self._renewer.close()
        try:
            QueueManager.retire(self.id)
        except OpenManusError as error:
            _logger.warning("the queue could not be told that this worker ends: %s", error)
        self._owner.close()


def _limit_of(phase: str, claim: Claim) -> float:
    """Return how long a phase may take; a process that is stuck longer is killed."""
    if phase == "running":
        return math.inf if claim.limits.max_seconds is None else claim.limits.max_seconds
    return {"provisioning": PROVISION_SECONDS, "verifying": VERIFY_SECONDS}.get(phase, _STOP_SECONDS)


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit code {code}"
