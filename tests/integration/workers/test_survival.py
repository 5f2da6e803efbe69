"""Three workers, 200 rollouts, one worker killed and the database killed in the middle: each rollout ends once."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from openmanus_rl.managers.environments import EnvironmentManager
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.managers.tasks import TaskManager

ROLLOUTS = 200
LEASE = ("--lease-seconds", "6")
SERVER = """
import http.server, os
address = ("127.0.0.1", int(os.environ["PORT"]))
http.server.HTTPServer(address, http.server.SimpleHTTPRequestHandler).serve_forever()
"""
SITE = {"services": {"web": {"command": [sys.executable, "-c", SERVER], "health": {"http": "/"}}}, "url": "http://web/"}
BEGUN_AND_ENDED = """
select h.entity_id, count(*) as times from public.status_history h
where h.entity = 'rollouts'
  and h.new_status not in ('pending', 'provisioning', 'running', 'interrupted') group by h.entity_id
"""


def test_every_rollout_ends_once_whatever_dies(queue: Any) -> None:
    EnvironmentManager.save_environment("site", kind="process", spec=SITE)
    script = [{"sleep": 0.05}, {"answer": "x"}]
    TaskManager.import_tasks([
        {"external_id": "plain", "description": "x", "expected_answer": "x", "metadata": {"script": script}},
        {
            "external_id": "in-a-site", "environment": "site", "description": "x", "expected_answer": "x",
            "metadata": {"script": [{"shell": "echo x"}, *script]},
        },
    ])  # fmt: skip
    asked = [
        rollout["id"]
        for task, count in (("plain", ROLLOUTS - 12), ("in-a-site", 12))
        for rollout in QueueManager.request_rollouts(task, agent="scripted", attempts=count, max_attempts=20).rollouts
    ]
    workers = [queue.work("--until-idle", "--max-workers", "2", *LEASE) for _ in range(3)]

    _await_ended(queue, ROLLOUTS // 8)
    workers[0].kill()
    _await_ended(queue, ROLLOUTS // 4)
    os.kill(int((queue.home / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    for worker in workers:
        worker.communicate(timeout=400)
    queue.work_off(*LEASE)

    rows = queue.rows(
        "select id::text, status, attempt, step_count, error from public.rollouts where attempt_of is null"
    )
    assert sorted(row["id"] for row in rows) == sorted(asked)
    assert {row["status"] for row in rows} == {"success"}, [row for row in rows if row["status"] != "success"]
    ended = {str(row["entity_id"]): row["times"] for row in queue.rows(BEGUN_AND_ENDED)}
    assert ended == dict.fromkeys(asked, 1)
    # Each has its own turns and its verdict, once.
    turns = queue.rows("select rollout_id::text, count(*) as turns from public.agent_states group by 1")
    counted = {row["rollout_id"]: row["turns"] for row in turns}
    assert {row["id"]: row["step_count"] for row in rows} == {row["id"]: counted.get(row["id"], 0) for row in rows}
    verdicts = queue.rows("select rollout_id::text, count(*) as verdicts from public.validations group by 1")
    assert {row["rollout_id"]: row["verdicts"] for row in verdicts if row["rollout_id"] in asked} == dict.fromkeys(
        asked, 1
    )
    assert queue.rows("select * from internal.leases") == []
    assert queue.leftovers() == []


def _await_ended(queue: Any, count: int) -> None:
    deadline = time.monotonic() + 240
    while True:
        [row] = queue.rows("select count(*) as ended from public.rollouts where status = 'success'")
        if row["ended"] >= count:
            return
        assert time.monotonic() < deadline, f"only {row['ended']} of {count} have ended"
        time.sleep(0.2)
