"""Short ways to write to the database and to look at it, for tests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

Record: TypeAlias = dict[str, Any]
Batch: TypeAlias = dict[str, list[Any]]
Connection: TypeAlias = psycopg.Connection[DictRow]


@dataclass(frozen=True)
class Database:
    """A migrated database that sessions are opened on."""

    url: str

    def connect(self) -> Connection:
        return psycopg.connect(self.url, autocommit=True, row_factory=dict_row)


def new_id() -> str:
    return str(uuid.uuid4())


def ingest(db: Connection, batch: Batch, **options: bool) -> Record:
    """Write a batch; return what the database says of it."""
    named = "".join(f", {name} => %({name})s" for name in options)
    answer = db.execute(f"select public.ingest(%(batch)s{named}) as answer", {"batch": Jsonb(batch), **options}).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def write(db: Connection, batch: Batch) -> None:
    """Write a batch of which nothing may be refused."""
    assert ingest(db, batch)["refused"] == []


def change_status(db: Connection, entity: str, entity_id: str, status: str | None, **more: Any) -> Record:
    """Call change_status; return the row."""
    named = "".join(f", {name} => %({name})s" for name in more)
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in more.items()}
    answer = db.execute(
        f"select public.change_status(%(entity)s, %(id)s, %(status)s{named}) as answer",
        {"entity": entity, "id": entity_id, "status": status, **values},
    ).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def row(db: Connection, table: str, row_id: str) -> Record:
    """Return a row as the API would show it."""
    found = db.execute(f"select to_jsonb(t) as row from public.{table} t where id = %s", [row_id]).fetchone()
    assert found is not None, f"{table} {row_id} is not there"
    return dict(found["row"])


def count(db: Connection, table: str, **where: Any) -> int:
    condition = "".join(f" and {name} = %({name})s" for name in where)
    found = db.execute(f"select count(*) as n from public.{table} where true{condition}", where).fetchone()
    assert found is not None
    return int(found["n"])


def history(db: Connection, entity_id: str) -> list[tuple[str | None, str, str | None]]:
    """Return (old, new, message) of every change of status, in their order."""
    rows = db.execute(
        "select old_status, new_status, message from public.status_history where entity_id = %s order by changed_at, id",
        [entity_id],
    )
    return [(found["old_status"], found["new_status"], found["message"]) for found in rows]


@contextmanager
def acting_as(db: Connection, *, user_id: str | None = None, role: str = "authenticated") -> Iterator[Connection]:
    """Run statements with the rights of an API caller, in one transaction, as the Data API does."""
    claims = {"role": role} | ({"sub": user_id} if user_id else {})
    with db.transaction():
        db.execute("select set_config('request.jwt.claims', %s, true)", [json.dumps(claims)])
        db.execute(f"set local role {role}")
        yield db


def new_member(db: Connection, role: str | None) -> str:
    """Sign somebody up and, with a role, make them a member; return their id."""
    user_id = new_id()
    db.execute("insert into auth.users (id, email) values (%s, %s)", [user_id, f"{user_id}@example.org"])
    if role is not None:
        db.execute("insert into public.members (user_id, role) values (%s, %s)", [user_id, role])
    return user_id


def new_run(db: Connection, **fields: Any) -> str:
    """Create a training run; return its id."""
    run = {"id": new_id(), "name": "a run", "status": "running", "environment": "alfworld"} | fields
    write(db, {"training_runs": [run]})
    return str(run["id"])


def new_group(db: Connection, run_id: str, *, number: int = 0) -> str:
    """Create a group with a step of its own; return its id."""
    step_id, group_id = new_id(), new_id()
    step = int(uuid.UUID(step_id).int % 2**40)
    write(
        db,
        {
            "training_steps": [{"id": step_id, "training_run_id": run_id, "step": step}],
            "rollout_groups": [{"id": group_id, "training_step_id": step_id, "number": number}],
        },
    )
    return group_id


def new_rollout(db: Connection, run_id: str | None, **fields: Any) -> str:
    """Create a rollout; return its id."""
    rollout = {"id": new_id(), "training_run_id": run_id, "environment": "alfworld"} | fields
    write(db, {"rollouts": [rollout]})
    return str(rollout["id"])


def one_of_each(**run_fields: Any) -> dict[str, Record]:
    """Return a record of every kind, saying all that a record of the kind can say, each hanging on the others."""
    ids = {name: new_id() for name in ("task", "validator", "run", "step", "checkpoint", "evaluation", "group", "rollout", "turn")}
    at = "2026-01-02T03:04:05+00:00"
    run = {"training_run_id": ids["run"]}
    turn = {"agent_state_id": ids["turn"], **run}
    times = {"started_at": at, "finished_at": at, "created_at": at}

    def status(value: str) -> Record:
        return {"status": value, "status_message": "as found", "status_change_id": new_id()}

    return {
        "environments": {"id": new_id(), "name": f"environment {new_id()}", "kind": "text", "description": "rooms",
                         "spec": {"rooms": 3}, "source": "pypi", "owner_id": None, "created_at": at},
        "tasks": {"id": ids["task"], "external_id": new_id(), "environment": "alfworld", "name": "ball", "description": "find it",
                  "expected_answer": "red", "split": "train", "metadata": {"a": 1}, "owner_id": None, "created_at": at},
        "validators": {"id": ids["validator"], "task_id": ids["task"], "external_id": "exact", "kind": "match",
                       "spec": {"ignore_case": True}, "created_at": at},
        "training_runs": {"id": ids["run"], "name": "a run", "run_name": new_id(), "algorithm": "ppo", "environment": "alfworld",
                          "description": "words", "config": {"lr": 0.1}, "summary": {"best": 1}, "metadata": {"host": "here"},
                          "tags": ["a", "b"], **status("completed"), "current_step": 3, "total_steps": 9, "progress": 0.5,
                          "heartbeat_at": at, "heartbeat_timeout_seconds": 60, "visibility": "private", "owner_id": None,
                          **times, **run_fields},
        "training_steps": {"id": ids["step"], **run, "step": 3, "phase": "rollout", **status("running"), "rollout_progress": 0.5,
                           "training_progress": 0, "loss": 0.25, "kl": 0.125, "grad_norm": 2, "reward_mean": 1, "reward_std": 0.5,
                           "tokens": 1000, "metrics": {"clip": 0.1}, **times},
        "model_checkpoints": {"id": ids["checkpoint"], **run, "checkpoint_number": 1, "step": 3, "storage_path": "a/b.pt",
                              "size_bytes": 10, "checksum": "sha256:0", "metrics": {"loss": 1}, "metadata": {"kind": "full"},
                              "created_at": at},
        "evaluations": {"id": ids["evaluation"], **run, "checkpoint_id": ids["checkpoint"], "kind": "eval", "name": "dev", "step": 3,
                        "model": "small", "environment": "alfworld", **status("running"), "progress": 0.25, "success_rate": 0.5,
                        "mean_reward": 1.5, "mean_turns": 4, "metadata": {"seed": 1}, "owner_id": None, **times},
        "evaluation_results": {"id": new_id(), "checkpoint_id": ids["checkpoint"], **run, "evaluation_id": ids["evaluation"],
                               "task_id": ids["task"], "environment": "alfworld", "episode_count": 2, "success_rate": 1,
                               "mean_reward": 0.5, "mean_turns": 3, "result_path": "x/y.json", "metrics": {"f1": 0.5},
                               "created_at": at},
        "rollout_groups": {"id": ids["group"], **run, "training_step_id": ids["step"], "evaluation_id": None, "task_id": ids["task"],
                           "number": 0, "task_description": "find it", "metadata": {"k": 8}, "created_at": at},
        "rollouts": {"id": ids["rollout"], **run, "group_id": ids["group"], "task_id": ids["task"], "source": "training",
                     "environment": "alfworld", "episode_number": 0, "task_description": "find it", **status("success"),
                     "total_reward": 1.5, "step_count": 2, "result": {"answer": "red"}, "error": "none", "model": "small",
                     "policy_version": 7, "seed": 42, "video_path": "v.mp4", "metadata": {"a": [1]}, "worker_id": "w1",
                     "lease_expires_at": at, "attempt": 2, "owner_id": None, **times},
        "agent_states": {"id": ids["turn"], "rollout_id": ids["rollout"], **run, "step_number": 0, "observation": "", "action": "go",
                         "thought": "hm", "memory_summary": "m", "messages": [{"role": "user"}], "model_response": {"id": "r"},
                         "info": {"ok": True}, "duration_ms": 1.5, "model_duration_ms": 1, "environment_duration_ms": 0.5,
                         "created_at": at},
        "observations": {"id": new_id(), **turn, "position": 1, "kind": "screenshot", "text": "t", "media_path": "m.png"},
        "generations": {"id": new_id(), **turn, "position": 2, "model": "small", "policy_version": 7, "prompt_ids": [1, 2],
                        "completion_ids": [3, 4], "logprobs": [-0.5, -0.25], "mask": [True, False], "advantages": [0.5],
                        "finish_reason": "stop"},
        "tool_calls": {"id": new_id(), **turn, "position": 3, "tool_name": "search", "tool_input": {"q": "ball"}, "tool_output": "…",
                       "success": True, "error_message": "none", "execution_time_ms": 150, "created_at": at},
        "rewards": {"id": new_id(), "rollout_id": ids["rollout"], **run, "step_number": 0, "reward_type": "format", "reward": 0.5,
                    "details": {"why": "format"}, "created_at": at},
        "validations": {"id": new_id(), "rollout_id": ids["rollout"], **run, "validator_id": ids["validator"],
                        "validator_name": "exact", "verdict": "pass", "score": 1, "expected": "red", "actual": "red",
                        "message": "same", "details": {"n": 1}, "created_at": at},
        "media": {"id": new_id(), **run, "rollout_id": ids["rollout"], "agent_state_id": ids["turn"], "kind": "frame",
                  "bucket": "media", "path": "f.png", "content_type": "image/png", "size_bytes": 9, "checksum": "c", "width": 4,
                  "height": 3, "duration_ms": 0, "metadata": {"t": 0}, "owner_id": None, "created_at": at},
        "jobs": {"id": new_id(), **run, "backend": "slurm", "external_id": new_id(), "name": "job", **status("running"),
                 "resources": {"gpu": 1}, "spec": {"run": "x"}, "cost_usd": 1.25, "log_path": "l.txt", "owner_id": None, **times},
        "metric_chunks": {"id": new_id(), **run, "name": "loss", "steps": [1, 2], "values": [0.5, 0.25], "times": [at, at]},
    }  # fmt: skip
