"""What an agent does to its process does not reach the next rollout there, and nothing is left of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psutil
import pytest

Ask = Callable[..., list[str]]

AGENTS = '''
import os, signal, subprocess, sys, time

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"


class Agent:
    """Does what its options say, and answers what its process is like."""

    sees_solution = False

    def __init__(self, *, model=None, options=None):
        self.options = options

    def run(self, task, sandbox, recorder):
        getattr(self, self.options["do"])()
        return "x"

    def leave_processes(self):
        mark = self.options["mark"]
        subprocess.Popen([sys.executable, "-c", STUBBORN, mark], start_new_session=True)
        subprocess.Popen([sys.executable, "-c", STUBBORN, mark])
        # One whose parent is gone.
        subprocess.run(["sh", "-c", f'setsid {sys.executable} -c "{STUBBORN}" {mark} & exit 0'], check=True)

    def leave_processes_and_die(self):
        self.leave_processes()
        os._exit(3)

    def leave_processes_and_wait(self):
        self.leave_processes()
        time.sleep(1000)

    def close_output(self):
        sys.stdout.close()
        os.closerange(1, 3)

    def close_all(self):
        os.closerange(3, 256)

    def change_surroundings(self):
        os.chdir("/")
        os.environ.clear()
        signal.signal(signal.SIGALRM, signal.SIG_IGN)

    def exit(self):
        sys.exit(5)

    def interrupt(self):
        raise KeyboardInterrupt

    def look(self):
        print("can print", flush=True)
        assert os.getcwd() != "/" and os.environ["PATH"], "the surroundings are another agent's"

    def wait(self):
        time.sleep(1000)

    def shout(self):
        for _ in range(40):
            os.write(1, b"y" * (1 << 20))
            time.sleep(0.02)
'''


@pytest.fixture(autouse=True)
def _agents(queue: Any) -> None:
    (queue.home / "misbehaving.py").write_text(AGENTS)
    queue.env["PYTHONPATH"] = str(queue.home)


def marked(mark: str) -> list[int]:
    """Return the processes that run and have this among their arguments."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def test_each_rollout_finds_a_process_that_works(queue: Any, ask: Ask) -> None:
    mark = str(uuid4())
    done: dict[str, str] = {}
    names = ["leave_processes", "close_output", "change_surroundings", "exit", "interrupt", "close_all", "shout"]
    for place, name in enumerate(names):
        # One after the other, with one that looks after each.
        for part, do in enumerate((name, "look")):
            [done[f"{name} {do}"]] = ask(
                task={"expected_answer": "x"},
                agent="misbehaving:Agent",
                agent_options={"do": do, "mark": mark},
                max_attempts=1,
                priority=100 - 2 * place - part,
            )
    [late] = ask(agent="misbehaving:Agent", agent_options={"do": "wait"}, limits={"max_seconds": 0.5}, max_attempts=1)

    queue.work_off("--max-workers", "1")

    ended = {name: queue.ended(rollout) for name, rollout in done.items()}
    statuses = {name: row["status"] for name, row in ended.items() if row["status"] != "success"}
    assert statuses == dict.fromkeys(("exit exit", "interrupt interrupt", "close_all close_all"), "error"), [
        row["error"] for row in ended.values()
    ]
    assert ended["exit exit"]["error"] == "SystemExit: 5"
    assert queue.ended(late)["status"] == "timeout"
    assert marked(mark) == []
    assert queue.leftovers() == []


def test_what_an_agent_started_ends_with_its_process(queue: Any, ask: Ask) -> None:
    mark = str(uuid4())
    options = {"do": "leave_processes_and_die", "mark": mark}
    [rollout] = ask(agent="misbehaving:Agent", agent_options=options, max_attempts=1)

    queue.work_off("--max-workers", "1")

    assert queue.ended(rollout)["status"] == "error"
    assert marked(mark) == []


def test_the_next_worker_ends_what_an_agent_of_a_killed_one_started(queue: Any, ask: Ask) -> None:
    mark = str(uuid4())
    options = {"do": "leave_processes_and_wait", "mark": mark}
    ask(agent="misbehaving:Agent", agent_options=options, max_attempts=1)
    worker = queue.work("--lease-seconds", "5")
    deadline = time.monotonic() + 60
    while len(marked(mark)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    slots = [child.pid for child in psutil.Process(worker.pid).children() if "slot_process" in str(child.cmdline())]
    for pid in (worker.pid, *slots):
        psutil.Process(pid).kill()
    worker.wait()
    queue.work_off("--lease-seconds", "5")

    assert marked(mark) == []
