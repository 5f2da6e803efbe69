"""What a member with a token and a grudge might try, over HTTP: none of it works, and nothing is changed by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from .actors import ADMIN, OTHER, OWNER, PUBLISHABLE, STRANGER, VIEWER, World, populated
from .examples import one_of_each
from .writing import Record, new_id


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
    owners = [str(world.run_id(visibility)) for visibility in ("private", "public")]
    for table in [*TABLES, "members", "status_history", "rollout_stats", "rewinds"]:
        rows = f"select (to_jsonb(t) - 'heartbeat_at' - 'updated_at')::text as row from public.{table} t"
        if table not in ("members", "environments", "tasks", "validators"):
            run = "id" if table == "training_runs" else "training_run_id"
            rows += f" where {run} = any(%(owners)s::uuid[])"
        found[table] = sorted(row["row"] for row in world.db.execute(rows, {"owners": owners}))
    return found


@dataclass(frozen=True)
class Attack:
    """A request; "his rollouts" stands for the id of the owner's rollout, "my …" the attacker's, "@…" a user's."""

    actor: str
    method: str
    table: str
    where: dict[str, str]
    fields: Record
    headers: dict[str, str]

    def send(self, world: World) -> httpx.Response:
        where = {name: f"eq.{resolve(world, value)}" for name, value in self.where.items()}
        body = {name: resolve(world, value) for name, value in self.fields.items()} or None
        return world.call(
            self.actor, self.method, f"/rest/v1/{self.table}", params=where, json=body, headers=self.headers
        )


def resolve(world: World, value: Any) -> Any:
    whose, _, name = value.partition(" ") if isinstance(value, str) else ("", "", "")
    if whose in ("his", "my"):
        return world.records["private" if whose == "his" else "attacker's"][name]["id"]
    return world.user_ids[value[1:]] if whose.startswith("@") else value


def insert(table: str, actor: str = OTHER, **fields: Any) -> Attack:
    return Attack(actor, "POST", table, {}, fields, {})


def upsert(table: str, **fields: Any) -> Attack:
    return Attack(OTHER, "POST", table, {}, fields, {"Prefer": "resolution=merge-duplicates"})


def change(row: str, **fields: Any) -> Attack:
    return Attack(OTHER, "PATCH", row.split()[1], {"id": row}, fields, {})


def change_member(actor: str, **fields: Any) -> Attack:
    return Attack(actor, "PATCH", "members", {"user_id": f"@{actor}"}, fields, {})


def delete(actor: str, table: str, **where: str) -> Attack:
    return Attack(actor, "DELETE", table, where, {}, {})


MINE, HIS = {"training_run_id": "my training_runs"}, {"training_run_id": "his training_runs"}
FORGED = {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIn0."}

ATTACKS: dict[str, Attack] = {
    "a turn in his rollout, under his run": insert("agent_states", rollout_id="his rollouts", step_number=77, **HIS),
    "a turn in his rollout, under my run": insert("agent_states", rollout_id="his rollouts", step_number=77, **MINE),
    "a turn in my rollout, under his run": insert("agent_states", rollout_id="my rollouts", step_number=77, **HIS),
    "a tool call in his turn": insert(
        "tool_calls", agent_state_id="his agent_states", tool_name="x", position=9, **MINE
    ),
    "a reward for his rollout": insert("rewards", rollout_id="his rollouts", reward=100, reward_type="x", **MINE),
    "a verdict on his rollout": insert("validations", rollout_id="his rollouts", verdict="fail", **MINE),
    "a rollout of my run in his group": insert("rollouts", group_id="his rollout_groups", environment="a", **MINE),
    "a rollout without a run in his group": insert("rollouts", group_id="his rollout_groups", environment="a"),
    "a group of my run on his step": insert("rollout_groups", training_step_id="his training_steps", number=9, **MINE),
    "a group of my run on his evaluation": insert("rollout_groups", evaluation_id="his evaluations", number=9, **MINE),
    "a result of my checkpoint in his evaluation": insert(
        "evaluation_results",
        checkpoint_id="my model_checkpoints",
        evaluation_id="his evaluations",
        environment="x",
        **MINE,
    ),
    "a result of his checkpoint": insert(
        "evaluation_results", checkpoint_id="his model_checkpoints", environment="x", **MINE
    ),
    "a picture in his rollout": insert("media", rollout_id="his rollouts", kind="frame", path="x", **MINE),
    "a validator for his task": insert("validators", task_id="his tasks", external_id="x", kind="x"),
    "a run in his name": insert("training_runs", name="a run", owner_id=f"@{OWNER}"),
    "a rollout without a run in his name": insert("rollouts", environment="a", owner_id=f"@{OWNER}"),
    "an upsert over his run": upsert("training_runs", id="his training_runs", name="mine now"),
    "an upsert over his run in my name": upsert(
        "training_runs", id="his training_runs", name="mine now", owner_id=f"@{OTHER}"
    ),
    "an upsert over his turn": upsert(
        "agent_states", id="his agent_states", rollout_id="my rollouts", step_number=77, **MINE
    ),
    "an upsert over his environment": upsert("environments", id="his environments", name="mine"),
    "owning his run": change("his training_runs", owner_id=f"@{OTHER}"),
    "publishing his run": change("his training_runs", visibility="public"),
    "giving my run away": change("my training_runs", owner_id=f"@{OWNER}"),
    "disowning my run": change("my training_runs", owner_id=None),
    "moving my rollout into his run": change("my rollouts", **HIS),
    "moving his rollout into my run": change("his rollouts", **MINE),
    "moving my rollout into his group": change("my rollouts", group_id="his rollout_groups"),
    "moving my turn into his rollout": change("my agent_states", rollout_id="his rollouts"),
    "moving my checkpoint into his run": change("my model_checkpoints", **HIS),
    "moving my metrics into his run": change("my metric_chunks", **HIS),
    "counting up my own group": change("my rollout_groups", success_count=1000, rollout_count=1000),
    "taking a lease by hand": change("my rollouts", worker_id=new_id(), lease_id=new_id()),
    "one more attempt": change("my rollouts", attempt=9),
    "a change in the history": insert(
        "status_history", entity="rollouts", entity_id="my rollouts", new_status="success", **MINE
    ),
    "counts of my own": insert("rollout_stats", environment="a", shard=99, success_count=1000, **MINE),
    "a mark of my own making": insert("activity", changed_at="2026-01-01", **MINE),
    "a rewind of my own making": insert("rewinds", timeline=9, to_step=0, cut_at="2026-01-01", **MINE),
    "making a friend a member": insert("members", user_id=f"@{STRANGER}", role="admin"),
    "a stranger making itself a member": insert("members", actor=STRANGER, user_id=f"@{STRANGER}", role="viewer"),
    "an editor becoming an admin": change_member(OTHER, role="admin"),
    "an editor becoming an admin by upsert": upsert("members", user_id=f"@{OTHER}", role="admin"),
    "a viewer becoming an editor": change_member(VIEWER, role="editor"),
    "removing the admin": delete(OTHER, "members", user_id=f"@{ADMIN}"),
    "a viewer deleting his run": delete(VIEWER, "training_runs", id="his training_runs"),
    "deleting a public run with the publishable key": delete(PUBLISHABLE, "training_runs", visibility="public"),
    "claiming a role in a token": Attack(
        PUBLISHABLE, "PATCH", "training_runs", {"id": "his training_runs"}, {"name": "x"}, FORGED
    ),
}


def all_rows(world: World) -> Record:
    """Return how many rows every table has, and the attacker's own run and group."""
    mine = world.records["attacker's"]
    found: Record = {
        table: world.db.execute(f"select count(*) as n from public.{table}").fetchone() for table in TABLES
    }
    run = "select to_jsonb(t) - 'updated_at' as row from public.training_runs t where id = %s"
    found["my run"] = world.db.execute(run, [mine["training_runs"]["id"]]).fetchone()
    group = "select * from public.rollout_groups where id = %s"
    found["my group"] = world.db.execute(group, [mine["rollout_groups"]["id"]]).fetchone()
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_changes_nothing(world: World, attack: str) -> None:
    before, rows = snapshot(world), all_rows(world)
    answer = ATTACKS[attack].send(world)
    assert answer.status_code < 500, answer.text
    after = snapshot(world)
    assert {table for table in before if before[table] != after[table]} == set(), f"{answer.status_code} {answer.text}"
    assert all_rows(world) == rows


# What is ingested, and the code it is refused with.
INGESTED: dict[str, tuple[str, Record, str]] = {
    "a turn in his rollout": ("agent_states", {"rollout_id": "his rollouts", "step_number": 77}, "OM403"),
    "a turn in my rollout under his run": (
        "agent_states",
        {"rollout_id": "my rollouts", "step_number": 77, **HIS},
        "OM409",
    ),
    "a rollout in his group": ("rollouts", {"group_id": "his rollout_groups", "environment": "a"}, "OM403"),
    "his rollout, by its id": ("rollouts", {"id": "his rollouts", "total_reward": 9}, "OM403"),
    "his run, by its id": ("training_runs", {"id": "his training_runs", "name": "mine"}, "OM403"),
    "his run, to be published": ("training_runs", {"id": "his training_runs", "visibility": "public"}, "OM403"),
    "his environment": ("environments", {"id": "his environments", "name": "mine"}, "OM403"),
    "his turn, by its id, as mine": (
        "agent_states",
        {"id": "his agent_states", "rollout_id": "my rollouts", "step_number": 77},
        "OM409",
    ),
    "his metrics, by their id, as mine": (
        "metric_chunks",
        {"id": "his metric_chunks", "name": "loss", **MINE},
        "OM409",
    ),
    "a step of his run": ("training_steps", {"step": 99, **HIS}, "OM403"),
}


@pytest.mark.parametrize("attack", INGESTED)
def test_ingest_refuses_an_attack(world: World, attack: str) -> None:
    kind, fields, code = INGESTED[attack]
    before = snapshot(world)
    refused = world.ingest(OTHER, **{kind: [{name: resolve(world, value) for name, value in fields.items()}]})
    assert [refusal["code"] for refusal in refused] == [code], refused
    assert snapshot(world) == before


def test_a_history_id_of_anothers_is_of_no_use(world: World) -> None:
    """A change that claims to be one that was made before is taken for it, and changes nothing."""
    mine, his = world.records["attacker's"]["rollouts"], world.records["private"]["rollouts"]
    before = snapshot(world)
    world.ingest(OTHER, rollouts=[{"id": mine["id"], "status": "failed", "status_change_id": his["status_change_id"]}])
    assert snapshot(world) == before
