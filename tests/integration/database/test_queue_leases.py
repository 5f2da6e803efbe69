"""A worker writes under its lease: who has lost it writes nothing, and what was written before is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, tuple_row

from openmanus_rl.transport.loading import Loader

from .queues import Queue, broken_rules, call
from .writing import Batch, Connection, Record, count, ingest, load_text, new_id, new_run, row, write

Write = Callable[[Connection, str | None, Batch], list[Record]]


def by_ingest(db: Connection, lease_id: str | None, batch: Batch) -> list[Record]:
    return list(call(db, "ingest", batch=batch, leases=lease_id and [lease_id])["refused"])


def by_copy(db: Connection, lease_id: str | None, batch: Batch) -> list[Record]:
    """Load a batch as the courier does where it can connect to Postgres."""
    loader = Loader("")
    loader._connection = db  # type: ignore[assignment]
    db.row_factory = tuple_row  # type: ignore[assignment]
    try:
        with db.transaction():
            db.execute("select set_config('openmanus_rl.leases', %s, true)", [lease_id or ""])
            return loader.load(batch)
    finally:
        db.row_factory = dict_row


def by_text(db: Connection, lease_id: str | None, batch: Batch) -> list[Record]:
    """Load a batch as the courier does where it knows only the API."""
    return list(load_text(db, batch, leases=[lease_id] if lease_id else [])["refused"])


WAYS: dict[str, Write] = {"ingest": by_ingest, "COPY": by_copy, "text": by_text}


@pytest.fixture(params=sorted(WAYS))
def write_batch(request: pytest.FixtureRequest) -> Write:
    return WAYS[request.param]


class Attempt:
    """A rollout that a worker has, with one of everything recorded."""

    def __init__(self, db: Connection, write_batch: Write = by_ingest, **request: Any) -> None:
        self.db, self.write_batch, self.queue = db, write_batch, Queue(db)
        self.queue.request(**request)
        self.id, self.lease = self.queue.lease()
        self.turns = [new_id(), new_id()]
        assert self.write({"rollouts": [{"id": self.id, "status": "running"}], **self.batch(self.turns)}) == []

    def write(self, batch: Batch, lease: str | None = "mine") -> list[Record]:
        return self.write_batch(self.db, self.lease if lease == "mine" else lease, batch)

    def batch(self, turns: list[str], *, first: int = 0) -> Batch:
        """Turns whose chat goes on from one to the next, with all that can be said of a rollout."""
        return {
            "agent_states": [
                {
                    "id": turn, "rollout_id": self.id, "step_number": first + n, "reward": 0.5,
                    "messages": [{"role": "user", "content": f"message {first + n}"}], "messages_from": first + n,
                    "chat": [0, first + n + 1],
                }
                for n, turn in enumerate(turns)
            ],
            **self.parts(turns),
            "rewards": [{"id": new_id(), "rollout_id": self.id, "reward_type": f"outcome {first}", "reward": 1}],
            "validations": [
                {"id": new_id(), "rollout_id": self.id, "validator_name": f"exact {first}", "verdict": "pass"}
            ],
            "media": [{"id": new_id(), "rollout_id": self.id, "kind": "video", "path": "v.webm"}],
        }  # fmt: skip

    def parts(self, turns: list[str]) -> Batch:
        return {
            "tool_calls": [
                {"id": new_id(), "agent_state_id": turn, "tool_name": "shell", "position": 0} for turn in turns
            ],
            "observations": [{"id": new_id(), "agent_state_id": turn, "kind": "page", "position": 0} for turn in turns],
            "generations": [
                {"id": new_id(), "agent_state_id": turn, "completion_ids": [1, 2], "position": 0} for turn in turns
            ],
        }

    def late(self) -> dict[str, Batch]:
        """What a worker that lost the rollout may still deliver, one kind at a time, and all at once."""
        new, known = new_id(), self.turns[0]
        whole = self.batch([new], first=7)
        ways: dict[str, Batch] = {kind: {kind: whole[kind]} for kind in ("agent_states", "rewards", "validations")}
        ways |= {
            f"{kind} of a known turn": {kind: [{**record, "position": 9} for record in records]}
            for kind, records in self.parts([known]).items()
        }
        ways["media of the rollout"] = {"media": whole["media"]}
        ways["media of a turn"] = {
            "media": [{"id": new_id(), "agent_state_id": known, "kind": "screenshot", "path": "s.png"}]
        }
        ways["its end"] = {"rollouts": [{"id": self.id, "status": "success", "total_reward": 9}]}
        ways["its result"] = {"rollouts": [{"id": self.id, "result": {"answer": "late"}}]}
        ways["its notes"] = {"rollouts": [{"id": self.id, "metadata": {"late": True}}]}
        ways["everything"] = {"rollouts": [{"id": self.id, "status": "failed"}], **whole}
        return ways

    def everything(self) -> dict[str, list[Record]]:
        """All that is known of the rollout and of its lost attempts."""
        mine = "(select id from public.rollouts where id = %(id)s or attempt_of = %(id)s)"
        tables = {
            "public.rollouts": f"id in {mine}",
            **dict.fromkeys(
                ("public.agent_states", "internal.rewards", "public.validations", "public.media"),
                f"rollout_id in {mine}",
            ),
        }
        of_turn = f"agent_state_id in (select a.id from public.agent_states a where a.rollout_id in {mine})"
        found = {}
        for table, condition in tables.items():
            found[table] = self._rows(table, condition)
        for table in ("tool_calls", "observations", "generations", "media"):
            found[f"{table} of turns"] = self._rows(f"public.{table}", of_turn)
        return found

    def _rows(self, table: str, condition: str) -> list[Record]:
        query = f"select to_jsonb(t) as row from {table} t where {condition} order by id"
        return [each["row"] for each in self.db.execute(query, {"id": self.id})]


def lose(attempt: Attempt, how: str) -> None:
    """Take the rollout away from its worker, and let others go on with it as far as `how` says."""
    queue, end = attempt.queue, {"ended by another": "success", "failed by another": "error"}
    if how == "cancelled":
        call(attempt.db, "cancel_rollouts", rollout_ids=[attempt.id])
    if how == "released":
        assert queue.release(attempt.lease) == 1
    else:
        queue.reclaim(attempt.id)
    if how in ("pending", "cancelled", "error", "released"):
        return
    rollout_id, lease_id = queue.lease()
    assert rollout_id == attempt.id
    if how in end:
        assert queue.end(rollout_id, lease_id, end[how]) == []
    if how == "failed by another":
        call(attempt.db, "retry_rollouts", rollout_ids=[attempt.id])


LOST = [
    "pending", "released", "leased by another", "ended by another", "failed by another", "cancelled", "error",
]  # fmt: skip


@pytest.mark.parametrize("how", LOST)
def test_a_worker_that_lost_its_lease_writes_nothing(db: Connection, write_batch: Write, how: str) -> None:
    attempt = Attempt(db, write_batch, max_attempts=1 if how == "error" else 3)
    lose(attempt, how)
    before = attempt.everything()
    for name, batch in attempt.late().items():
        refused = attempt.write(batch)
        written = {kind: len(records) for kind, records in batch.items()}
        told: dict[str, int] = {}
        for each in refused:
            told[each["kind"]] = told.get(each["kind"], 0) + 1
            assert each["code"] in ("OM409", "OM404"), each
        assert told == written, name
        assert attempt.everything() == before, name
    assert broken_rules(db) == []


def test_late_batches_after_the_rollout_is_gone_leave_nothing(db: Connection, write_batch: Write) -> None:
    attempt = Attempt(db, write_batch)
    call(db, "delete_rollouts", rollout_ids=[attempt.id])
    attempt.queue.reclaim(attempt.id)
    for name, batch in attempt.late().items():
        refused = attempt.write(batch)
        assert len(refused) == sum(map(len, batch.values())), name
    late = {"id": attempt.id, "environment": "e", "training_run_id": new_run(db)}
    assert [each["code"] for each in attempt.write({"rollouts": [late]})] == ["OM404"]
    assert not any(attempt.everything().values())


@pytest.mark.parametrize("lease", [None, new_id(), "00000000-0000-0000-0000-000000000000"], ids=["none", "new", "nil"])
def test_nobody_else_adds_to_what_a_worker_has(db: Connection, write_batch: Write, lease: str | None) -> None:
    attempt = Attempt(db, write_batch)
    before = attempt.everything()
    for name, batch in attempt.late().items():
        if name == "its notes" and lease is None:
            continue
        assert len(attempt.write(batch, lease)) == sum(map(len, batch.values())), name
        assert attempt.everything() == before, name
    assert attempt.write(attempt.late()["everything"]) == []


def test_nobody_adds_to_what_waits(db: Connection, write_batch: Write) -> None:
    queue = Queue(db)
    (waiting,) = queue.request()
    for lease in (None, new_id()):
        refused = write_batch(db, lease, {"agent_states": [{"id": new_id(), "rollout_id": waiting, "step_number": 0}]})
        assert [(each["code"], each["field"]) for each in refused] == [("OM409", "rollout_id")]


def test_a_lease_opens_its_own_rollout_and_no_other(db: Connection, write_batch: Write) -> None:
    mine, others = Attempt(db, write_batch), Attempt(db, write_batch)
    recorded = new_id()
    write(db, {"rollouts": [{"id": recorded, "environment": "e"}]})
    turns = [{"id": new_id(), "rollout_id": each, "step_number": 50} for each in (mine.id, others.id, recorded)]
    refused = mine.write({"agent_states": turns})
    assert {each["id"] for each in refused} == {turns[1]["id"], turns[2]["id"]}
    assert count(db, "agent_states", id=turns[0]["id"]) == 1
    media = {"rollout_id": mine.id, "agent_state_id": others.turns[0], "kind": "image", "path": "p"}
    assert [each["code"] for each in mine.write({"media": [{"id": new_id(), **media}]})] == ["OM409"]


def test_what_a_worker_still_has_to_deliver_after_the_end_is_taken(db: Connection, write_batch: Write) -> None:
    """A spool may be delivered in any number of batches."""
    attempt = Attempt(db, write_batch)
    assert attempt.write({"rollouts": [{"id": attempt.id, "status": "success"}]}) == []
    assert attempt.write({**attempt.batch([new_id()], first=5), **attempt.parts([])}) == []
    assert attempt.write({"rollouts": [{"id": attempt.id, "video_path": "v.webm"}]}) == []


def test_a_batch_of_a_worker_again_changes_nothing(db: Connection, write_batch: Write) -> None:
    attempt = Attempt(db, write_batch)
    batch = {"rollouts": [{"id": attempt.id, "status": "success", "status_change_id": new_id()}],
             **attempt.batch([new_id()], first=5)}  # fmt: skip
    assert attempt.write(batch) == []
    before = attempt.everything()
    assert attempt.write(batch) == []
    assert attempt.everything() == before


def test_other_rollouts_of_a_batch_are_written_where_one_is_refused(db: Connection, write_batch: Write) -> None:
    attempt, run_id, plain = Attempt(db, write_batch), new_run(db), new_id()
    turns = [{"id": new_id(), "rollout_id": each, "step_number": 9} for each in (plain, attempt.id)]
    rollout = {"id": plain, "training_run_id": run_id}
    refused = attempt.write({"rollouts": [rollout], "agent_states": turns}, None)
    assert [each["id"] for each in refused] == [turns[1]["id"]]
    assert count(db, "agent_states", rollout_id=plain) == 1


def test_the_setting_ends_with_the_batch(db: Connection) -> None:
    """Sessions are shared: what one worker wrote under its lease opens nothing for the next caller."""
    attempt = Attempt(db)
    with db.transaction():
        attempt.write({"rollouts": [{"id": attempt.id, "metadata": {"a": 1}}]})
        assert len(attempt.write({"rollouts": [{"id": attempt.id, "status": "success"}]}, None)) == 1
    with pytest.raises(psycopg.Error), db.transaction():
        db.execute("select public.ingest('{\"rollouts\": 1}', leases => array[%s::uuid])", [attempt.lease])
    assert len(attempt.write({"rollouts": [{"id": attempt.id, "status": "success"}]}, None)) == 1


# Lost attempts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["expiry", "release", "retire", "retry"])
def test_a_lost_attempt_keeps_all_that_it_recorded(db: Connection, how: str) -> None:
    attempt = Attempt(db)
    attempt.write({"media": [{"agent_state_id": attempt.turns[1], "kind": "screenshot", "path": "s.png"}]})
    before = attempt.everything()
    if how == "retry":
        attempt.queue.end(attempt.id, attempt.lease, "error")
        call(db, "retry_rollouts", rollout_ids=[attempt.id])
    elif how == "expiry":
        attempt.queue.reclaim(attempt.id)
    elif how == "release":
        attempt.queue.release(attempt.lease)
    else:
        call(db, "retire_worker", worker_id=attempt.queue.worker)
    (aside,) = attempt.queue.asides(attempt.id)
    after = attempt.everything()

    def unplaced(rows: list[Record]) -> list[Record]:
        # The id of a verdict is derived from its rollout.
        moved = ("rollout_id", "updated_at", *(["id"] if rows and "verdict" in rows[0] else []))
        return [{name: value for name, value in each.items() if name not in moved} for each in rows]

    for table in before.keys() - {"public.rollouts"}:
        assert before[table] != [], table
        assert unplaced(after[table]) == unplaced(before[table]), table
        assert {each["rollout_id"] for each in after[table] if each.get("rollout_id")} <= {aside["id"]}, table
    assert (aside["status"], aside["attempt"], aside["step_count"]) == ("interrupted", 1, 2)
    assert aside["worker_id"] == attempt.queue.worker
    assert (aside["lease_id"], aside["request"], aside["cache_key"], aside["group_id"]) == (None,) * 4
    assert len(call(db, "turn_chat", agent_state_id=attempt.turns[1])) == 2
    # The next attempt begins with turn 0.
    rollout_id, lease_id = attempt.queue.lease(worker=attempt.queue.register())
    again = {**attempt.batch([new_id()]), "rollouts": [{"id": rollout_id, "status": "success"}]}
    assert by_ingest(db, lease_id, again) == []
    assert count(db, "agent_states", rollout_id=attempt.id) == 1
    assert count(db, "agent_states", rollout_id=aside["id"]) == 2


def test_an_attempt_that_recorded_nothing_is_not_set_aside(db: Connection) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, _ = queue.lease()
    queue.reclaim(rollout_id)
    assert (queue.asides(rollout_id), queue.status(rollout_id)) == ([], "pending")


def test_logs_of_a_start_that_failed_are_kept_when_it_is_tried_again(db: Connection) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    queue.end(rollout_id, lease_id, "error", error="the image is missing", logs_path="l.txt")
    call(db, "retry_rollouts", rollout_ids=[rollout_id])
    (aside,) = queue.asides(rollout_id)
    assert (aside["error"], aside["logs_path"]) == ("the image is missing", "l.txt")


def test_a_rollout_is_tried_as_often_as_was_asked_and_then_ends_in_error(db: Connection) -> None:
    queue = Queue(db)
    (rollout_id,) = queue.request(max_attempts=3)
    for attempt in (1, 2, 3):
        (claim,) = queue.claim()
        assert claim["rollout"]["attempt"] == attempt
        turn = {"id": new_id(), "rollout_id": rollout_id, "step_number": 0}
        assert queue.write(claim["lease_id"], agent_states=[turn]) == []
        queue.reclaim(rollout_id)
    ended = row(db, "rollouts", rollout_id)
    assert (ended["status"], ended["attempt"], ended["step_count"]) == ("error", 3, 1)
    assert "attempt 3 of 3" in ended["error"]
    assert [each["attempt"] for each in queue.asides(rollout_id)] == [1, 2]
    # The last attempt's turns stay where they are.
    assert row(db, "agent_states", turn["id"])["rollout_id"] == rollout_id
    assert queue.claim(5) == []


def test_returning_a_rollout_does_not_count_unless_it_is_said_to(db: Connection) -> None:
    queue = Queue(db)
    (rollout_id,) = queue.request(max_attempts=2)
    for _ in range(5):
        assert queue.release(queue.lease()[1]) == 1
    assert (queue.status(rollout_id), row(db, "rollouts", rollout_id)["attempt"]) == ("pending", 1)
    assert queue.release(queue.lease()[1], counts=None) == 1
    assert row(db, "rollouts", rollout_id)["attempt"] == 1
    queue.release(queue.lease()[1], counts=True, reason="no memory")
    found = row(db, "rollouts", rollout_id)
    assert (found["status"], found["attempt"], found["status_message"]) == ("pending", 2, "no memory")
    queue.release(queue.lease()[1], counts=True, reason="no memory")
    assert queue.status(rollout_id) == "error"


def test_a_lease_is_returned_renewed_and_lost_once_and_by_its_worker_alone(db: Connection) -> None:
    queue = Queue(db)
    queue.request(attempts=2)
    other = queue.register()
    _, first = queue.lease()
    _, second = queue.lease(worker=other)
    assert queue.release(second) == 0
    assert queue.renew(first, second) == queue.renew(first)
    assert queue.release(second, worker=other) == 1
    assert (queue.release(second, worker=other), queue.renew(second, worker=other)) == (0, [])
    assert queue.claim(worker=other)[0]["lease_id"] not in (first, second)


def test_a_renewed_lease_does_not_run_out(db: Connection) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    queue.expire(rollout_id)
    assert len(queue.renew(lease_id)) == 1
    db.execute("select internal.reclaim_expired()")
    assert queue.lease_of(rollout_id) == lease_id


def test_an_expired_lease_goes_to_whoever_claims_next(db: Connection) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    queue.expire(rollout_id)
    again, other = queue.lease(worker=queue.register())
    assert again == rollout_id
    assert other != lease_id
    assert [queue.renew(each) for each in (lease_id, other)] == [[], []]


def test_two_hundred_rollouts_of_a_dead_worker_are_all_taken_back(db: Connection) -> None:
    queue = Queue(db)
    queue.request(attempts=200)
    taken = {claim["rollout"]["id"] for claim in queue.claim(200)}
    queue.expire(*taken)
    other = queue.register()
    again = {claim["rollout"]["id"] for _ in range(3) for claim in queue.claim(100, worker=other)}
    assert again == taken
    assert broken_rules(db) == []


def test_ingest_under_a_lease_can_be_all_or_nothing(db: Connection) -> None:
    attempt = Attempt(db)
    lose(attempt, "leased by another")
    with pytest.raises(psycopg.Error) as caught:
        call(db, "ingest", batch=attempt.late()["agent_states"], leases=[attempt.lease], all_or_nothing=True)
    assert caught.value.sqlstate == "OM409"
    assert ingest(db, {})["refused"] == []
