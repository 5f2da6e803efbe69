"""Where only the API is known, nothing is lost, doubled or out of order, whatever happens on the way to the server."""

from __future__ import annotations

import logging
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pydantic import SecretStr

from openmanus_rl.connections import get_client
from openmanus_rl.delivery.batches import Batch
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.destination import connect
from openmanus_rl.delivery.http_sink import HttpSink
from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.errors import OpenManusError
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.files import Position
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import Spool
from openmanus_rl.spool.writer import SpoolWriter
from openmanus_rl.transport.batch_text import encode_batch
from tests.support.fault_proxy import FaultProxy, fault_proxy

from .conftest import Query, wait_until
from .faulty_server import FaultySupabase, Handler
from .test_recorder import start
from .test_same_rules import metrics_of, rows_of

pytestmark = pytest.mark.usefixtures("recorder_env")

_BATCH_BYTES = 100_000


@pytest.fixture
def proxy(stack: Any, recorder_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy before a Supabase of which only the HTTP address is known."""
    with fault_proxy(recorder_env["SUPABASE_URL"], stack.certificate) as proxy:
        monkeypatch.setenv("SUPABASE_URL", proxy.url)
        monkeypatch.delenv("DATABASE_URL", raising=False)
        yield proxy


class Recorded:
    """A spool of about 1 MB, of a run whose rollouts begin in one batch and end in another; and what it amounts to."""

    def __init__(self, folder: Path, query: Query, database_url: str) -> None:
        self.run_id = new_id()
        self.query = query
        writer = SpoolWriter(folder / "once", url="x", run_id=self.run_id)
        self._write(writer)
        writer.close()
        self.folder = folder / "spools" / writer.folder.name
        shutil.copytree(writer.folder, self.folder)
        settings = load_settings().model_copy(update={"database_url": SecretStr(database_url)})
        Courier(folder / "once", connect=lambda: connect(settings)).deliver()
        self.expected = self.stored()
        assert len(self.expected["agent_states"]) == 90
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("delete from public.training_runs where id = %s", [self.run_id])
        assert not any(self.stored().values())

    @property
    def root(self) -> Path:
        return self.folder.parent

    def _write(self, writer: SpoolWriter) -> None:
        chance = random.Random(4)
        writer.append("training_runs", {"id": self.run_id, "name": "http", "environment": "e", "status": "running"})
        rollouts = [new_id() for _ in range(30)]
        for number, rollout in enumerate([*rollouts, *rollouts]):
            if number < len(rollouts):
                begun = {"training_run_id": self.run_id, "status": "running", "seed": number}
                writer.append("rollouts", {"id": rollout, **begun, "status_change_id": new_id()})
            for turn in range(2) if number < len(rollouts) else (2,):
                text = "".join(chance.choices('abc xyz\n\t\\"äß漢🦙', k=9_000))
                parts = {
                    "tool_calls": [{"tool_name": "t", "tool_input": {"q": text[:50]}}],
                    "rewards": [{"reward": turn}],
                }
                writer.append(
                    "agent_states",
                    {"id": new_id(), "rollout_id": rollout, "step_number": turn, "observation": text, **parts},
                )
            writer.append("metrics", {"run": self.run_id, "step": number, "values": {"loss": number / 7, "kl": number}})
            if number >= len(rollouts):
                writer.append("rollouts", {"id": rollout, "status": "success", "status_change_id": new_id()})

    def stored(self) -> dict[str, list[str]]:
        # Counts are kept in shards, by session.
        stats = self.query(
            """select sum(rollout_count)::int as a, sum(completed_count)::int as b, sum(success_count)::int as c
               from rollout_stats where training_run_id = %s having count(*) > 0""",
            self.run_id,
        )
        others = {"rollout_stats": [str(one) for one in stats], "metrics": metrics_of(self.query, self.run_id)}
        return rows_of(self.query, self.run_id) | others

    def turns(self) -> int:
        (found,) = self.query("select count(*) as n from agent_states where training_run_id = %s", self.run_id)
        return int(found["n"])

    def first_batch(self) -> Batch:
        batch = SpoolReader(self.folder, Position(1, 0)).read(_BATCH_BYTES)
        assert batch is not None
        return batch.records


@pytest.fixture
def recorded(tmp_path: Path, query: Query, stack: Any) -> Recorded:
    return Recorded(tmp_path, query, stack.database_url)


def courier_of(recorded: Recorded) -> Courier:
    settings = load_settings()
    return Courier(recorded.root, connect=lambda: connect(settings), batch_bytes=_BATCH_BYTES)


def deliver(courier: Courier, until: Callable[[], bool]) -> int:
    """Deliver as often as it takes, and return how often it failed."""
    failures = 0
    while not until():
        try:
            courier.deliver()
        except OpenManusError:
            failures += 1
            assert failures < 200
    courier.close()
    return failures


@pytest.mark.parametrize("which", ["requests", "answers", "both"])
def test_a_proxy_that_cuts_connections_off_anywhere_costs_time_and_nothing_else(
    recorded: Recorded, proxy: FaultProxy, which: str
) -> None:
    chance = random.Random(which)
    if which != "answers":
        proxy.cuts_of_requests = list(accumulate(chance.randint(1, 120_000) for _ in range(20)))
    if which != "requests":
        proxy.cuts_of_answers = list(accumulate(chance.randint(1, 900) for _ in range(12)))
    failures = deliver(courier_of(recorded), until=lambda: not recorded.folder.exists())
    assert proxy.broken_off >= 8
    assert failures >= 4
    assert recorded.stored() == recorded.expected


def test_two_couriers_behind_such_a_proxy_deliver_everything_once(recorded: Recorded, proxy: FaultProxy) -> None:
    chance = random.Random(8)
    proxy.cuts_of_requests = list(accumulate(chance.randint(1, 200_000) for _ in range(8)))
    proxy.cuts_of_answers = list(accumulate(chance.randint(1, 2_000) for _ in range(4)))
    couriers = [courier_of(recorded) for _ in range(2)]
    threads = [
        threading.Thread(target=deliver, args=(courier, lambda: not recorded.folder.exists())) for courier in couriers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorded.stored() == recorded.expected


def test_the_next_batch_is_on_its_way_and_not_written_before_the_one_before_is_answered(
    recorded: Recorded, proxy: FaultProxy
) -> None:
    first = recorded.first_batch()
    sink = sink_that_has_loaded(first)
    courier = Courier(recorded.root, connect=lambda: sink, batch_bytes=_BATCH_BYTES)
    courier._connected()
    before = proxy.sent
    proxy.answers_pass.clear()
    thread = threading.Thread(target=courier.deliver)
    thread.start()
    # More than the first request has.
    wait_until(lambda: proxy.sent > before + len(encode_batch(first)) + 50_000)
    wait_until(lambda: recorded.turns() == len(first["agent_states"]))
    assert Spool(recorded.folder).progress.taken == 0
    proxy.answers_pass.set()
    thread.join()
    assert recorded.stored() == recorded.expected


def sink_that_has_loaded(batch: Batch) -> HttpSink:
    sink = HttpSink(get_client())
    assert sink.load({"training_runs": batch["training_runs"]}) == []
    return sink


def test_what_was_sent_ahead_and_not_wanted_writes_nothing(recorded: Recorded, proxy: FaultProxy) -> None:
    batch = recorded.first_batch()
    sink = sink_that_has_loaded(batch)
    sink.prepare(batch)
    wait_until(lambda: proxy.sent > len(encode_batch(batch)))
    sink.close()
    # Answered by the server that got the other one before.
    assert sink.load({"training_runs": batch["training_runs"]}) == []
    assert recorded.turns() == 0
    assert sink.load(batch) == []
    assert recorded.turns() == len(batch["agent_states"])


def test_a_request_that_was_cut_off_while_it_waited_is_sent_again_at_once(
    recorded: Recorded, proxy: FaultProxy
) -> None:
    batch = recorded.first_batch()
    sink = sink_that_has_loaded(batch)
    proxy.cuts_of_requests = [proxy.sent + 50_000]
    sink.prepare(batch)
    wait_until(lambda: proxy.broken_off == 1)
    assert sink.load(batch) == []
    assert recorded.turns() == len(batch["agent_states"])


def test_a_courier_that_is_killed_before_it_heard_the_answer_delivers_nothing_twice(
    proxy: FaultProxy, query: Query
) -> None:
    def stored(run_id: str) -> int:
        (found,) = query("select count(*) as n from agent_states where training_run_id = %s", run_id)
        return int(found["n"])

    with start() as run:
        assert run.flush(timeout_seconds=30)
        proxy.answers_pass.clear()
        for number in range(20):
            with run.rollout(seed=number) as rollout:
                rollout.log_turn(observation=str(number), reward=1.0)
        wait_until(lambda: stored(run.id) == 20)
        # It is stored, but nobody knows.
        assert not run.flush(timeout_seconds=0.2)
        assert run.stats.queued > 0
        root = str(spool_root(load_settings()))
        couriers = [one for one in psutil.process_iter(["cmdline"]) if root in (one.info["cmdline"] or [])]
        assert couriers
        for courier in couriers:
            courier.send_signal(signal.SIGKILL)
        psutil.wait_procs(couriers, timeout=10)
        proxy.answers_pass.set()
        assert run.flush(timeout_seconds=30)
        assert (run.stats.queued, run.stats.rejected, run.stats.lost) == (0, 0, 0)
    assert stored(run.id) == 20
    history = query(
        "select count(*) as n from status_history h join rollouts r on r.id = h.entity_id where r.training_run_id = %s",
        run.id,
    )
    assert history == [{"n": 40}]


def test_batches_without_faults_go_as_text_alone(recorded: Recorded, server: FaultySupabase) -> None:
    asked = []

    def note(handler: Handler, body: bytes) -> None:
        asked.append(handler.path)
        handler.answer(handler.ask_upstream(body))

    server.fault = note
    deliver(courier_of(recorded), until=lambda: not recorded.folder.exists())
    assert {path for path in asked if "interrupt" not in path} == {"/rest/v1/rpc/load_batch"}
    assert recorded.stored() == recorded.expected


def test_a_courier_rests_for_as_long_as_the_server_asks_but_not_while_flush_waits(server: FaultySupabase) -> None:
    def ask_to_rest(handler: Handler, body: bytes) -> None:
        response = handler.ask_upstream(body)
        handler.reply(response.status_code, response.content, X_Rest_Seconds="600")

    server.fault = ask_to_rest
    with start() as run:
        wait_until(lambda: run.stats.queued == 0)
        before = server.requests
        run.log({"loss": 1.0}, step=1)
        time.sleep(2)  # Several of the rests that it takes by itself.
        assert (server.requests, run.stats.queued) == (before, 1)
        assert run.flush(timeout_seconds=25)


class Limited:
    """A proxy that takes small bodies only, and says so with a page of its own, as nginx does."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.refused = 0

    def __call__(self, handler: Handler, body: bytes) -> None:
        if len(body) > self.most_bytes:
            self.refused += 1
            handler.reply(413, b"<html><h1>413 Request Entity Too Large</h1></html>", "text/html")
        else:
            handler.answer(handler.ask_upstream(body))


def test_the_limit_of_a_proxy_is_found_once_and_told(
    recorded: Recorded, server: FaultySupabase, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_REQUEST_TIMEOUT_SECONDS", "30")
    limit = Limited(200_000)
    server.fault = limit
    settings = load_settings()
    with caplog.at_level(logging.WARNING):
        Courier(recorded.root, connect=lambda: connect(settings)).deliver()
    assert recorded.stored() == recorded.expected
    # Of 1 MB, 500 kB and 250 kB one each, and at most one more that was on its way.
    assert limit.refused <= 4
    assert server.requests >= limit.refused + 5
    assert "client_max_body_size" in caplog.text


def _larger(batch: Batch, bytes_sent: Callable[[], int], sink: HttpSink) -> tuple[int, int]:
    """Load a batch, and return how many bytes its text has and how many went over the wire."""
    before = bytes_sent()
    assert sink.load(batch) == []
    return len(encode_batch(batch)), bytes_sent() - before


def test_requests_are_compressed_once_the_server_says_that_it_takes_that(recorded: Recorded, proxy: FaultProxy) -> None:
    batch = recorded.first_batch()
    sink = HttpSink(get_client(), compress=True)
    assert sink.load({"training_runs": batch["training_runs"]}) == []
    size, sent = _larger(batch, lambda: proxy.sent, sink)
    assert sent < size * 0.7
    deliver(courier_of(recorded), until=lambda: not recorded.folder.exists())
    assert recorded.stored() == recorded.expected


@pytest.mark.parametrize("fault", ["no announcement", "header dropped", "refused"])
def test_a_server_that_takes_no_compressed_requests_gets_them_as_they_are(
    recorded: Recorded, server: FaultySupabase, fault: str
) -> None:
    compressed = 0

    def answer(handler: Handler, body: bytes) -> None:
        nonlocal compressed
        compressed += handler.headers.get("content-encoding") == "gzip"
        if fault == "refused" and "content-encoding" in handler.headers:
            handler.reply(415, b"<html>Unsupported Media Type</html>", "text/html")
            return
        del handler.headers["content-encoding"]
        response = handler.ask_upstream(body)
        said = {} if fault == "no announcement" else {"Accept_Encoding": "gzip"}
        handler.reply(response.status_code, response.content, response.headers["content-type"], **said)

    server.fault = answer
    batch = recorded.first_batch()
    sink = HttpSink(get_client(), compress=True)
    for records in ({"training_runs": batch["training_runs"]}, batch, batch):
        assert sink.load(records) == []
    assert compressed == (0 if fault == "no announcement" else 1)
    assert recorded.turns() == len(batch["agent_states"])


def test_a_body_that_lost_its_end_writes_nothing(recorded: Recorded) -> None:
    batch = recorded.first_batch()
    text = encode_batch(batch)
    ends_of_groups = [place + 1 for place, byte in enumerate(text) if byte == 0x1D]
    assert len(ends_of_groups) > 4
    for end in (*ends_of_groups, len(text) - 1, len(text) - 2, len(text) // 2, 0):
        with pytest.raises(OpenManusError):
            get_client().rpc_with_text("load_batch", text[:end])
    # A record without its last field, and one too few.
    for damaged in (text.replace(b"\x1f", b"", 200), text.replace(b"\x1e", b"", 3)):
        with pytest.raises(OpenManusError):
            get_client().rpc_with_text("load_batch", damaged)
    assert not any(recorded.stored().values())
