"""Environments, runs, jobs and sweeps for the tests of the pages of training, written as an orchestrator would."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import httpx
import psycopg
from PIL import Image, ImageDraw
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from openmanus_rl.records.ids import new_id

AT = "2026-01-02T03:04:05+00:00"
GRID = {
    "map": ["########", "#A.....#", "#.###..#", "#...#T.#", "#.o.#.G#", "########"],
    "rewards": {"step": -0.01},
}
PPO = {"total_timesteps": 5000, "hyperparameters": {"gamma": 0.9}}


def picture(text: str, *, size: tuple[int, int] = (96, 72)) -> bytes:
    """A PNG that can be told from others."""
    image = Image.new("RGB", size, (40, 60, 60 + hash(text) % 100))
    ImageDraw.Draw(image).text((6, 24), text, fill="white")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


class TrainingData:
    """Writes by the database's own functions."""

    def __init__(self, env: dict[str, str], database_url: str) -> None:
        self._env = env
        self.db = psycopg.connect(database_url, autocommit=True, row_factory=dict_row)
        self._orchestrator: str | None = None

    def call(self, function: str, **arguments: Any) -> Any:
        named = ", ".join(f"{name} => %({name})s" for name in arguments)
        values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()}
        row = self.db.execute(f"select public.{function}({named}) as answer", values).fetchone()
        return row["answer"] if row else None

    def ingest(self, **records: list[dict[str, Any]]) -> None:
        assert self.call("ingest", batch=records)["refused"] == []

    # Environments

    def environment(self, name: str, kind: str, spec: dict[str, Any], **fields: Any) -> str:
        identifier = new_id()
        self.ingest(environments=[{"id": identifier, "name": name, "kind": kind, "spec": spec, **fields}])
        return identifier

    def preview(self, environment_id: str, version: int, **fields: Any) -> None:
        if "png" in fields:
            fields = {"preview": "data:image/png;base64," + base64.b64encode(fields["png"]).decode()}
        self.call("save_preview", environment_id=environment_id, version=version, **fields)

    # Runs and jobs

    def run(self, name: str, config: dict[str, Any] = PPO, **fields: Any) -> str:
        identifier = new_id()
        record = {"id": identifier, "name": name, "algorithm": "ppo", "environment": "CartPole-v1", "config": config}
        self.ingest(training_runs=[{**record, **fields}])
        return identifier

    def metrics(self, run_id: str, name: str, steps: Sequence[int], values: Sequence[float]) -> None:
        times = [AT] * len(steps)
        chunk = {"name": name, "steps": list(steps), "values": list(values), "times": times}
        self.ingest(metric_chunks=[{"id": new_id(), "training_run_id": run_id, **chunk}])

    @property
    def orchestrator(self) -> str:
        if self._orchestrator is None:
            described = {
                "name": "trainer",
                "host": "here",
                "pid": 7,
                "backends": ["local", "skypilot"],
                "max_jobs": 100,
            }
            self._orchestrator = str(self.call("register_orchestrator", orchestrator=described)["orchestrator_id"])
        return self._orchestrator

    def launch(self, run_id: str, **config: Any) -> tuple[str, str]:
        """Return a job that an orchestrator has launched, and its lease."""
        job_id = self.call("request_job", run_id=run_id, config=config)["job"]["id"]
        claims = self.call("claim_jobs", orchestrator_id=self.orchestrator, wanted=100, lease_seconds=3600.0)["claims"]
        (lease,) = [claim["lease_id"] for claim in claims if claim["job"]["id"] == job_id]
        self.update(lease, status="running")
        return job_id, lease

    def update(self, lease: str, **changes: Any) -> None:
        self.call("update_job", lease_id=lease, changes=changes)

    def log(self, lease: str, attempt: int, text: str, start: int = 0) -> int:
        return int(self.call("append_job_log", lease_id=lease, attempt=attempt, start=start, text=text))

    def frames(self, run_id: str, steps: Sequence[int], *, pictures: int = 5, timeline: int = 0) -> None:
        """Frames at these steps; many share a picture, as media with the same content do."""
        paths = [f"{run_id}/{number}.png" for number in range(pictures)]
        for number, path in enumerate(paths):
            self._upload(path, picture(f"frame {number}", size=(160, 120)))
        self.db.execute(
            """insert into public.media
                 (training_run_id, kind, bucket, path, content_type, width, height, timeline, metadata)
               select %s, 'frame', 'media', (%s::text[])[1 + n %% %s], 'image/png', 160, 120, %s,
                 jsonb_build_object('step', s)
               from unnest(%s::bigint[]) with ordinality as u (s, n)""",
            [run_id, paths, pictures, timeline, list(steps)],
        )

    def _upload(self, path: str, content: bytes) -> None:
        key = self._env["SUPABASE_SERVICE_ROLE_KEY"]
        headers = {"apikey": key, "authorization": f"Bearer {key}", "content-type": "image/png", "x-upsert": "true"}
        address = f"{self._env['SUPABASE_URL']}/storage/v1/object/media/{path}"
        httpx.post(address, content=content, headers=headers).raise_for_status()

    # Sweeps

    def sweep(self, name: str, *, method: str = "bayesian", space: dict[str, Any], trials: int, **fields: Any) -> str:
        template = {"name": name, "algorithm": "ppo", "environment": "CartPole-v1", "config": PPO}
        asked = {"name": name, "method": method, "template": template, "space": space, "metric": "rollout/ep_rew_mean"}
        limits = {"max_trials": trials, "max_concurrent": min(trials, 1000)}
        return str(self.call("request_sweep", sweep={**asked, **limits, **fields})["id"])

    def claim_sweep(self, sweep_id: str) -> str:
        """Return the lease of a sweep."""
        claims = self.call("claim_sweeps", orchestrator_id=self.orchestrator, lease_seconds=3600.0)["claims"]
        (lease,) = [claim["lease_id"] for claim in claims if claim["sweep"]["id"] == sweep_id]
        return str(lease)

    def trial(self, lease: str, number: int, parameters: dict[str, Any], values: Sequence[float]) -> str:
        """Make a trial with a curve of the sweep's metric; return its run."""
        run_id = str(self.call("add_trial", lease_id=lease, trial=number, parameters=parameters)["training_run_id"])
        if values:
            self.metrics(run_id, "rollout/ep_rew_mean", range(0, 100 * len(values), 100), values)
        return run_id

    def clear(self) -> None:
        """Leave nothing to the next test that it could see."""
        for table in ("sweeps", "jobs", "orchestrators"):
            self.db.execute(f"delete from public.{table}")
        self.db.execute("delete from internal.orchestrator_leases")
        self._orchestrator = None


def row(data: TrainingData, query: str, *values: Any) -> Any:
    """Return the first row of a query."""
    return data.db.execute(query, list(values)).fetchone()


def curve(best: float, *, points: int = 20) -> list[float]:
    """A reward that goes up to a value."""
    return [best * (1 - math.exp(-n / 5)) for n in range(points)]
