"""Two writers that wait for each other: the database ends one of them, which writes again by itself."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg

from openmanus_rl.managers.batches import write_batch
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import RolloutManager


def wait_in_a_circle(client: Client, query: Any, other: psycopg.Connection[Any], ids: list[str]) -> bool:
    """Change the same rows as another session in the other order; say whether the manager's write was ended by it."""
    batch = {"rollouts": [{"id": each, "metadata": {"by": "manager"}} for each in ids]}
    writer = threading.Thread(target=write_batch, args=(batch,), kwargs={"client": client})
    try:
        with other.transaction():
            other.execute("update public.rollouts set error = 'other' where id = %s", [ids[1]])
            writer.start()
            deadline = time.monotonic() + 20
            while not query(
                "select 1 from pg_stat_activity where %s = any (pg_blocking_pids(pid))", other.info.backend_pid
            ):
                assert time.monotonic() < deadline, "the manager's write does not wait"
                time.sleep(0.01)
            other.execute("update public.rollouts set error = 'other' where id = %s", [ids[0]])
    except psycopg.errors.DeadlockDetected:
        return False
    finally:
        writer.join(30)
    return True


def test_a_manager_that_was_ended_writes_again(client: Client, run: Row, stack: Any, query: Any) -> None:
    ids = sorted(new_id() for _ in range(2))
    write_batch({"rollouts": [{"id": each, "training_run_id": run["id"]} for each in ids]}, client=client)
    with psycopg.connect(stack.database_url, autocommit=True) as other:
        # Who has waited longer looks for a circle first, and is ended: the manager, unless this process was held up.
        assert any(wait_in_a_circle(client, query, other, ids) for _ in range(5))
    found = [RolloutManager.using(client).get_rollout(each) for each in ids]
    assert [(one["error"], one["metadata"]) for one in found] == [("other", {"by": "manager"})] * 2
