"""The one way to write: what goes in comes out, once, whatever is delivered again and in whatever order."""

from __future__ import annotations

import pytest

from .examples import one_of_each
from .writing import Connection, change_status, count, history, ingest, new_id, new_rollout, new_run, row, write

KINDS = list(one_of_each())


def test_there_is_an_example_of_every_kind_with_every_field(db: Connection) -> None:
    kinds = [found["kind"] for found in db.execute("select kind from internal.record_kinds() order by place")]
    assert kinds == KINDS
    for kind, record in one_of_each().items():
        columns = {found["name"] for found in db.execute("select name from internal.record_columns(%s)", [kind])}
        assert columns == set(record), f"{kind}: the example and the table differ"


def test_every_kind_round_trips(db: Connection) -> None:
    records = one_of_each()
    answer = ingest(db, {kind: [record] for kind, record in records.items()}, return_rows=True)
    assert answer["refused"] == []
    assert answer["received"] == len(records)
    for kind, record in records.items():
        stored = row(db, kind, record["id"])
        assert {name: stored[name] for name in record} == record, kind
        assert answer["rows"][kind] == [stored]


def test_the_order_of_kinds_in_a_batch_does_not_matter(db: Connection) -> None:
    records = one_of_each()
    write(db, {kind: [records[kind]] for kind in reversed(KINDS)})
    assert all(row(db, kind, record["id"]) for kind, record in records.items())


def test_a_batch_delivered_twice_changes_nothing(db: Connection) -> None:
    batch = {kind: [record] for kind, record in one_of_each().items()}
    write(db, batch)
    run_id, rollout_id = batch["training_runs"][0]["id"], batch["rollouts"][0]["id"]
    before = {kind: row(db, kind, record["id"]) for kind, (record,) in batch.items()}
    before_stats = db.execute("select * from public.rollout_stats where training_run_id = %s", [run_id]).fetchall()
    write(db, batch)
    for kind, (record,) in batch.items():
        again = row(db, kind, record["id"])
        # The row may be written again, as it was.
        assert again | {"updated_at": None} == before[kind] | {"updated_at": None}, kind
    assert (
        db.execute("select * from public.rollout_stats where training_run_id = %s", [run_id]).fetchall() == before_stats
    )
    assert history(db, rollout_id) == [(None, "success", "as found")]
    assert count(db, "status_history", training_run_id=run_id) == 4


def test_records_without_an_id_are_given_one_each(db: Connection) -> None:
    run_id = new_run(db)
    rollouts = [{"training_run_id": run_id, "environment": "a"}, {"training_run_id": run_id, "environment": "b"}]
    answer = ingest(db, {"rollouts": rollouts}, return_rows=True)
    assert [stored["environment"] for stored in answer["rows"]["rollouts"]] == ["a", "b"]


def test_a_known_id_updates_the_fields_named_and_merges_objects(db: Connection) -> None:
    run_id = new_run(db, description="first", config={"a": 1, "b": {"c": 1}}, tags=["x"])
    write(db, {"training_runs": [{"id": run_id, "config": {"b": {"d": 2}}, "algorithm": "ppo"}]})
    stored = row(db, "training_runs", run_id)
    assert stored["description"] == "first"
    assert stored["config"] == {"a": 1, "b": {"d": 2}}
    assert (stored["tags"], stored["algorithm"], stored["name"]) == (["x"], "ppo", "a run")


def test_a_turn_brings_its_tool_calls_observations_generations_and_rewards(db: Connection) -> None:
    run_id = new_run(db)
    rollout_id, turn_id, own_id = new_rollout(db, run_id), new_id(), new_id()
    turn = {
        "id": turn_id,
        "rollout_id": rollout_id,
        "step_number": 4,
        "tool_calls": [{"tool_name": "a"}, {"tool_name": "b", "id": own_id, "tool_output": {"x": 1}}],
        "observations": [{"kind": "page", "text": "t"}],
        "generations": [{"completion_ids": [1], "logprobs": [-1]}],
        "rewards": [{"reward": 1.5}, {"reward": 0.5, "reward_type": "format"}],
    }
    assert ingest(db, {"agent_states": [turn]})["received"] == 6
    write(db, {"agent_states": [turn]})
    calls = db.execute(
        "select * from public.tool_calls where agent_state_id = %s order by position", [turn_id]
    ).fetchall()
    assert [(call["tool_name"], call["position"], str(call["training_run_id"])) for call in calls] == [
        ("a", 0, run_id),
        ("b", 1, run_id),
    ]
    assert str(calls[1]["id"]) == own_id
    assert calls[1]["tool_output"] == '{"x": 1}'
    assert count(db, "observations", agent_state_id=turn_id) == 1
    assert count(db, "generations", agent_state_id=turn_id) == 1
    rewards = db.execute("select * from public.rewards where rollout_id = %s order by reward", [rollout_id]).fetchall()
    assert [(reward["reward_type"], reward["step_number"]) for reward in rewards] == [("format", 4), ("step", 4)]
    assert str(rewards[1]["id"]) == turn_id


@pytest.mark.parametrize("nested", ["tool_calls", "observations", "generations", "rewards"])
@pytest.mark.parametrize("value", ["text", 3, ["text"]])
def test_what_a_turn_brings_must_be_records(db: Connection, nested: str, value: object) -> None:
    rollout_id = new_rollout(db, new_run(db))
    turn = {"id": new_id(), "rollout_id": rollout_id, "step_number": 0, nested: value}
    (refusal,) = ingest(db, {"agent_states": [turn]})["refused"]
    assert (refusal["kind"], refusal["code"]) == (nested, "OM400")
    assert "an object is expected" in refusal["message"]
    assert count(db, "agent_states", rollout_id=rollout_id) == 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "agent_states"])
def test_only_turns_bring_records(db: Connection, kind: str) -> None:
    (refusal,) = ingest(db, {kind: [{"id": new_id(), "tool_calls": []}]})["refused"]
    assert (refusal["code"], refusal["field"]) == ("OM400", "tool_calls")


def test_what_a_refused_turn_brought_is_refused_with_it(db: Connection) -> None:
    turn = {
        "id": new_id(),
        "rollout_id": new_id(),
        "step_number": 0,
        "tool_calls": [{"tool_name": "a"}],
        "rewards": [{"reward": 1}, {"reward": 2, "reward_type": "format"}],
    }
    answer = ingest(db, {"agent_states": [turn]})
    assert [(refusal["kind"], refusal["code"]) for refusal in answer["refused"]] == [
        ("agent_states", "OM404"),
        ("tool_calls", "OM404"),
        ("rewards", "OM404"),
    ]


def test_a_child_takes_its_run_from_its_parent(db: Connection) -> None:
    records = one_of_each()
    for kind in (
        "evaluation_results",
        "rollout_groups",
        "agent_states",
        "observations",
        "generations",
        "tool_calls",
        "rewards",
        "validations",
        "media",
    ):
        del records[kind]["training_run_id"]
    del records["rollouts"]["training_run_id"]
    write(db, {kind: [record] for kind, record in records.items()})
    for kind in records:
        stored = row(db, kind, records[kind]["id"])
        if "training_run_id" in stored:
            assert stored["training_run_id"] == records["training_runs"]["id"], kind


@pytest.mark.parametrize(
    "kind",
    [
        "evaluation_results",
        "rollout_groups",
        "rollouts",
        "agent_states",
        "observations",
        "generations",
        "tool_calls",
        "rewards",
        "validations",
        "media",
    ],
)
def test_a_child_that_names_another_run_than_its_parents_is_refused_each_time(db: Connection, kind: str) -> None:
    records = one_of_each()
    record = records.pop(kind)
    after = KINDS[KINDS.index(kind) :]
    write(db, {other: [found] for other, found in records.items() if other not in after})
    other_run = new_run(db)
    for _ in range(2):
        (refusal,) = ingest(db, {kind: [record | {"training_run_id": other_run}]})["refused"]
        assert (refusal["code"], refusal["field"]) == ("OM409", "training_run_id")
    write(db, {kind: [record]})


def test_a_rollout_takes_task_environment_and_source_from_its_group(db: Connection) -> None:
    evaluation_id, group_id, rollout_id, task_id = new_id(), new_id(), new_id(), new_id()
    write(
        db,
        {
            "tasks": [{"id": task_id, "description": "find it"}],
            "evaluations": [{"id": evaluation_id, "kind": "baseline", "environment": "webshop"}],
            "rollout_groups": [{"id": group_id, "evaluation_id": evaluation_id, "number": 0, "task_id": task_id}],
            "rollouts": [{"id": rollout_id, "group_id": group_id}],
        },
    )
    stored = row(db, "rollouts", rollout_id)
    assert (stored["task_id"], stored["environment"], stored["source"]) == (task_id, "webshop", "baseline")
    assert stored["training_run_id"] is None


def test_a_row_cannot_move_to_another_parent(db: Connection) -> None:
    records = one_of_each()
    write(db, {kind: [record] for kind, record in records.items()})
    other = one_of_each()
    write(db, {kind: [record] for kind, record in other.items()})
    moves = [
        ("validators", "task_id", "tasks"),
        ("training_steps", "training_run_id", "training_runs"),
        ("model_checkpoints", "training_run_id", "training_runs"),
        ("evaluations", "training_run_id", "training_runs"),
        ("evaluation_results", "checkpoint_id", "model_checkpoints"),
        ("rollout_groups", "training_step_id", "training_steps"),
        ("rollouts", "group_id", "rollout_groups"),
        ("agent_states", "rollout_id", "rollouts"),
        ("observations", "agent_state_id", "agent_states"),
        ("generations", "agent_state_id", "agent_states"),
        ("tool_calls", "agent_state_id", "agent_states"),
        ("rewards", "rollout_id", "rollouts"),
        ("validations", "rollout_id", "rollouts"),
        ("media", "rollout_id", "rollouts"),
        ("metric_chunks", "training_run_id", "training_runs"),
    ]
    for kind, field, parent in moves:
        moved = {
            name: value for name, value in records[kind].items() if name not in ("training_run_id", "status_change_id")
        }
        moved[field] = other[parent]["id"]
        (refusal,) = ingest(db, {kind: [moved]})["refused"]
        assert refusal["code"] == "OM409", (kind, refusal)
        assert row(db, kind, moved["id"])[field] == records[kind][field], kind


def test_one_batch_may_create_and_complete_a_rollout(db: Connection) -> None:
    run_id, rollout_id = new_run(db), new_id()
    rollouts = [
        {
            "id": rollout_id,
            "training_run_id": run_id,
            "environment": "a",
            "status": "pending",
            "status_change_id": new_id(),
        },
        {"id": rollout_id, "status": "running", "status_change_id": new_id(), "status_message": "taken"},
        {"id": rollout_id, "metadata": {"a": 1}},
        {"id": rollout_id, "status": "success", "status_change_id": new_id(), "total_reward": 2, "step_count": 3},
    ]
    write(db, {"rollouts": rollouts})
    write(db, {"rollouts": rollouts})
    assert history(db, rollout_id) == [
        (None, "pending", None),
        ("pending", "running", "taken"),
        ("running", "success", None),
    ]
    stored = row(db, "rollouts", rollout_id)
    assert (stored["status"], stored["total_reward"], stored["metadata"]) == ("success", 2, {"a": 1})


def test_an_old_delivery_after_later_changes_changes_nothing(db: Connection) -> None:
    run_id, rollout_id = new_run(db), new_id()
    created = {
        "id": rollout_id,
        "training_run_id": run_id,
        "environment": "a",
        "status": "running",
        "status_change_id": new_id(),
    }
    failed = {"id": rollout_id, "status": "error", "status_change_id": new_id(), "error": "lost", "total_reward": -1}
    reopened = {"id": rollout_id, "status": "pending", "status_change_id": new_id()}
    write(db, {"rollouts": [created]})
    write(db, {"rollouts": [failed]})
    write(db, {"rollouts": [reopened]})
    before, before_history = row(db, "rollouts", rollout_id), history(db, rollout_id)
    for late in ([failed], [created], [created, failed], [failed, reopened]):
        write(db, {"rollouts": late})
        assert row(db, "rollouts", rollout_id) == before
    assert history(db, rollout_id) == before_history


def test_a_change_id_counts_for_its_own_row_alone(db: Connection) -> None:
    """A client that uses one id for the changes of many rows loses none of them."""
    run_id, change_id = new_run(db), new_id()
    ids = [new_id(), new_id()]
    for status in ("running", "success"):
        rollouts = [{"id": each, "training_run_id": run_id, "environment": "a", "status": status} for each in ids]
        write(
            db,
            {
                "rollouts": [
                    rollout | {"status_change_id": new_id() if status == "running" else change_id}
                    for rollout in rollouts
                ]
            },
        )
    assert [row(db, "rollouts", each)["status"] for each in ids] == ["success", "success"]
    assert [len(history(db, each)) for each in ids] == [2, 2]


def test_what_was_deleted_can_be_made_again(db: Connection) -> None:
    run_id = new_run(db)
    step = {"id": new_id(), "training_run_id": run_id, "step": 10, "status": "running", "status_change_id": new_id()}
    write(db, {"training_steps": [step]})
    change_status(db, "training_steps", step["id"], "completed")
    db.execute("delete from public.training_steps where id = %s", [step["id"]])
    assert history(db, step["id"]) == []
    write(db, {"training_steps": [step]})
    assert history(db, step["id"]) == [(None, "running", None)]


def test_saying_a_status_again_is_no_change(db: Connection) -> None:
    run_id = new_run(db)
    write(
        db, {"training_runs": [{"id": run_id, "status": "running", "status_change_id": new_id(), "algorithm": "ppo"}]}
    )
    assert history(db, run_id) == [(None, "running", None)]
    assert row(db, "training_runs", run_id)["algorithm"] == "ppo"


def test_children_before_their_parent_are_refused_and_taken_when_delivered_again(db: Connection) -> None:
    run_id, rollout_id = new_run(db), new_id()
    turns = {"agent_states": [{"id": new_id(), "rollout_id": rollout_id, "step_number": n} for n in range(3)]}
    assert [refusal["code"] for refusal in ingest(db, turns)["refused"]] == ["OM404"] * 3
    write(db, {"rollouts": [{"id": rollout_id, "training_run_id": run_id, "environment": "a"}]})
    write(db, turns)
    assert count(db, "agent_states", rollout_id=rollout_id) == 3


def test_a_transaction_may_ingest_more_than_once(db: Connection) -> None:
    run_id = new_run(db)
    with db.transaction():
        first = ingest(
            db, {"rollouts": [{"training_run_id": run_id, "environment": "a"}, {"training_run_id": run_id}, 7]}
        )
        second = ingest(db, {"rollouts": [{"training_run_id": run_id, "environment": "a"}]})
    assert (first["received"], len(first["refused"])) == (3, 1)
    assert (second["received"], second["refused"]) == (1, [])
    assert count(db, "rollouts", training_run_id=run_id) == 3


def test_a_metric_chunk_only_grows(db: Connection) -> None:
    run_id, chunk_id = new_run(db), new_id()

    def chunk(*values: object) -> dict[str, list[object]]:
        times = ["2026-01-01T00:00:00+00:00"] * len(values)
        steps = list(range(5, 5 + len(values)))
        return {
            "metric_chunks": [
                {
                    "id": chunk_id,
                    "training_run_id": run_id,
                    "name": "loss",
                    "steps": steps,
                    "values": list(values),
                    "times": times,
                }
            ]
        }

    write(db, chunk(1))
    write(db, chunk(1, "NaN", "Infinity"))
    write(db, chunk(1, "NaN"))
    stored = row(db, "metric_chunks", chunk_id)
    assert stored["values"] == [1, "NaN", "Infinity"]
    assert (stored["first_step"], stored["last_step"]) == (5, 7)


def test_change_status_keeps_nulls_inside_an_object(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db))
    stored = change_status(
        db, "rollouts", rollout_id, "success", fields={"result": {"answer": None}, "total_reward": None}
    )
    assert stored["result"] == {"answer": None}
