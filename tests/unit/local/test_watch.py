"""A part that hangs is told from one that is busy, by what it answers and whether it computes."""

from __future__ import annotations

from openmanus_rl.local.watch import GatewayMonitor, PostgresMonitor


class Part:
    """A part whose process is given."""

    def __init__(self) -> None:
        self.serving_pid: int | None = 7


class Client:
    """A gateway whose answers are given, and the monitor that checks it every six seconds."""

    def __init__(self) -> None:
        self.part = Part()
        self.silence: float | None = 0.0
        self.healthy = True
        self.cpu = 0.0
        self.now = 0.0
        self.monitor = GatewayMonitor(
            self.part, alive=lambda: self.silence, healthy=lambda: self.healthy, cpu_seconds=lambda _: self.cpu
        )

    def look(self, *, cpu: float = 0.0, postgres_is_healthy: bool = True) -> str | None:
        self.now += 6.0
        self.cpu += cpu
        complaint = self.monitor.check(self.now, postgres_is_healthy=postgres_is_healthy)
        return complaint.reason if complaint else None


def test_a_gateway_that_neither_answers_nor_computes_hangs() -> None:
    gateway = Client()
    gateway.silence = None
    assert [gateway.look(), gateway.look()] == [None, None]
    assert gateway.look() == "it does not respond and uses no CPU"


def test_a_gateway_that_computes_is_busy_for_two_minutes() -> None:
    gateway = Client()
    gateway.silence = None
    verdicts = [gateway.look(cpu=0.5) for _ in range(25)]
    assert verdicts[:20] == [None] * 20
    assert verdicts[20] is not None
    assert "used the CPU without responding" in verdicts[20]


def test_one_answer_ends_the_doubt() -> None:
    gateway = Client()
    for _ in range(10):
        gateway.silence = None
        assert [gateway.look(), gateway.look()] == [None, None]
        gateway.silence = 0.0
        assert gateway.look() is None


def test_a_gateway_that_lost_a_well_postgres_is_replaced() -> None:
    gateway = Client()
    gateway.silence, gateway.healthy = 61.0, False
    assert gateway.look(postgres_is_healthy=False) is None, "Postgres is away: no fault of the gateway's"
    assert "has not reached Postgres for 61 s" in str(gateway.look())


def test_a_gateway_whose_queries_are_slow_is_left_alone() -> None:
    gateway = Client()
    gateway.silence, gateway.healthy = 2.0, False  # Others' transactions go through: the pool is busy, not dead.
    assert [gateway.look() for _ in range(50)] == [None] * 50


def test_a_gateway_that_is_being_started_is_not_judged() -> None:
    gateway = Client()
    gateway.silence = None
    assert [gateway.look(), gateway.look()] == [None, None]
    gateway.part.serving_pid = None
    assert gateway.look() is None
    gateway.part.serving_pid = 8
    assert [gateway.look(), gateway.look()] == [None, None], "a new process starts with a clean record"
    assert gateway.look() is not None


def test_postgres_is_replaced_after_half_a_minute_of_silence() -> None:
    answers = [False, True] + [False] * 7
    part = Part()
    monitor = PostgresMonitor(part, answers=lambda: answers.pop(0))
    verdicts = [monitor.check(now) for now in (0.0, 40.0, 50.0, 56.0, 62.0, 68.0, 74.0)]
    assert verdicts == [None] * 7
    complaint = monitor.check(80.0)
    assert complaint is not None
    assert complaint.pid == 7
    assert "accepted no connection for 30 s" in complaint.reason
    part.serving_pid = 8
    assert monitor.check(86.0) is None
