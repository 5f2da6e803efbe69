"""Open dashboards of `benchmarks/load.py`: members who look at the list of runs or at one run, and listen.

Each reads what its page shows, and reads it again when it is told of a change, with the pauses of the dashboard's own
`live/refresher.ts`. Reads its task as JSON from its argument, and prints what it measured when its input ends.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

# As in dashboard/src/live/refresher.ts.
SHORTEST_PAUSE_SECONDS = 0.7
REST = 4
FRESH_SECONDS = 30.0
# As in dashboard/src/live/line.ts.
LOOK_ANYWAY_SECONDS = 60.0
HEARTBEAT_SECONDS = 25.0
READ_TIMEOUT_SECONDS = 120.0
CLOSE_SECONDS = 20.0
# What dashboard/src/api/runs.ts asks for.
LIST = (
    "id,name,run_name,algorithm,environment,description,tags,status,shown_status,status_message,current_step,steps_done,"
    "total_steps,progress,heartbeat_at,archive_status,visibility,owner_id,owner_name,started_at,finished_at,created_at,"
    "updated_at,rollout_count,completed_count,success_rate,average_reward,average_turns"
)
METRICS = [f"{part}/{name}" for part in ("actor", "critic", "reward", "timing") for name in "abcde"]

Read = tuple[str, str, Any, dict[str, str]]


def list_reads() -> list[Read]:
    """Return what the list of runs asks for, as method, path, body and headers."""
    first = f"/rest/v1/run_list?select={LIST}&order=created_at.desc,id.asc&offset=0&limit=50"
    return [
        ("GET", first, None, {"Prefer": "count=exact"}),
        ("POST", "/rest/v1/rpc/run_facets", {}, {}),
    ]


def run_reads(run_id: str) -> list[Read]:
    """Return what the page of a run asks for, with its charts of 20 metrics."""
    names = [METRICS[at : at + 8] for at in range(0, len(METRICS), 8)]
    extent = {"training_run_id": run_id, "max_points": 400, "from_step": None, "to_step": None}
    return [
        ("GET", f"/rest/v1/run_list?select=*&id=eq.{run_id}&limit=1", None, {}),
        ("POST", "/rest/v1/rpc/run_health", {"training_run_id": run_id}, {}),
        ("POST", "/rest/v1/rpc/metric_names", {"training_run_id": run_id}, {}),
        *(("POST", "/rest/v1/rpc/metric_series", {**extent, "names": some}, {}) for some in names),
    ]


class Dashboard:
    """One open page: its reads, and the socket on which it is told of changes."""

    def __init__(self, task: dict[str, Any], client: httpx.AsyncClient, token: str, run_id: str | None) -> None:
        self._task, self._client, self._token, self._run_id = task, client, token, run_id
        self._reads = list_reads() if run_id is None else run_reads(run_id)
        self._wanted = [asyncio.Event() for _ in self._reads]
        self._read_at = [0.0 for _ in self._reads]
        self.begin()

    def begin(self) -> None:
        """Measure from now on."""
        self.read_ms: dict[str, list[float]] = defaultdict(list)
        self.signals = 0
        self.failures: list[str] = []

    async def run(self) -> None:
        """Look and listen until cancelled."""
        self._look()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._look_anyway())
            for number in range(len(self._reads)):
                group.create_task(self._keep_reading(number))

    async def _look_anyway(self) -> None:
        while True:
            await asyncio.sleep(LOOK_ANYWAY_SECONDS)
            self._look(FRESH_SECONDS)

    def _look(self, fresh_seconds: float = 0.0) -> None:
        for wanted, read_at in zip(self._wanted, self._read_at, strict=True):
            if time.monotonic() - read_at >= fresh_seconds:
                wanted.set()

    async def _keep_reading(self, number: int) -> None:
        wanted = self._wanted[number]
        method, path, body, headers = self._reads[number]
        name = path.partition("?")[0].removeprefix("/rest/v1/").removeprefix("rpc/")
        headers = {"apikey": self._task["key"], "Authorization": f"Bearer {self._token}", **headers}
        while True:
            await wanted.wait()
            wanted.clear()
            began = time.perf_counter()
            try:
                answer = await self._client.request(method, path, json=body, headers=headers)
                if not answer.is_success:
                    self.failures.append(f"{name}: {answer.status_code} {answer.text[:200]}")
            except httpx.HTTPError as error:
                self.failures.append(f"{name}: {error!r}")
            took = time.perf_counter() - began
            self.read_ms[name].append(took * 1000)
            self._read_at[number] = time.monotonic()
            await asyncio.sleep(max(SHORTEST_PAUSE_SECONDS, REST * took))

    async def _listen(self) -> None:
        address = self._task["url"].replace("http", "ws", 1) + f"/realtime/v1/websocket?apikey={self._task['key']}"
        trust = ssl.create_default_context() if address.startswith("wss") else None
        while True:
            try:
                async with connect(f"{address}&vsn=1.0.0", ssl=trust, proxy=None, open_timeout=60) as socket:
                    await self._follow(socket)
            except (OSError, TimeoutError, WebSocketException) as error:
                self.failures.append(f"socket: {error!r}")
                await asyncio.sleep(1)

    async def _follow(self, socket: Any) -> None:
        changes = [{"event": "*", "schema": "public", "table": "activity"}]
        payload = {"config": {"postgres_changes": changes}, "access_token": self._token}
        join = {"topic": "realtime:load", "event": "phx_join", "ref": "1", "join_ref": "1", "payload": payload}
        await socket.send(json.dumps(join))
        beat_at = time.monotonic() + HEARTBEAT_SECONDS
        while True:
            try:
                async with asyncio.timeout(max(0.1, beat_at - time.monotonic())):
                    message = json.loads(await socket.recv())
            except TimeoutError:
                beat_at = time.monotonic() + HEARTBEAT_SECONDS
                await socket.send(json.dumps({"topic": "phoenix", "event": "heartbeat", "payload": {}, "ref": "2"}))
                continue
            if message["event"] == "postgres_changes":
                run_id = message["payload"]["data"]["record"]["training_run_id"]
                if self._run_id in (None, run_id):
                    self.signals += 1
                    self._look()


async def sign_in(client: httpx.AsyncClient, task: dict[str, Any], email: str) -> str:
    """Return a token of a member, by a link that the secret key makes."""
    keys = {"apikey": task["secret_key"]}
    made = await client.post("/auth/v1/admin/generate_link", json={"type": "magiclink", "email": email}, headers=keys)
    link = {"type": "magiclink", "token_hash": made.raise_for_status().json()["hashed_token"]}
    session = await client.post("/auth/v1/verify", json=link, headers={"apikey": task["key"]})
    return str(session.raise_for_status().json()["access_token"])


async def in_thread(function: Callable[[], object]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, function)


def percentile(values: Iterable[float], part: float) -> float | None:
    """Return a percentile; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else None


def summary(read_ms: list[float]) -> dict[str, Any]:
    return {"reads": len(read_ms), "p50_ms": percentile(read_ms, 0.5), "p99_ms": percentile(read_ms, 0.99)}


async def look(task: dict[str, Any]) -> list[Dashboard]:
    """Open the dashboards one after the other, and keep them open until the input ends; only what comes after its first
    line is measured."""
    # Browsers keep connections open for minutes; httpx does so for five seconds.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=60)
    options: dict[str, Any] = {"limits": limits, "timeout": READ_TIMEOUT_SECONDS}
    async with httpx.AsyncClient(base_url=task["url"], **options) as client:
        tokens = [await sign_in(client, task, email) for email in task["emails"]]
        pages = [
            None if number % 2 else task["runs"][number // 2 % len(task["runs"])] for number in range(task["count"])
        ]
        dashboards = [Dashboard(task, client, tokens[n % len(tokens)], page) for n, page in enumerate(pages)]
        open_pages = []
        for dashboard in dashboards:
            open_pages.append(asyncio.create_task(dashboard.run()))
            # People do not open their pages, and so look anyway, all at the same time.
            await asyncio.sleep(task["seconds_to_open"] / len(dashboards))
        print("open", flush=True)
        await in_thread(sys.stdin.readline)
        for dashboard in dashboards:
            dashboard.begin()
        ended = asyncio.create_task(in_thread(sys.stdin.read))
        await asyncio.wait([ended, *open_pages], return_when=asyncio.FIRST_COMPLETED)
        for page in open_pages:
            page.cancel()
        closed, _ = await asyncio.wait(open_pages, timeout=CLOSE_SECONDS)
    for page in closed:
        if not page.cancelled() and (error := page.exception()) is not None:
            raise error
    return dashboards


def main() -> None:
    dashboards = asyncio.run(look(json.loads(sys.argv[1])))
    read_ms: dict[str, list[float]] = defaultdict(list)
    for dashboard in dashboards:
        for name, values in dashboard.read_ms.items():
            read_ms[name] += values
    failures = [failure for dashboard in dashboards for failure in dashboard.failures]
    said = summary([value for values in read_ms.values() for value in values])
    said["each"] = {name: summary(values) for name, values in sorted(read_ms.items())}
    heard = sum(dashboard.signals > 0 for dashboard in dashboards)
    signals = sum(dashboard.signals for dashboard in dashboards)
    print(
        json.dumps(
            said | {"heard": heard, "signals": signals, "failures": len(failures), "first_failures": failures[:5]}
        )
    )


if __name__ == "__main__":
    main()
