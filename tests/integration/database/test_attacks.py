"""What a member with a token and a grudge might try, over HTTP: none of it works, and nothing is changed by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from .actors import ADMIN, OTHER, OWNER, PUBLISHABLE, STRANGER, VIEWER, World, populated
from .writing import Record, new_id, one_of_each


@pytest.fixture(scope="module")
def world(stack: Any) -> Iterator[World]:
    """The attacker, OTHER, has a run of its own beside the owner's."""
    with populated(
        stack.url, stack.database_url, publishable_key=stack.publishable_key, secret_key=stack.secret_key
    ) as world:
        records = one_of_each(status="running")
        assert world.ingest(OTHER, **{kind: [record] for kind, record in records.items()}) == []
        world.records["attacker's"] = records
        yield world


TABLES = list(one_of_each())


def snapshot(world: World) -> Record:
    """Return all rows of the owner's runs and of the members, as text that changes with any of them."""
    found = {}
    owners = {str(world.run_id(visibility)) for visibility in ("private", "public")}
    for table in [*TABLES, "members", "status_history", "rollout_stats"]:
        rows = world.db.execute(f"select to_jsonb(t) - 'heartbeat_at' - 'updated_at' as row from public.{table} t").fetchall()
        kept = [row["row"] for row in rows]
        if table not in ("members", "environments", "tasks", "validators"):
            run = "id" if table == "training_runs" else "training_run_id"
            kept = [row for row in kept if row[run] in owners]
        found[table] = sorted(map(str, kept))
    return found


Attack = Callable[[World, Record, Record], httpx.Response]


def post(table: str, **headers: str) -> Callable[..., Any]:
    def build(make: Callable[[World, Record, Record], Any], actor: str = OTHER) -> Attack:
        return lambda world, his, mine: world.call(actor, "POST", f"/rest/v1/{table}", json=make(world, his, mine), headers=headers)

    return build


def patch(table: str, of: str, make: Callable[[World, Record, Record], Any], actor: str = OTHER) -> Attack:
    """Change a row of the owner's ("his") or of the attacker's ("mine")."""
    return lambda world, his, mine: world.call(
        actor, "PATCH", f"/rest/v1/{table}", params={"id": f"eq.{(his if of == 'his' else mine)[table]['id']}"}, json=make(world, his, mine)
    )


def turn_of(rollout: Record, run: Record) -> Record:
    return {"id": new_id(), "rollout_id": rollout["id"], "training_run_id": run["id"], "step_number": 77}


UPSERT = {"Prefer": "resolution=merge-duplicates"}

ATTACKS: dict[str, Attack] = {
    "a turn in another's rollout, under his run": post("agent_states")(lambda w, h, m: turn_of(h["rollouts"], h["training_runs"])),
    "a turn in another's rollout, under my run": post("agent_states")(lambda w, h, m: turn_of(h["rollouts"], m["training_runs"])),
    "a turn in my rollout, under his run": post("agent_states")(lambda w, h, m: turn_of(m["rollouts"], h["training_runs"])),
    "a tool call in another's turn, under my run": post("tool_calls")(
        lambda w, h, m: {"agent_state_id": h["agent_states"]["id"], "training_run_id": m["training_runs"]["id"], "tool_name": "x", "position": 9}
    ),
    "a reward for another's rollout, under my run": post("rewards")(
        lambda w, h, m: {"rollout_id": h["rollouts"]["id"], "training_run_id": m["training_runs"]["id"], "reward": 100, "reward_type": "x"}
    ),
    "a verdict on another's rollout, under my run": post("validations")(
        lambda w, h, m: {"rollout_id": h["rollouts"]["id"], "training_run_id": m["training_runs"]["id"], "verdict": "fail"}
    ),
    "a rollout of my run in another's group": post("rollouts")(
        lambda w, h, m: {"training_run_id": m["training_runs"]["id"], "group_id": h["rollout_groups"]["id"], "environment": "a"}
    ),
    "a rollout without a run in another's group": post("rollouts")(lambda w, h, m: {"group_id": h["rollout_groups"]["id"], "environment": "a"}),
    "a group of my run on another's step": post("rollout_groups")(
        lambda w, h, m: {"training_run_id": m["training_runs"]["id"], "training_step_id": h["training_steps"]["id"], "number": 9}
    ),
    "a group of my run on another's evaluation": post("rollout_groups")(
        lambda w, h, m: {"training_run_id": m["training_runs"]["id"], "evaluation_id": h["evaluations"]["id"], "number": 9}
    ),
    "a result of my checkpoint in another's evaluation": post("evaluation_results")(
        lambda w, h, m: {"checkpoint_id": m["model_checkpoints"]["id"], "training_run_id": m["training_runs"]["id"],
                         "evaluation_id": h["evaluations"]["id"], "environment": "x"}
    ),
    "a result of another's checkpoint": post("evaluation_results")(
        lambda w, h, m: {"checkpoint_id": h["model_checkpoints"]["id"], "training_run_id": m["training_runs"]["id"], "environment": "x"}
    ),
    "a picture in another's rollout": post("media")(
        lambda w, h, m: {"training_run_id": m["training_runs"]["id"], "rollout_id": h["rollouts"]["id"], "kind": "frame", "path": "x"}
    ),
    "a validator for another's task": post("validators")(lambda w, h, m: {"task_id": h["tasks"]["id"], "external_id": "x", "kind": "x"}),
    "a run in another's name": post("training_runs")(lambda w, h, m: {"name": "his", "owner_id": w.user_ids[OWNER]}),
    "a rollout without a run in another's name": post("rollouts")(lambda w, h, m: {"environment": "a", "owner_id": w.user_ids[OWNER]}),
    "an upsert over another's run": post("training_runs", **UPSERT)(lambda w, h, m: {"id": h["training_runs"]["id"], "name": "mine now"}),
    "an upsert over another's run in my name": post("training_runs", **UPSERT)(
        lambda w, h, m: {"id": h["training_runs"]["id"], "name": "mine now", "owner_id": w.user_ids[OTHER]}
    ),
    "an upsert over another's turn": post("agent_states", **UPSERT)(
        lambda w, h, m: turn_of(m["rollouts"], m["training_runs"]) | {"id": h["agent_states"]["id"], "action": "changed"}
    ),
    "an upsert over another's environment": post("environments", **UPSERT)(lambda w, h, m: {"id": h["environments"]["id"], "name": "mine"}),
    "owning another's run": patch("training_runs", "his", lambda w, h, m: {"owner_id": w.user_ids[OTHER]}),
    "giving my run away": patch("training_runs", "mine", lambda w, h, m: {"owner_id": w.user_ids[OWNER]}),
    "disowning my run": patch("training_runs", "mine", lambda w, h, m: {"owner_id": None}),
    "moving my rollout into another's run": patch("rollouts", "mine", lambda w, h, m: {"training_run_id": h["training_runs"]["id"]}),
    "moving another's rollout into my run": patch("rollouts", "his", lambda w, h, m: {"training_run_id": m["training_runs"]["id"]}),
    "moving my rollout into another's group": patch("rollouts", "mine", lambda w, h, m: {"group_id": h["rollout_groups"]["id"]}),
    "moving my turn into another's rollout": patch("agent_states", "mine", lambda w, h, m: {"rollout_id": h["rollouts"]["id"]}),
    "moving my checkpoint into another's run": patch("model_checkpoints", "mine", lambda w, h, m: {"training_run_id": h["training_runs"]["id"]}),
    "moving my metrics into another's run": patch("metric_chunks", "mine", lambda w, h, m: {"training_run_id": h["training_runs"]["id"]}),
    "counting up my own group": patch("rollout_groups", "mine", lambda w, h, m: {"success_count": 1000, "rollout_count": 1000}),
    "publishing another's run": patch("training_runs", "his", lambda w, h, m: {"visibility": "public"}),
    "a change in the history": post("status_history")(
        lambda w, h, m: {"entity": "rollouts", "entity_id": m["rollouts"]["id"], "training_run_id": m["training_runs"]["id"], "new_status": "success"}
    ),
    "counts of my own": post("rollout_stats")(
        lambda w, h, m: {"training_run_id": m["training_runs"]["id"], "environment": "a", "shard": 99, "success_count": 1000}
    ),
    "making a friend a member": post("members")(lambda w, h, m: {"user_id": w.user_ids[STRANGER], "role": "admin"}),
    "a stranger making itself a member": post("members")(lambda w, h, m: {"user_id": w.user_ids[STRANGER], "role": "viewer"}, STRANGER),
    "an editor becoming an admin": lambda w, h, m: w.call(
        OTHER, "PATCH", "/rest/v1/members", params={"user_id": f"eq.{w.user_ids[OTHER]}"}, json={"role": "admin"}
    ),
    "an editor becoming an admin by upsert": post("members", **UPSERT)(lambda w, h, m: {"user_id": w.user_ids[OTHER], "role": "admin"}),
    "a viewer becoming an editor": lambda w, h, m: w.call(
        VIEWER, "PATCH", "/rest/v1/members", params={"user_id": f"eq.{w.user_ids[VIEWER]}"}, json={"role": "editor"}
    ),
    "removing the admin": lambda w, h, m: w.call(OTHER, "DELETE", "/rest/v1/members", params={"user_id": f"eq.{w.user_ids[ADMIN]}"}),
    "deleting everything there is": lambda w, h, m: w.call(VIEWER, "DELETE", "/rest/v1/training_runs", params={"id": "not.is.null"}),
    "deleting a public run with the publishable key": lambda w, h, m: w.call(
        PUBLISHABLE, "DELETE", "/rest/v1/training_runs", params={"visibility": "eq.public"}
    ),
    "claiming a role in the token": lambda w, h, m: w.call(
        PUBLISHABLE, "PATCH", "/rest/v1/training_runs", params={"visibility": "eq.public"}, json={"name": "x"},
        headers={"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIn0."},
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_changes_nothing(world: World, attack: str) -> None:
    his, mine = world.records["private"], world.records["attacker's"]
    before = snapshot(world)
    my_run = world.db.execute("select to_jsonb(t) - 'updated_at' as row from public.training_runs t where id = %s",
                              [mine["training_runs"]["id"]]).fetchone()  # fmt: skip
    my_group = world.db.execute("select * from public.rollout_groups where id = %s", [mine["rollout_groups"]["id"]]).fetchone()
    rows = {table: world.db.execute(f"select count(*) as n from public.{table}").fetchone() for table in TABLES}
    answer = ATTACKS[attack](world, his, mine)
    assert answer.status_code < 500, answer.text
    after = snapshot(world)
    assert {table for table in before if before[table] != after[table]} == set(), f"{answer.status_code} {answer.text}"
    assert rows == {table: world.db.execute(f"select count(*) as n from public.{table}").fetchone() for table in TABLES}
    now = world.db.execute("select to_jsonb(t) - 'updated_at' as row from public.training_runs t where id = %s",
                           [mine["training_runs"]["id"]]).fetchone()  # fmt: skip
    assert my_run == now
    assert my_group == world.db.execute("select * from public.rollout_groups where id = %s", [mine["rollout_groups"]["id"]]).fetchone()


INGESTED: dict[str, tuple[str, Callable[[Record, Record], Record], str]] = {
    "a turn in another's rollout": ("agent_states", lambda h, m: turn_of(h["rollouts"], {"id": None}), "OM403"),
    "a turn in my rollout under his run": ("agent_states", lambda h, m: turn_of(m["rollouts"], h["training_runs"]), "OM409"),
    "a rollout in another's group": ("rollouts", lambda h, m: {"group_id": h["rollout_groups"]["id"], "environment": "a"}, "OM403"),
    "another's rollout, by its id": ("rollouts", lambda h, m: {"id": h["rollouts"]["id"], "total_reward": 9}, "OM403"),
    "another's run, by its id": ("training_runs", lambda h, m: {"id": h["training_runs"]["id"], "name": "mine"}, "OM403"),
    "another's run, with my name on it": (
        "training_runs", lambda h, m: {"id": h["training_runs"]["id"], "name": "mine", "visibility": "public"}, "OM403"),
    "another's chunk, by its id": ("metric_chunks", lambda h, m: m["metric_chunks"] | {"id": h["metric_chunks"]["id"]}, "OM409"),
    "another's environment": ("environments", lambda h, m: {"id": h["environments"]["id"], "name": "mine"}, "OM403"),
    "another's turn, by its id, as mine": (
        "agent_states", lambda h, m: turn_of(m["rollouts"], m["training_runs"]) | {"id": h["agent_states"]["id"]}, "OM409"),
    "a step of another's run": ("training_steps", lambda h, m: {"training_run_id": h["training_runs"]["id"], "step": 99}, "OM403"),
}  # fmt: skip


@pytest.mark.parametrize("attack", INGESTED)
def test_ingest_refuses_an_attack(world: World, attack: str) -> None:
    kind, make, code = INGESTED[attack]
    before = snapshot(world)
    refused = world.ingest(OTHER, **{kind: [make(world.records["private"], world.records["attacker's"])]})
    assert [refusal["code"] for refusal in refused] == [code], refused
    assert snapshot(world) == before


def test_a_history_id_of_anothers_is_of_no_use(world: World) -> None:
    """A change that claims to be one that was made before is taken for it, and changes nothing."""
    mine, his = world.records["attacker's"]["rollouts"], world.records["private"]["rollouts"]
    before = snapshot(world)
    world.ingest(OTHER, rollouts=[{"id": mine["id"], "status": "failed", "status_change_id": his["status_change_id"]}])
    assert snapshot(world) == before
