"""No call waits for the network, whether a server is away, hangs, drops packets, or has a name that nobody resolves."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

import openmanus_rl
from openmanus_rl.errors import ConflictError, NotFoundError, TransientError
from openmanus_rl.records.ids import new_id

from .conftest import Query, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")

# A call that waits for its server waits for 30 s at least, and for a hung one for minutes.
NOT_WAITING_SECONDS = 20.0


@pytest.fixture(params=["refuses", "hangs", "drops packets", "has no address"])
def absent(
    request: pytest.FixtureRequest, recorder_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A Supabase that gives no answer."""
    monkeypatch.setenv("OPENMANUS_RL_ASK_TIMEOUT_SECONDS", "0.5")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert recorder_env
    with ExitStack() as sockets:
        server = sockets.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        host, port = server.getsockname()
        if request.param == "hangs":
            server.listen(16)
        elif request.param == "drops packets":
            server.listen(0)
            # With its queue full, the kernel lets further connections wait for an answer.
            for _ in range(4):
                waiting = sockets.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((host, port))
        elif request.param == "has no address":
            host = "nobody-knows.example"
            hung = threading.Event()
            sockets.callback(hung.set)
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: hung.wait(60) or [])
        monkeypatch.setenv("SUPABASE_URL", f"http://{host}:{port}")
        yield


@pytest.mark.usefixtures("absent")
def test_nothing_waits_for_a_server_that_does_not_answer(tmp_path: Path) -> None:
    started = time.monotonic()
    checkpoint = tmp_path / "model.pt"
    checkpoint.write_bytes(b"weights")
    with openmanus_rl.init(name="nameless", environment="e") as run:
        run.log({"loss": 1.0}, step=0)
        with run.step(0), run.rollout() as rollout:
            rollout.log_turn(observation="a room")
            rollout.log_media(b"bytes")
        run.log_checkpoint(0, file=checkpoint)
    name = f"named-{new_id()}"
    with openmanus_rl.init(name="named", environment="e", run_name=name) as named:
        assert named.next_step == 0
        for number in range(3):
            with named.step(number):
                pass
    # What this machine knows is enough to go back in it, or to go on with it.
    with openmanus_rl.init(run_name=name, rewind_to_step=1) as rewound:
        assert (rewound.next_step, list(rewound.rewinds)) == (2, [1])
    with openmanus_rl.init(run_name=name, resume="must") as resumed:
        assert (resumed.next_step, list(resumed.rewinds)) == (2, [1])
    with pytest.raises(ConflictError, match="there already"):
        openmanus_rl.init(run_name=name, resume="never")
    for options in ({"resume": "must"}, {"resume": "never"}, {"rewind_to_step": 1}):
        with pytest.raises(TransientError, match="cannot tell whether it exists"):
            openmanus_rl.init(run_name=f"unknown-{new_id()}", **options)  # type: ignore[arg-type]
    assert time.monotonic() - started < NOT_WAITING_SECONDS


def test_the_embedded_stack_is_started_beside_training(tmp_path: Path) -> None:
    """Nothing of it is started here: the courier, which would, can't find the program."""
    home = tmp_path / "embedded"
    names = ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL", "OPENMANUS_RL_AUTOSTART")
    env = {name: value for name, value in os.environ.items() if name not in names} | {"OPENMANUS_RL_HOME": str(home)}
    code = (
        "import openmanus_rl, openmanus_rl.recorder.recording as r\nr.ensure_courier = lambda settings: None\n"
        "with openmanus_rl.init(name='n', run_name='n', environment='e') as run: run.log({'loss': 1.0}, step=0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert "starting the embedded stack beside this process" in done.stderr
    assert not (home / "postgres").exists()


EVERY_CALL = """
import os, pickle, sys, threading, openmanus_rl, psutil
mode, file, name = sys.argv[1:]
with openmanus_rl.init(name="modes", environment="e", config={"a": 1}, run_name=name, tags=["x"], mode=mode) as run:
    assert (run.next_step, list(run.rewinds), len(run.id)) == (0, [], 36)
    run.log({"loss": 1.0}, step=0)
    with run.step(0, phase="rollout") as step, step.group(task="t") as group:
        step.log(loss=1.0)
        with group.rollout(task_description="t") as rollout:
            turn = rollout.log_turn(observation="a", action="b", reward={"a": 1.0}, tool_calls=[{"tool_name": "s"}],
                                    messages=[{"role": "user", "content": "hi"}], images=[b"no picture"],
                                    generations=[{"prompt_ids": [1], "completion_ids": [2]}])
            assert len(turn) == 36
            rollout.log_media(b"abc", kind="file")
            rollout.complete("success")
    with run.evaluation(step=0) as evaluation:
        evaluation.rollout().complete("success")
    assert len(run.log_checkpoint(1, step=0, file=file)) == 36
    run.log_media(b"abc", kind="file")
    run.update(progress=0.5)
    worker = openmanus_rl.init()
    worker.rollout().complete()
    worker.finish()
    handed = pickle.loads(pickle.dumps(run))
    assert handed.id == run.id
    handed.finish()
    assert run.worker_env()["OPENMANUS_RL_MODE"] == os.environ["OPENMANUS_RL_MODE"] == mode
    children = psutil.Process().children()
    print(run.flush(timeout_seconds=60), run.stats.queued > 0, threading.active_count(), len(children))
assert "OPENMANUS_RL_MODE" not in os.environ and "OPENMANUS_RL_RUN_ID" not in os.environ
"""


@pytest.mark.parametrize(
    ("mode", "printed"), [("disabled", "True False 1 0"), ("offline", "False True 2 0"), ("online", "True False 2 1")]
)
def test_every_call_works_in_every_mode(query: Query, tmp_path: Path, cli: Any, mode: str, printed: str) -> None:
    checkpoint, name = tmp_path / "model.pt", f"mode-{new_id()}"
    checkpoint.write_bytes(b"weights")
    code = EVERY_CALL.replace(', images=[b"no picture"]', "") if mode == "online" else EVERY_CALL
    command = [sys.executable, "-c", code, mode, str(checkpoint), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr
    home = Path(os.environ["OPENMANUS_RL_HOME"])
    assert home.exists() == (mode != "disabled")
    found = "select 1 from training_runs where run_name = %s and status = 'completed'"
    if mode == "offline":
        assert not query(found, name)
        home.mkdir(exist_ok=True)
        cli("sync", env=dict(os.environ))
    if mode != "disabled":
        wait_until(lambda: bool(query(found, name)))


def test_disabled_needs_no_settings_and_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPABASE_URL", "no address")
    monkeypatch.setenv("OPENMANUS_RL_MODE", "disabled")
    with openmanus_rl.init() as run:
        run.log({"loss": 1.0}, step=0)
        # What joins the run, such as a wrapper of an environment that was given none, is not ended by anybody.
        assert openmanus_rl.init().id == run.id
    assert "OPENMANUS_RL_RUN_ID" not in os.environ
    monkeypatch.setenv("SUPABASE_URL", "http://127.0.0.1:9")
    with pytest.raises(NotFoundError, match="none to resume"):
        openmanus_rl.init(run_name=f"unknown-{new_id()}", resume="must", mode="offline")


def test_the_mode_of_one_run_is_not_that_of_the_next() -> None:
    with openmanus_rl.init(name="first", mode="disabled") as first:
        with openmanus_rl.init(name="second") as second:
            second.log({"loss": 1.0}, step=0)
            assert second.stats.queued + second.stats.delivered == 2
            assert "OPENMANUS_RL_MODE" not in os.environ
        assert os.environ["OPENMANUS_RL_MODE"] == "disabled"
        with openmanus_rl.init():
            assert os.environ["OPENMANUS_RL_MODE"] == "disabled"
        assert first.stats.queued == 0
    assert "OPENMANUS_RL_MODE" not in os.environ


def test_runs_that_ended_leave_nothing_behind_in_the_process() -> None:
    me = psutil.Process()
    before = set(threading.enumerate())

    def record(times: int) -> tuple[int, int, int]:
        for number in range(times):
            with openmanus_rl.init(name="short", environment="e", run_name=f"short-{new_id()}") as run:
                run.log({"loss": 1.0}, step=number)
        gc.collect()
        wait_until(lambda: not any(one.name.startswith("openmanus-rl") for one in set(threading.enumerate()) - before))
        return threading.active_count(), me.num_fds(), len(gc.get_objects())

    threads, files, objects = record(3)
    assert record(30)[:2] == (threads, files)
    assert record(30)[2] < objects + 30 * 200
