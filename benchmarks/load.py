"""A team's hour in some minutes: trainers record over HTTP through one server, while many dashboards are open.

First quietly, with one trainer and one dashboard of each kind, then under the load, each trainer at the same pace and
for as long. What must hold: nothing is lost or doubled, a log call costs what it did, and the p99 of a page's reads is
at most twice the quiet one. With `--proxy`, all of it goes through nginx or Caddy of this machine, by TLS.

Trainers, dashboards, server and Postgres share one machine here; on a site only the last two do. So they are the ones
that come first for the processor, and the processor time of each is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.load_dashboards import percentile
from benchmarks.measuring import MESSAGES, Measured
from benchmarks.report import print_table
from benchmarks.stack import Stack, running_stack, temporary_folder
from tests.support.proxies import PROGRAMS, Proxy, free_port, make_certificate

FOLDER = Path(__file__).parent
# An hour of one trainer: a step of 20 metrics every two seconds, and four rollouts of 20 turns a minute.
HOUR_STEPS = 1800
HOUR_ROLLOUTS = 240
MEMBERS = 20
_COUNTS = """
select (select count(*) from public.metrics where training_run_id = %(run)s),
       (select count(distinct (name, step)) from public.metrics where training_run_id = %(run)s),
       (select count(*) from public.rollouts where training_run_id = %(run)s and status = 'success'),
       (select count(distinct episode_number) from public.rollouts where training_run_id = %(run)s),
       (select count(*) from public.agent_states where training_run_id = %(run)s),
       (select count(distinct (rollout_id, step_number)) from public.agent_states where training_run_id = %(run)s)
"""


@dataclass(frozen=True)
class Server:
    """How other machines reach the server, and how its database is looked at."""

    url: str
    stack: Stack
    env: dict[str, str]
    """The settings of a trainer."""

    def query(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.stack.settings["DATABASE_URL"], autocommit=True) as connection:
            return connection.execute(statement, values).fetchall()


@contextmanager
def serve(proxy: str | None) -> Iterator[Server]:
    """Start a stack and, if wanted, a proxy before it."""
    with ExitStack() as opened:
        if proxy is None:
            stack = opened.enter_context(running_stack())
            url, trusted = stack.settings["SUPABASE_URL"], {}
        else:
            stack = Stack(opened.enter_context(temporary_folder()))
            folder = opened.enter_context(temporary_folder())
            certificate = make_certificate(folder)
            port, server_port = free_port(), free_port()
            url, trusted = f"https://localhost:{port}", {"SSL_CERT_FILE": str(certificate)}
            opened.enter_context(_team_server(stack, url, server_port))
            passing = Proxy(proxy, folder / proxy, port=port, server_port=server_port)
            opened.callback(passing.stop)
            passing.start()
        key = {"SUPABASE_SERVICE_ROLE_KEY": stack.settings["SUPABASE_SERVICE_ROLE_KEY"]}
        yield Server(url, stack, {**stack.env(), **trusted, "SUPABASE_URL": url, **key})


@contextmanager
def _team_server(stack: Stack, url: str, port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "openmanus_rl", "serve", "--public-url", url, "--port", str(port)]
    server = subprocess.Popen(command, env=stack.env(), cwd=stack.home, stdout=subprocess.DEVNULL)
    try:
        while True:
            asked = [sys.executable, "-m", "openmanus_rl", "status", "--json"]
            said = subprocess.run(asked, env=stack.env(), cwd=stack.home, capture_output=True, check=False)
            if said.returncode == 0:
                break
            if server.poll() is not None:
                raise RuntimeError("the server ended while it started")
            time.sleep(0.5)
        info = json.loads((stack.home / "stack.json").read_text())
        names = {"DATABASE_URL": "database_url", "SUPABASE_ANON_KEY": "publishable_key"}
        names["SUPABASE_SERVICE_ROLE_KEY"] = "secret_key"
        stack.settings = {name: info[field] for name, field in names.items()}
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


class Load:
    """Trainers and dashboards on a server."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._emails = [f"member-{number}@example.org" for number in range(MEMBERS)]
        self._opened = 0
        self._make_members()

    def measure(self, *, trainers: int, dashboards: int, seconds: float, share: float) -> Measured:
        """Record and look at once; `share` is the part of an hour that each trainer records."""
        tasks = [self._task(number, seconds, share) for number in range(trainers)]
        self._opened += trainers
        with ExitStack() as opened:
            with MESSAGES.status(f"Starting {trainers} trainers"):
                processes = [opened.enter_context(self._trainer(task)) for task in tasks]
                runs = [_said(process).decode() for process in processes]
            watching = opened.enter_context(self._dashboards(dashboards, runs, seconds_to_open=seconds / 5))
            begin_at = time.time() + 1
            for process in [*processes, watching]:
                _tell(process, begin_at)
            usage = _Usage(self._server.stack, watching)
            with MESSAGES.status("") as status:
                while any(process.poll() is None for process in processes):
                    left = begin_at + seconds - time.time()
                    what = f"{left:.0f} s left to record" if left > 0 else "delivering what is left"
                    status.update(f"{trainers} trainers, {dashboards} dashboards: {what}")
                    usage.look()
                    time.sleep(0.5)
            said = [_answer(process) for process in processes]
            used = usage.seconds | {"trainers": sum(one["cpu_seconds"] for one in said)}
            used["couriers and all else"] = usage.busy_seconds - sum(used.values())
            looked = _answer(watching)
        stored = [self._stored(one["run"], task) for one, task in zip(said, tasks, strict=True)]
        figures = {
            "trainers": trainers,
            "dashboards": dashboards,
            "elapsed": max(one["durable_at"] for one in said) - begin_at,
            "cpu": used,
            "undelivered": sum(not one["delivered"] for one in said)
            + sum(one["rejected"] + one["lost"] for one in said),
            "records": sum(one["records"] for one in stored),
            "lost": sum(one["lost"] for one in stored),
            "doubled": sum(one["doubled"] for one in stored),
            "pages": looked,
        }
        for name in ("wall_us", "cpu_us"):
            values = [value for one in said for value in one[name]]
            figures[name] = {"median": percentile(values, 0.5), "p99": percentile(values, 0.99)}
        return figures

    def _task(self, number: int, seconds: float, share: float) -> dict[str, Any]:
        seed = self._opened + number
        steps, rollouts = max(1, round(HOUR_STEPS * share)), max(1, round(HOUR_ROLLOUTS * share))
        return {"name": f"trainer-{seed}", "seed": seed, "steps": steps, "rollouts": rollouts, "seconds": seconds}

    @contextmanager
    def _trainer(self, task: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
        """Start a trainer with a home of its own, as on another machine: it has its own courier."""
        env = self._server.env | {"OPENMANUS_RL_HOME": str(self._folder / task["name"])}
        with _running([str(FOLDER / "load_trainer.py"), json.dumps(task)], env) as process:
            yield process

    @contextmanager
    def _dashboards(self, count: int, runs: list[str], *, seconds_to_open: float) -> Iterator[subprocess.Popen[bytes]]:
        stack = self._server.stack.settings
        with MESSAGES.status(f"Opening {count} dashboards"):
            keys = {"key": stack["SUPABASE_ANON_KEY"], "secret_key": stack["SUPABASE_SERVICE_ROLE_KEY"]}
            task = {"url": self._server.url, "count": count, "runs": runs, "emails": self._emails, **keys}
            task["seconds_to_open"] = seconds_to_open
            # What measures does not give way to what it measures.
            with _running([str(FOLDER / "load_dashboards.py"), json.dumps(task)], self._server.env, nice=0) as process:
                _said(process)
                yield process

    def _make_members(self) -> None:
        key = {"apikey": self._server.stack.settings["SUPABASE_SERVICE_ROLE_KEY"]}
        trust = self._server.env.get("SSL_CERT_FILE")
        with httpx.Client(base_url=self._server.url, headers=key, verify=trust or True, timeout=60) as client:
            for email in self._emails:
                link = {"type": "magiclink", "email": email}
                client.post("/auth/v1/admin/generate_link", json=link).raise_for_status()
        self._server.query(
            "insert into public.members (user_id, role) select id, 'editor' from auth.users "
            "where email = any(%(emails)s) on conflict do nothing returning user_id",
            emails=self._emails,
        )

    def _stored(self, run: str, task: dict[str, Any]) -> dict[str, int]:
        """Count what is in the database of a run, beside what was logged."""
        logged = (task["steps"] * 20, task["rollouts"], task["rollouts"] * 20)
        ((points, points_once, rollouts, rollouts_once, turns, turns_once),) = self._server.query(_COUNTS, run=run)
        once = (points_once, rollouts_once, turns_once)
        return {
            "records": sum(logged),
            "lost": sum(max(0, wanted - found) for wanted, found in zip(logged, once, strict=True)),
            "doubled": points
            + rollouts
            + turns
            - sum(once)
            + sum(max(0, found - wanted) for wanted, found in zip(logged, once, strict=True)),
        }


@contextmanager
def _running(arguments: list[str], env: dict[str, str], *, nice: int = 5) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program that gives way to the server by its niceness, and end it whatever happens."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    env = env | {"PYTHONPATH": str(FOLDER.parent)}
    process = subprocess.Popen([sys.executable, *arguments], env=env, preexec_fn=lambda: os.nice(nice), **pipes)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _said(process: subprocess.Popen[bytes]) -> bytes:
    """Wait for the first line of a program, with which it says that it is ready."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{_name(process)} ended before it was ready; its message is above")
    return line.strip()


def _name(process: subprocess.Popen[bytes]) -> str:
    """Name a program; its further arguments hold keys."""
    return Path(cast(Any, process.args)[1]).name


def _tell(process: subprocess.Popen[bytes], what: object) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{what}\n".encode())
    process.stdin.flush()


def _answer(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """End the input of a program, and return the JSON object that it prints last."""
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{_name(process)} failed; its message is above")
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


class _Usage:
    """Adds up the processor time of the server's parts."""

    def __init__(self, stack: Stack, dashboards: subprocess.Popen[bytes]) -> None:
        info = json.loads((stack.home / "stack.json").read_text())
        self._parts = {"dashboards": psutil.Process(dashboards.pid), "server": psutil.Process(info["pid"])}
        self._seen: dict[tuple[str, int], tuple[float, float]] = {}
        self._busy_before = _busy_seconds()
        self.look()

    def look(self) -> None:
        """Look at all processes; those that end between two looks are missed."""
        for part, parent in self._parts.items():
            for process in [parent, *parent.children(recursive=True)]:
                with suppress(psutil.Error):
                    name = part if part == "dashboards" else "Postgres" if "postgres" in process.name() else "gateway"
                    times = process.cpu_times()
                    first, _ = self._seen.get((name, process.pid), (times.user + times.system, 0))
                    self._seen[name, process.pid] = first, times.user + times.system

    @property
    def busy_seconds(self) -> float:
        """Return the seconds of all that the machine did since the beginning."""
        return _busy_seconds() - self._busy_before

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds of each part since the beginning."""
        sums: dict[str, float] = {}
        for (name, _), (first, last) in self._seen.items():
            sums[name] = sums.get(name, 0.0) + last - first
        return sums


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def report(quiet: Measured, loaded: Measured) -> None:
    """Print what was measured, quietly and under load, and the ratios that must hold."""
    measured = [
        ("run.log: median (µs)", quiet["wall_us"]["median"], loaded["wall_us"]["median"], ""),
        ("run.log: p99 (µs)", quiet["wall_us"]["p99"], loaded["wall_us"]["p99"], ""),
        ("run.log: median of the processor (µs)", quiet["cpu_us"]["median"], loaded["cpu_us"]["median"], ""),
        ("a page's reads: median (ms)", quiet["pages"]["p50_ms"], loaded["pages"]["p50_ms"], ""),
        ("a page's reads: p99 (ms)", quiet["pages"]["p99_ms"], loaded["pages"]["p99_ms"], "2"),
    ]
    for name, now in loaded["pages"]["each"].items():
        measured.append((f"{name}: p99 (ms)", quiet["pages"]["each"][name]["p99_ms"], now["p99_ms"], ""))
    rows = [
        [label, f"{before:.1f}", f"{now:.1f}", f"{now / before:.2f}", limit] for label, before, now, limit in measured
    ]
    print_table("Quiet and under load", ["quiet", "load", "load ÷ quiet", "at most"], rows)
    pages = loaded["pages"]
    heard = f"{pages['heard']}, {loaded['elapsed'] * loaded['dashboards'] / max(1, pages['signals']):.0f}"
    rows = [
        ["trainers, open dashboards", f"{loaded['trainers']}, {loaded['dashboards']}"],
        ["records logged", f"{loaded['records']:,}"],
        ["lost, doubled, not delivered", f"{loaded['lost']}, {loaded['doubled']}, {loaded['undelivered']}"],
        ["seconds until all were durable", f"{loaded['elapsed']:.0f}"],
        ["reads of pages, failures", f"{loaded['pages']['reads']:,}, {loaded['pages']['failures']}"],
        ["dashboards that heard of changes, seconds between two", heard],
        *([f"processor seconds: {part}", f"{seconds:.0f}"] for part, seconds in sorted(loaded["cpu"].items())),
    ]
    print_table("Under load", ["all"], rows)
    for failure in loaded["pages"]["first_failures"]:
        MESSAGES.print(failure)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainers", type=int, help="that record at once (default 64, quick 3)")
    parser.add_argument("--dashboards", type=int, help="that are open (default 200, quick 6)")
    parser.add_argument("--minutes", type=float, help="in which an hour's worth is recorded (default 5)")
    parser.add_argument("--proxy", choices=PROGRAMS, help="through this proxy, by TLS (default: none)")
    parser.add_argument("--quick", action="store_true", help="show that it works: too small to tell about speed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    options.trainers = options.trainers or (3 if options.quick else 64)
    options.dashboards = options.dashboards or (6 if options.quick else 200)
    options.share = 0.02 if options.quick else 1.0
    options.seconds = 5.0 if options.quick else 60 * (options.minutes or 5)
    return options


def main() -> None:
    options = parse()
    with serve(options.proxy) as server, temporary_folder() as folder:
        load = Load(server, folder)
        task = {"seconds": options.seconds, "share": options.share}
        quiet = load.measure(trainers=1, dashboards=2, **task)
        loaded = load.measure(trainers=options.trainers, dashboards=options.dashboards, **task)
    if options.json:
        print(json.dumps({"quiet": quiet, "load": loaded}, indent=2))
    else:
        report(quiet, loaded)


if __name__ == "__main__":
    main()
