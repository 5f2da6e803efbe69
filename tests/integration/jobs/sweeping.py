"""Sweeps on the running stack: drivers that can be killed at any call, and a stand-in for what trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import psycopg

from openmanus_rl.jobs.sweeps.driver import SweepDriver
from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.managers.sweeps import SweepManager
from openmanus_rl.records.rows import Sweep
from openmanus_rl.transport.client import Client

TEMPLATE = {"name": "tried", "algorithm": "ppo", "environment": "CartPole-v1", "config": {"total_timesteps": 10}}
METRIC = "reward"


class Killed(BaseException):
    """The process was killed: nothing that handles errors sees it."""


class MortalClient:
    """A client whose process dies after its n-th call, which is before the next one, and reads no answer."""

    def __init__(self, client: Client, *, dies_at: int) -> None:
        self._client, self._dies_at = client, dies_at
        self.calls = 0

    def rpc(self, function: str, params: Any = None) -> Any:
        self.calls += 1
        answer = self._client.rpc(function, params)
        if self.calls == self._dies_at:
            raise Killed
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class Bench:
    """Makes sweeps and drives them."""

    def __init__(self, client: Client, db: psycopg.Connection[dict[str, Any]]) -> None:
        self.client, self.db = client, db
        self.sweeps = SweepManager.using(client)
        self.metrics = MetricManager.using(client)
        self.runner = self.register()

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        return self.db.execute(statement, values).fetchall()

    def change(self, statement: str, *values: Any) -> None:
        self.db.execute(statement, values)

    def clear(self) -> None:
        """Stop what other tests left: drivers and orchestrators take all sweeps and jobs that they find."""
        for sweep in self.rows("select id from public.sweeps where status in ('pending', 'running')"):
            self.sweeps.stop_sweep(sweep["id"])
        self.change("delete from internal.orchestrator_leases")
        self.change("delete from public.jobs where status in ('pending', 'launching', 'queued', 'running')")

    def register(self) -> str:
        orchestrator = {"name": "tester", "host": "here", "backends": ["local"], "max_jobs": 10}
        answer = self.client.rpc("register_orchestrator", {"orchestrator": orchestrator})
        return str(answer["orchestrator_id"])

    def request(self, **changes: Any) -> Sweep:
        asked: dict[str, Any] = {
            "method": "grid", "template": TEMPLATE, "space": {"seed": {"values": [10, 11, 12, 13]}}, "metric": METRIC,
            "max_concurrent": 2,
        }  # fmt: skip
        return self.sweeps.request_sweep("a sweep", **{**asked, **changes})

    def driver(self, *, dies_at: int = 0) -> tuple[SweepDriver, MortalClient]:
        mortal = MortalClient(self.client, dies_at=dies_at)
        return SweepDriver(self.register(), 60, client=cast(Client, mortal), settle_seconds=0), mortal

    def drive(
        self, driver: SweepDriver, value_of: Callable[[dict[str, Any]], float | None], *, wanted: int = 100
    ) -> None:
        """Drive sweeps until they have ended, and let jobs end in between."""
        while driver.advance():
            self.train(value_of, wanted=wanted)

    def expire_leases(self) -> None:
        """Let the leases of sweeps run out, as if their driver had died long ago."""
        self.change(
            "update internal.orchestrator_leases set expires_at = clock_timestamp() - interval '1 second'"
            " where subject_id in (select id from public.sweeps)"
        )

    # A stand-in for orchestrators and what they launch: it tells of jobs what those would tell of them.

    def train(self, value_of: Callable[[dict[str, Any]], float | None], *, wanted: int = 100) -> int:
        """Let waiting jobs end: with one point of the metric, or failed if `value_of` says None. Return how many."""
        claims = self.client.rpc("claim_jobs", {"orchestrator_id": self.runner, "wanted": wanted})["claims"]
        for claim in claims:
            if claim["run"] is None:
                self.tell(claim["lease_id"], status="cancelled")
                continue
            value = value_of(claim["run"]["config"])
            if value is not None:
                self.metrics.log(claim["run"]["id"], {METRIC: value}, step=10)
            self.tell(claim["lease_id"], status="running")
            self.tell(claim["lease_id"], status="failed" if value is None else "succeeded")
        return len(claims)

    def start(self) -> dict[str, tuple[str, str]]:
        """Let waiting jobs run; return their runs and leases by their seeds."""
        claims = self.client.rpc("claim_jobs", {"orchestrator_id": self.runner, "wanted": 100})["claims"]
        for claim in claims:
            self.tell(claim["lease_id"], status="running")
        return {claim["run"]["config"]["seed"]: (claim["run"]["id"], claim["lease_id"]) for claim in claims}

    def tell(self, lease_id: str, **changes: Any) -> None:
        self.client.rpc("update_job", {"lease_id": lease_id, "changes": changes})

    # Looking

    def seeds(self, sweep_id: str) -> list[int]:
        """Return the seeds of the trials, by their numbers, as their runs have them."""
        found = self.rows(
            "select t.trial, r.config from public.sweep_trials t"
            " join public.training_runs r on r.id = t.training_run_id where t.sweep_id = %s order by t.trial",
            sweep_id,
        )
        assert [row["trial"] for row in found] == list(range(len(found)))
        return [row["config"]["seed"] for row in found]

    def counts(self, sweep_id: str) -> tuple[int, int, int]:
        """Return how many runs and jobs there are of a sweep, and how many of those are active."""
        (found,) = self.rows(
            "select count(distinct r.id) as runs, count(distinct j.id) as jobs,"
            " count(distinct j.id) filter (where internal.is_active_job(j.status)) as active"
            " from public.training_runs r left join public.jobs j on j.training_run_id = r.id"
            " where r.id in (select training_run_id from public.sweep_trials where sweep_id = %s)",
            sweep_id,
        )
        return found["runs"], found["jobs"], found["active"]
