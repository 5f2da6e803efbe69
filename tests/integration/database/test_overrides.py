"""A person's word on a rollout: who may say it, what follows from it, and that the machine does not take it back."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from .writing import (
    Connection,
    Record,
    acting_as,
    change_status,
    count,
    history,
    ingest,
    new_group,
    new_id,
    new_member,
    new_rollout,
    new_run,
    row,
    write,
)


def override(db: Connection, rollout_id: str, verdict: str | None, reason: str | None = "seen", **more: Any) -> Record:
    named = "".join(f", {name} => %({name})s" for name in more)
    answer = db.execute(
        f"select public.override_validation(%(rollout)s, %(verdict)s, %(reason)s{named}) as answer",
        {"rollout": rollout_id, "verdict": verdict, "reason": reason, **more},
    ).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def code_of(db: Connection, *arguments: Any, **more: Any) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught, db.transaction():
        override(db, *arguments, **more)
    return caught.value.sqlstate, caught.value.diag.column_name


def overrides(db: Connection, rollout_id: str) -> list[tuple[str | None, str, str, str]]:
    """Return (verdict, reason, old status, new status) of every override, oldest first."""
    rows = db.execute(
        "select verdict, reason, old_status, new_status from public.validation_overrides"
        " where rollout_id = %s order by created_at, id",
        [rollout_id],
    )
    return [(o["verdict"], o["reason"], o["old_status"], o["new_status"]) for o in rows]


@pytest.mark.parametrize("status", ["success", "failed", "completed", "truncated", "timeout"])
def test_a_person_judges_anew_and_withdraws(db: Connection, status: str) -> None:
    rollout_id = new_rollout(db, new_run(db), status=status)
    answer = override(db, rollout_id, "pass", "it did")
    assert (answer["rollout"]["status"], answer["rollout"]["status_message"]) == ("success", "it did")
    assert answer["override"]["old_status"] == status
    assert override(db, rollout_id, "fail", "it did not")["rollout"]["status"] == "failed"
    withdrawn = override(db, rollout_id, None, "it did not")["rollout"]
    assert withdrawn == row(db, "rollouts", rollout_id)
    assert (withdrawn["status"], withdrawn["status_message"]) == (status, "it did not")
    assert overrides(db, rollout_id) == [
        ("pass", "it did", status, "success"),
        ("fail", "it did not", "success", "failed"),
        (None, "it did not", "failed", status),
    ]


def test_who_withdrew_may_override_again(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db), status="failed")
    override(db, rollout_id, "pass")
    override(db, rollout_id, None)
    change_status(db, "rollouts", rollout_id, "truncated")
    override(db, rollout_id, "pass")
    assert override(db, rollout_id, None)["rollout"]["status"] == "truncated"
    assert code_of(db, rollout_id, None, "once more") == ("OM409", "verdict")
    assert code_of(db, new_rollout(db, new_run(db), status="failed"), None) == ("OM409", "verdict")


def test_totals_follow(db: Connection) -> None:
    run_id, evaluation_id = new_run(db), new_id()
    write(db, {"evaluations": [{"id": evaluation_id, "training_run_id": run_id, "status": "running"}]})
    group_id = new_id()
    write(db, {"rollout_groups": [{"id": group_id, "evaluation_id": evaluation_id, "number": 0}]})
    ids = [new_rollout(db, None, group_id=group_id, status="failed") for _ in range(2)]
    change_status(db, "evaluations", evaluation_id, "completed")

    def totals() -> tuple[int, int, float]:
        counted = db.execute(
            "select sum(success_count)::int as n from public.rollout_stats where training_run_id = %s", [run_id]
        ).fetchone()
        assert counted is not None
        rate = row(db, "evaluations", evaluation_id)["success_rate"]
        return counted["n"], row(db, "rollout_groups", group_id)["success_count"], rate

    assert totals() == (0, 0, 0)
    override(db, ids[0], "pass")
    assert totals() == (1, 1, 0.5)
    override(db, ids[0], None)
    assert totals() == (0, 0, 0)


def test_the_same_word_twice_changes_nothing(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db), status="failed")
    first = override(db, rollout_id, "pass", "it did")
    assert override(db, rollout_id, "pass", "it did") == first
    assert len(overrides(db, rollout_id)) == 1
    assert override(db, rollout_id, "pass", "it did, see turn 3")["override"]["id"] != first["override"]["id"]
    assert [new for _, new, _ in history(db, rollout_id)] == ["failed", "success"]
    withdrawn = override(db, rollout_id, None, "on reflection")
    assert override(db, rollout_id, None, "on reflection") == withdrawn
    assert len(overrides(db, rollout_id)) == 3


def test_a_word_that_agrees_with_the_machine_is_kept_too(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db), status="success")
    assert override(db, rollout_id, "pass", "looked at it")["rollout"]["status_message"] == "looked at it"
    change_status(db, "rollouts", rollout_id, "failed")
    assert row(db, "rollouts", rollout_id)["status"] == "success"


@pytest.mark.parametrize("change_id", [None, new_id()], ids=["without a change id", "with a change id"])
def test_what_is_delivered_again_does_not_undo_an_override(db: Connection, change_id: str | None) -> None:
    rollout = {
        "id": new_id(),
        "training_run_id": new_run(db),
        "environment": "a",
        "status": "failed",
        "total_reward": 1,
    }
    rollout |= {"status_message": "no", "status_change_id": change_id}
    write(db, {"rollouts": [rollout]})
    override(db, rollout["id"], "pass", "it did")
    for _ in range(2):
        assert ingest(db, {"rollouts": [rollout | {"total_reward": 2}]})["refused"] == []
    kept = row(db, "rollouts", rollout["id"])
    assert (kept["status"], kept["status_message"]) == ("success", "it did")
    if change_id is None:
        assert kept["total_reward"] == 2, "all but the status is the recorder's to say"

    assert override(db, rollout["id"], None)["rollout"]["status"] == "failed"
    change_status(db, "rollouts", rollout["id"], "truncated")
    assert row(db, "rollouts", rollout["id"])["status"] == "truncated", "nothing stands in the way any more"


def test_an_overridden_rollout_is_marked_until_it_is_withdrawn(db: Connection) -> None:
    run_id = new_run(db)
    rollout_id = new_rollout(db, run_id, status="failed")

    def is_marked() -> bool:
        found = db.execute(
            "select public.find_rollouts(jsonb_build_object('training_run_id', %s::text))"
            " -> 'rollouts' -> 0 -> 'overridden' as marked",
            [run_id],
        ).fetchone()
        assert found is not None
        return bool(found["marked"])

    assert not is_marked()
    override(db, rollout_id, "fail")
    assert is_marked()
    override(db, rollout_id, None)
    assert not is_marked()


@pytest.mark.parametrize("status", ["pending", "running", "interrupted", "cancelled", "error"])
def test_what_has_not_completed_is_not_judged(db: Connection, status: str) -> None:
    rollout_id = new_rollout(db, new_run(db), status=status)
    assert code_of(db, rollout_id, "pass") == ("OM409", "rollout_id")
    assert row(db, "rollouts", rollout_id)["status"] == status


@pytest.mark.parametrize(
    ("verdict", "reason", "field"),
    [
        ("maybe", "x", "verdict"),
        ("", "x", "verdict"),
        ("pass", "", "reason"),
        ("pass", " \n", "reason"),
        ("pass", None, "reason"),
        ("pass", "x" * 2001, "reason"),
        (None, "", "reason"),
    ],
    ids=["maybe", "empty verdict", "empty reason", "blank reason", "no reason", "long reason", "withdrawn without"],
)
def test_a_bad_word_is_refused(db: Connection, verdict: str | None, reason: str | None, field: str) -> None:
    rollout_id = new_rollout(db, new_run(db), status="failed")
    assert code_of(db, rollout_id, verdict, reason) == ("OM400", field)


def test_unknown_ids_are_named(db: Connection) -> None:
    rollout_id, other_id = (new_rollout(db, new_run(db), status="failed") for _ in range(2))
    validation = {"id": new_id(), "rollout_id": other_id, "verdict": "fail"}
    write(db, {"validations": [validation]})
    assert code_of(db, new_id(), "pass") == ("OM404", "rollout_id")
    assert code_of(db, rollout_id, "pass", validation_id=new_id()) == ("OM404", "validation_id")
    assert code_of(db, rollout_id, "pass", validation_id=validation["id"]) == ("OM404", "validation_id")
    answer = override(db, other_id, "pass", validation_id=validation["id"])
    assert answer["override"]["validation_id"] == validation["id"]
    assert row(db, "validations", str(validation["id"]))["verdict"] == "fail", "what the machine said is kept"


def test_only_who_may_change_a_rollout_overrides_and_is_named(db: Connection) -> None:
    owner, other, viewer, admin = (new_member(db, role) for role in ("editor", "editor", "viewer", "admin"))
    db.execute("update public.members set display_name = 'Ada' where user_id = %s", [owner])
    rollout_id = new_rollout(db, new_run(db, owner_id=owner), status="failed")
    for actor in (other, viewer):
        with acting_as(db, user_id=actor):
            assert code_of(db, rollout_id, "pass") == ("OM403", "rollout_id")
    with acting_as(db, user_id=new_member(db, None)):
        assert code_of(db, rollout_id, "pass") == ("OM404", "rollout_id")
    with acting_as(db, user_id=owner):
        made = override(db, rollout_id, "pass", "mine")["override"]
    assert (made["made_by"], made["made_by_name"]) == (owner, "Ada")
    with acting_as(db, user_id=admin):
        assert override(db, rollout_id, "fail", "no")["override"]["made_by"] == admin
    with acting_as(db, role="service_role"):
        assert override(db, rollout_id, "pass", "by script")["override"]["made_by"] is None
    with acting_as(db, user_id=viewer):
        assert len(overrides(db, rollout_id)) == 3


def test_overrides_are_not_written_by_hand(db: Connection) -> None:
    admin = new_member(db, "admin")
    rollout_id = new_rollout(db, new_run(db), status="failed")
    override(db, rollout_id, "pass")
    for statement in (
        "insert into public.validation_overrides (rollout_id, reason, old_status, new_status)"
        " values (%s, 'x', 'a', 'b')",
        "update public.validation_overrides set reason = 'x' where rollout_id = %s",
        "delete from public.validation_overrides where rollout_id = %s",
    ):
        with acting_as(db, user_id=admin), pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
            db.execute(statement, [rollout_id])


def test_overrides_go_with_their_rollout(db: Connection) -> None:
    group_id = new_group(db, new_run(db))
    rollout_id = new_rollout(db, None, group_id=group_id, status="failed")
    override(db, rollout_id, "pass")
    db.execute("delete from public.rollouts where id = %s", [rollout_id])
    assert count(db, "validation_overrides", rollout_id=rollout_id) == 0
