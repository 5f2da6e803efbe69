"""Runs with everything said of them, with as little as possible, with odd numbers, and with nothing in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from psycopg.types.json import Jsonb

from .examples import one_of_each
from .writing import Connection, Record, new_id, new_member, write

AT = "2026-01-02T03:04:05+00:00"
LATER = "2026-01-02T03:05:05+00:00"


@dataclass
class World:
    """What was written, by name."""

    ids: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.ids.setdefault(name, new_id())


def fill(db: Connection) -> World:
    """Write it all; every name in the tests is one of these."""
    world = World()
    _full(db, world)
    _bare(db, world)
    _odd(db, world)
    _evaluations(db, world)
    _rewound(db, world)
    _queue(db, world)
    return world


def _full(db: Connection, world: World) -> None:
    owner = new_member(db, "editor")
    db.execute("update public.members set display_name = 'Ada' where user_id = %s", [owner])
    nameless = new_member(db, "editor")
    records = one_of_each(visibility="public", status="running", owner_id=owner, environment=world["env"])
    records["rollouts"] |= {"status": "success", "environment": world["env"], "agent": "chat"}
    records["tasks"] |= {"environment": world["env"]}
    # The last step that is done says how fast the run is.
    records["training_steps"] |= {"status": "completed", "started_at": AT, "finished_at": LATER}
    content = [{"token": "go"}, {"token": " on"}]
    records["agent_states"] |= {"model_response": {"choices": [{"logprobs": {"content": content}}]}}
    write(db, {kind: [record] for kind, record in records.items()})
    world.ids |= {
        name: records[kind]["id"]
        for name, kind in {
            "run": "training_runs",
            "step": "training_steps",
            "group": "rollout_groups",
            "rollout": "rollouts",
            "turn": "agent_states",
            "generation": "generations",
            "task": "tasks",
            "validation": "validations",
            "evaluation": "evaluations",
            "checkpoint": "model_checkpoints",
        }.items()
    }
    of_group = {"group_id": world["group"], "environment": world["env"], "started_at": AT, "finished_at": LATER}
    others = [
        {"id": world["other"], **of_group, "status": "failed", "total_reward": 0.5, "step": 3, "policy_version": 1},
        {"id": world["overridden"], **of_group, "status": "failed", "total_reward": 0.25, "step": 3, "step_count": 2},
        {"id": world["broken"], **of_group, "status": "error", "step": 4},
    ]
    turns = [
        {"id": new_id(), "rollout_id": world["other"], "step_number": 0, "observation": "a wall", "action": "stay"},
        {"id": new_id(), "rollout_id": world["overridden"], "step_number": 0},
    ]
    write(
        db,
        {
            "training_runs": [{"id": world["run of nobody"], "name": "another", "owner_id": nameless}],
            "rollouts": others,
            "agent_states": turns,
        },
    )
    db.execute("update public.training_runs set baseline_id = %s where id = %s", [world["evaluation"], world["run"]])
    db.execute("update public.training_runs set archive_status = 'archived' where id = %s", [world["run of nobody"]])


def _bare(db: Connection, world: World) -> None:
    """Rows that say nothing that they need not say."""
    turn = world["bare turn"]
    write(
        db,
        {
            "tasks": [{"id": world["bare task"], "description": world["bare task"]}],
            "training_runs": [{"id": world["bare run"], "name": "bare"}, {"id": world["empty run"], "name": "empty"}],
            "training_steps": [{"id": world["bare step"], "training_run_id": world["bare run"], "step": 7}],
            "model_checkpoints": [
                {
                    "id": world["bare checkpoint"],
                    "training_run_id": world["bare run"],
                    "checkpoint_number": 1,
                    "storage_path": "c.pt",
                }
            ],
            "evaluations": [
                {"id": world["bare evaluation"], "kind": "baseline"},
                {"id": world["loose evaluation"], "kind": "eval", "checkpoint_id": world["bare checkpoint"]},
            ],
            "rollout_groups": [
                {"id": world["bare group"], "training_step_id": world["bare step"], "number": 0},
                {"id": world["loose group"], "evaluation_id": world["bare evaluation"], "number": 0},
            ],
            "rollouts": [
                {"id": world["bare rollout"], "environment": world["bare env"]},
                {"id": world["silent rollout"], "environment": world["bare env"], "training_run_id": world["bare run"]},
                {"id": new_id(), "environment": world["bare env"], "group_id": world["loose group"]},
                {"id": world["filmed"], "environment": world["bare env"]},
                {"id": world["in bare group"], "environment": world["bare env"], "group_id": world["bare group"]},
                {"id": new_id(), "environment": world["bare env"], "task_id": world["task"], "status": "timeout"},
            ],
            "agent_states": [
                {"id": turn, "rollout_id": world["bare rollout"], "step_number": 0},
                *(
                    {"id": new_id(), "rollout_id": world["filmed"], "step_number": n, "info": {"video_seconds": at}}
                    for n, at in enumerate((0, 1.5, -1, 10**400, "soon", None))
                ),
            ],
            "tool_calls": [{"id": new_id(), "agent_state_id": turn, "tool_name": "look"}],
            "observations": [{"id": new_id(), "agent_state_id": turn, "kind": "image"}],
            "generations": [{"id": world["bare generation"], "agent_state_id": turn}],
            "media": [
                {
                    "id": new_id(),
                    "rollout_id": world["bare rollout"],
                    "agent_state_id": turn,
                    "kind": "file",
                    "bucket": "media",
                    "path": new_id(),
                }
            ],
        },
    )


def _odd(db: Connection, world: World) -> None:
    """Numbers for which JSON has no word, in the middle of others."""
    group, turn = world["odd group"], world["odd turn"]
    rollout: dict[str, Any] = {"group_id": group, "environment": world["odd env"], "status": "failed", "step": 1}
    write(
        db,
        {
            "training_runs": [{"id": world["odd run"], "name": "odd", "status": "running"}],
            "training_steps": [{"id": world["odd step"], "training_run_id": world["odd run"], "step": 1}],
            "rollout_groups": [{"id": group, "training_step_id": world["odd step"], "number": 0}],
            "rollouts": [
                {"id": world["odd rollout"], **rollout, "total_reward": "NaN"},
                {"id": new_id(), **rollout, "total_reward": "Infinity"},
                {"id": new_id(), **rollout, "total_reward": 1},
                {"id": new_id(), **rollout, "total_reward": 3},
                {"id": new_id(), **rollout},
                {"id": new_id(), **rollout},
            ],
            "agent_states": [
                {"id": turn, "rollout_id": world["odd rollout"], "step_number": 0, "messages": [], "messages_from": 3},
            ],
            "rewards": [
                {"id": new_id(), "rollout_id": world["odd rollout"], "step_number": 0, "reward": "NaN"},
                {"id": new_id(), "rollout_id": world["odd rollout"], "step_number": 1, "reward": 1, "reward_type": "b"},
            ],
            "generations": [
                {
                    "id": world["odd generation"],
                    "agent_state_id": turn,
                    "completion_ids": [1, 2],
                    "logprobs": ["NaN", None],
                    "advantages": ["-Infinity", None],
                    "tokens_from": 4,
                }
            ],
            "metric_chunks": [
                {
                    "id": new_id(),
                    "training_run_id": world["odd run"],
                    "name": "loss",
                    "steps": [1, 2],
                    "values": ["NaN", 1],
                    "times": [AT, AT],
                }
            ],
        },
    )


def _evaluations(db: Connection, world: World) -> None:
    """Two evaluations of a public run, of which each task came out in another way."""
    run = world["evaluated run"]
    tasks = [{"id": world[f"task {n}"], "description": f"task {n}", "environment": world["env"]} for n in range(3)]
    evaluations = [
        {"id": world[name], "training_run_id": run, "kind": kind, "checkpoint_id": world["measured"], "step": 2}
        for name, kind in (("after", "eval"), ("before", "baseline"))
    ]
    checkpoint: Record = {"id": world["measured"], "training_run_id": run, "checkpoint_number": 1, "step": 2}
    write(
        db,
        {
            "tasks": tasks,
            "training_runs": [{"id": run, "name": "evaluated", "visibility": "public"}],
            "model_checkpoints": [{**checkpoint, "storage_path": "c.pt"}],
            "evaluations": evaluations,
        },
    )
    outcomes = {
        "before": [("task 0", "failed"), ("task 1", "success"), ("task 2", "completed"), (None, "failed")],
        "after": [("task 0", "success"), ("task 1", "failed"), ("task 2", "completed")],
    }
    for name, tried in outcomes.items():
        for number, (task, status) in enumerate(tried):
            group = new_id()
            described = {"task_id": world[task]} if task else {"task_description": "without a task"}
            rollout = {"group_id": group, "environment": world["env"], "status": status, **described}
            write(
                db,
                {
                    "rollout_groups": [{"id": group, "evaluation_id": world[name], "number": number}],
                    "rollouts": [{"id": new_id(), **rollout}],
                },
            )
    # Results that were written down say as much as they like.
    of_task = {"environment": world["env"], "task_id": world["task 0"]}
    write(
        db,
        {
            "evaluation_results": [
                {"id": new_id(), "checkpoint_id": world["bare checkpoint"], **of_task},
                {"id": new_id(), "checkpoint_id": world["checkpoint"], "mean_reward": 1, "success_rate": 1, **of_task},
            ],
            "evaluations": [{"id": world["after"], "status": "completed", "mean_reward": "Infinity"}],
        },
    )


def _rewound(db: Connection, world: World) -> None:
    """A run that went back to its beginning: what came after that is hidden."""
    rollout = {"id": new_id(), "group_id": world["rewound group"], "environment": world["env"], "step": 3}
    write(
        db,
        {
            "training_runs": [{"id": world["rewound run"], "name": "rewound", "status": "running"}],
            "training_steps": [{"id": world["rewound step"], "training_run_id": world["rewound run"], "step": 3}],
            "rollout_groups": [{"id": world["rewound group"], "training_step_id": world["rewound step"], "number": 0}],
            "rollouts": [rollout],
        },
    )
    resume = "select public.resume_run(run_id => %s, change_id => %s, rewind_to_step => 0)"
    db.execute(resume, [world["rewound run"], new_id()])


def _queue(db: Connection, world: World) -> None:
    """Rollouts of the queue that say all they can, and as little as they can: waiting, held, and ended."""
    owner = new_member(db, "editor")
    write(
        db,
        {
            "tasks": [{"id": world["queued task"], "description": "do it"}],
            "training_runs": [{"id": world["queue run"], "name": "queue", "owner_id": owner}],
            "environments": [
                {"id": new_id(), "name": world["queue env"], "kind": "docker"},
                {"id": new_id(), "name": world["bare queue env"]},
            ],
        },
    )
    workers: list[Record] = [
        {"id": world["worker"], "name": "one", "host": "h", "pid": 7, "version": "1", "providers": ["none"]},
        {"id": world["bare worker"]},
        {"id": world["stopped worker"]},
    ]
    for worker in workers:
        db.execute("select public.register_worker(%s)", [Jsonb(worker)])
    db.execute("update public.workers set owner_id = %s where id = %s", [owner, world["worker"]])
    db.execute("select public.retire_worker(%s)", [world["stopped worker"]])
    of_run = {"training_run_id": world["queue run"], "model": "m", "environment": world["queue env"]}
    texts = {"result": Jsonb({"a": 1}), "error": "broke", "video_path": "v.webm", "logs_path": "l.txt"}
    used = {"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.5}
    told: Record = {"status_message": "why", "started_at": AT, "total_reward": "NaN", **texts, **used}
    _queued(db, world, "waiting", {}, {"task_id": None})
    _queued(db, world, "waiting of a run", of_run, {"status_message": "put back"})
    _queued(db, world, "held", {}, {"status": "provisioning", "task_id": None, "worker_id": world["forgotten worker"]})
    _queued(db, world, "held of a run", of_run, {"status": "running", "worker_id": world["worker"], **told})
    _queued(db, world, "rewarded", {}, {"status": "running", "worker_id": world["worker"], "total_reward": 0.5})
    _queued(db, world, "ended", of_run, {"status": "error", "finished_at": LATER, **told})
    for name in ("held", "held of a run", "rewarded"):
        db.execute(
            "insert into internal.leases (rollout_id, lease_id, worker_id, expires_at)"
            " select id, %s, worker_id, now() + interval '1 hour' from public.rollouts where id = %s",
            [new_id(), world[name]],
        )


def _queued(db: Connection, world: World, name: str, request: Record, columns: Record) -> None:
    """Ask for a rollout, and let it be as far as it may be by now."""
    asked = {"task_id": world["queued task"], **request}
    answer = db.execute("select public.request_rollouts(%s) as answer", [Jsonb(asked)]).fetchone()
    assert answer is not None
    world.ids[name] = answer["answer"]["rollouts"][0]["id"]
    # Those of one request have the same time.
    values = {"created_at": AT, **columns}
    assignments = ", ".join(f"{column} = %({column})s" for column in values)
    with db.transaction():
        db.execute("select set_config('openmanus_rl.leases', 'queue', true)")
        db.execute(f"update public.rollouts set {assignments} where id = %(id)s", {**values, "id": world[name]})
