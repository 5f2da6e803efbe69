"""What a request to the Data API costs, of one checkout's gateway or of two in turn, beside the bare statement.

    .venv/bin/python benchmarks/gateway.py [--before CHECKOUT] [--rounds 12] [--requests 150]

One client with one connection sends four kinds of request, one after the other. The gateways take turns, so that
whatever else the machine does falls on both, and so does the statement by itself on a connection of psycopg: what is
compared is the median of each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.integration.gateway.conftest import Postgres  # noqa: E402
from tests.integration.gateway.process import Gateway, GatewaySettings  # noqa: E402

TABLES = """
create table public.bench_authors (id int primary key, name text not null);
create table public.bench_books (
  id int primary key, title text not null, author_id int not null references public.bench_authors (id)
);
create table public.bench_notes (id bigint generated always as identity primary key, body text not null);
create function public.bench_add(a int, b int) returns int language sql immutable as 'select a + b';
insert into public.bench_authors select n, 'author ' || n from generate_series(1, 100) n;
insert into public.bench_books select n, 'book ' || n, 1 + n % 100 from generate_series(1, 10000) n;
create index on public.bench_books (author_id);
grant all on all tables in schema public to service_role;
grant execute on all functions in schema public to service_role;
analyze;
"""


@dataclass(frozen=True)
class Kind:
    """A kind of request, and the statement that it is about."""

    name: str
    method: str
    path: str
    body: str | None
    statement: str


KINDS = [
    Kind(
        "one row by id",
        "GET",
        "/rest/v1/bench_books?id=eq.{n}",
        None,
        "select json_agg(b) from public.bench_books b where id = {n}",
    ),
    Kind(
        "100 rows with an embed",
        "GET",
        "/rest/v1/bench_books?select=id,title,bench_authors(name)&order=id&limit=100&offset={n}",
        None,
        "select json_agg(t) from (select b.id, b.title, row_to_json(a) from public.bench_books b"
        " left join lateral (select name from public.bench_authors a where a.id = b.author_id) a on true"
        " order by b.id limit 100 offset {n}) t",
    ),
    Kind(
        "insert of one row",
        "POST",
        "/rest/v1/bench_notes",
        '{"body": "note {n}"}',
        "insert into public.bench_notes (body) values ('note {n}')",
    ),
    Kind("function", "POST", "/rest/v1/rpc/bench_add", '{"a": {n}, "b": 2}', "select public.bench_add({n}, 2)"),
]


@dataclass(frozen=True)
class Checkout(GatewaySettings):
    """A gateway from the sources of some checkout."""

    root: Path = ROOT

    @property
    def command(self) -> list[str]:
        return [part.replace(str(ROOT / "supabase"), str(self.root / "supabase")) for part in super().command]


def requests_of(client: httpx.Client, kind: Kind) -> Callable[[int], None]:
    def send(n: int) -> None:
        body = kind.body.replace("{n}", str(n)) if kind.body else None
        headers = {"content-type": "application/json"} if body else {}
        answer = client.request(kind.method, kind.path.replace("{n}", str(n)), content=body, headers=headers)
        assert answer.is_success, answer.text

    return send


def statements_of(connection: psycopg.Connection, kind: Kind) -> Callable[[int], None]:
    def send(n: int) -> None:
        connection.execute(kind.statement.replace("{n}", str(n)).encode())

    return send


def measure(send: Callable[[int], None], requests: int) -> list[float]:
    """Return how long each took, in milliseconds."""
    times = []
    for n in range(1, requests + 1):
        begun = time.perf_counter()
        send(n)
        times.append((time.perf_counter() - begun) * 1000)
    return times


def cpu_ms(gateway: Gateway) -> float:
    """Return the processor time that a gateway has used, which does not depend on what else the machine does."""
    fields = Path(f"/proc/{gateway.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def start(postgres: Postgres, roots: list[Path], directory: Path, stack: ExitStack) -> list[Gateway]:
    settings = Checkout(database_url=postgres.url, storage_dir=directory, dashboard_dir=directory)
    settings.initialise()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(TABLES)
        connection.execute(f"alter role authenticator login password '{postgres.password}'".encode())
    serving = replace(settings, api_url=postgres.url.replace("//postgres:", "//authenticator:"))
    return [stack.enter_context(Gateway(replace(serving, root=root))) for root in roots]


def compare(gateways: dict[str, Gateway], connection: psycopg.Connection, rounds: int, requests: int) -> None:
    clients = {
        name: httpx.Client(base_url=one.url, headers={"apikey": one.settings.secret_key}, timeout=60)
        for name, one in gateways.items()
    }
    for kind in KINDS:
        senders = {name: requests_of(client, kind) for name, client in clients.items()}
        senders["bare statement"] = statements_of(connection, kind)
        times: dict[str, list[float]] = {name: [] for name in senders}
        used = dict.fromkeys(gateways, 0.0)
        for turn in range(rounds + 1):
            for name, send in senders.items():
                before = cpu_ms(gateways[name]) if name in gateways else 0
                measured = measure(send, requests)
                if turn > 0:  # the first turn warms up
                    times[name] += measured
                    if name in gateways:
                        used[name] += cpu_ms(gateways[name]) - before
        report(kind, times, {name: value / (rounds * requests) for name, value in used.items()})


def report(kind: Kind, times: dict[str, list[float]], used: dict[str, float]) -> None:
    print(kind.name)
    for name, values in times.items():
        slowest = statistics.quantiles(values, n=100)[98]
        cpu = f" {used[name]:5.2f} ms of the gateway's processor" if name in used else ""
        print(f"  {name:15} {statistics.median(values):7.2f} ms median {slowest:7.2f} ms p99{cpu}")
    if "before" in times:
        ratio = statistics.median(times["now"]) / statistics.median(times["before"])
        print(f"  now / before    {ratio:7.2f} of the time, {used['now'] / used['before']:.2f} of the processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, whose gateway is measured in turn")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=150)
    chosen = parser.parse_args()
    roots = {"before": chosen.before.resolve()} if chosen.before else {}
    roots["now"] = ROOT
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-benchmark-")))
        postgres = Postgres(
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-postgres-"))).resolve()
        )
        postgres.create()
        postgres.start()
        stack.callback(postgres.stop, mode="immediate")
        gateways = start(postgres, list(roots.values()), directory, stack)
        connection = stack.enter_context(psycopg.connect(postgres.url, autocommit=True))
        compare(dict(zip(roots, gateways, strict=True)), connection, chosen.rounds, chosen.requests)


if __name__ == "__main__":
    main()
