"""The runner of a local attempt, and the backend that starts it: one program per attempt, whose end can be told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmanus_rl.jobs.backends._runner import Log, LogDecoder
from openmanus_rl.jobs.backends.base import Attempt, Look, State, as_log_text, parse_name
from openmanus_rl.jobs.backends.local import LocalBackend, this_host
from openmanus_rl.settings import Settings

ATTEMPT = Attempt("omrl-0123456789abcdef-1", "job", 1, {}, {"envs": {"RUN_ID": "run", "SUPABASE_URL": None}})
MakeBackend = Callable[[str], LocalBackend]


@pytest.fixture
def make_backend(tmp_path: Path) -> Iterator[MakeBackend]:
    made: list[LocalBackend] = []

    def make(source: str) -> LocalBackend:
        made.append(LocalBackend(Settings(home=tmp_path), command=[sys.executable, "-S", "-c", source]))
        return made[-1]

    yield make
    for backend in made:
        backend.remove(ATTEMPT)


def await_that(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while not (value := condition()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)
    return value


def await_end(backend: LocalBackend) -> Look:
    await_that(lambda: backend.look(ATTEMPT).state not in (State.WAITING, State.RUNNING))
    return backend.look(ATTEMPT)


def read_all(backend: LocalBackend) -> str:
    return backend.read_log(ATTEMPT, start=0, max_bytes=10**9)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_log_text_does_not_depend_on_where_pieces_end(printed: bytes, cuts: list[int]) -> None:
    decoder = LogDecoder()
    edges = [0, *sorted(cuts), len(printed)]
    pieces = [decoder.decode(printed[start:end]) for start, end in pairwise(edges)]

    text = "".join(pieces) + decoder.decode(b"", final=True)
    assert text == as_log_text(printed, final=True)
    assert "\0" not in text
    assert text.startswith(as_log_text(printed))


def test_the_middle_of_a_long_log_is_left_out(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", limit=10_000, end_bytes=2_000)
    lines = [f"line {number} é\n" for number in range(5000)]
    for line in lines:
        log.write(line.encode())
    log.close()

    text = (tmp_path / "log").read_text()
    begin, end = text.split("\n[the log is full")
    assert len(text.encode()) < 11_000
    assert "".join(lines).startswith(begin)
    kept = end.partition("bytes were left out]\n")[2]
    assert len(kept) == 500
    assert "".join(lines).endswith(kept)
    left_out = int(end.partition("[")[2].partition(" ")[0])
    assert len(begin.encode()) + left_out + len(kept.encode()) == len("".join(lines).encode())


def test_an_attempt_is_never_started_running_or_ended(make_backend: MakeBackend) -> None:
    backend = make_backend("import os, sys; print(os.environ['RUN_ID']); sys.stdout.flush(); sys.exit(3)")
    assert backend.look(ATTEMPT) == Look(State.GONE)

    backend.launch(ATTEMPT)
    assert await_end(backend) == Look(State.ENDED, exit_code=3)
    assert (backend.names(), read_all(backend)) == ([ATTEMPT.name], "run\n")
    backend.launch(ATTEMPT)
    assert backend.look(ATTEMPT) == Look(State.ENDED, exit_code=3)

    backend.remove(ATTEMPT)
    backend.remove(ATTEMPT)
    assert (backend.look(ATTEMPT), backend.names()) == (Look(State.GONE), [])


def test_launched_many_times_at_once_a_program_is_started_once(make_backend: MakeBackend, tmp_path: Path) -> None:
    backend = make_backend(f"import time; open({str(tmp_path / 'trace')!r}, 'a').write('x'); time.sleep(0.3)")

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(backend.launch, ATTEMPT) for _ in range(6)]:
            done.result()

    assert await_end(backend).exit_code == 0
    assert (tmp_path / "trace").read_text() == "x"


def test_a_runner_that_starts_after_its_attempt_was_removed_starts_nothing(
    make_backend: MakeBackend, tmp_path: Path
) -> None:
    from openmanus_rl.jobs.backends import _runner

    make_backend("")
    late = [sys.executable, "-I", "-S", _runner.__file__, str(tmp_path / "jobs" / ATTEMPT.name), "touch"]
    subprocess.run([*late, str(tmp_path / "started")], check=True)

    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "jobs" / ATTEMPT.name).exists()


def test_a_killed_runner_takes_its_program_with_it_and_was_lost(make_backend: MakeBackend, tmp_path: Path) -> None:
    backend = make_backend("import time; print('ready', flush=True); time.sleep(60)")
    backend.launch(ATTEMPT)
    await_that(lambda: read_all(backend) == "ready\n")
    folder = tmp_path / "jobs" / ATTEMPT.name
    pids = [json.loads((folder / name).read_text())["pid"] for name in ("started.json", "program.json")]

    os.kill(pids[0], signal.SIGKILL)

    assert await_end(backend).state is State.LOST
    await_that(lambda: not Path(f"/proc/{pids[1]}/cmdline").exists() or not _command(pids[1]))
    # Readable until it is removed.
    assert read_all(backend) == "ready\n"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_runner_that_is_told_to_end_lets_its_program_end_and_was_lost(
    make_backend: MakeBackend, tmp_path: Path
) -> None:
    backend = make_backend(
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('checkpoint')));"
        "print('ready', flush=True); time.sleep(60)"
    )
    backend.launch(ATTEMPT)
    await_that(lambda: read_all(backend) == "ready\n")
    os.kill(json.loads((tmp_path / "jobs" / ATTEMPT.name / "started.json").read_text())["pid"], signal.SIGTERM)

    assert await_end(backend).state is State.LOST
    assert read_all(backend) == "ready\ncheckpoint\n"


def test_a_program_that_was_stopped_says_so(make_backend: MakeBackend) -> None:
    backend = make_backend("import time; print('ready', flush=True); time.sleep(60)")
    backend.launch(ATTEMPT)
    await_that(lambda: read_all(backend) == "ready\n")

    backend.stop(ATTEMPT, grace_seconds=30)

    assert await_end(backend) == Look(State.ENDED, exit_code=-signal.SIGTERM, was_stopped=True)


def test_a_program_that_cannot_be_started_ends_with_a_reason(tmp_path: Path) -> None:
    backend = LocalBackend(Settings(home=tmp_path), command=["/no/such/program"])
    backend.launch(ATTEMPT)

    assert await_end(backend) == Look(State.ENDED, exit_code=127)
    assert "No such file" in read_all(backend)
    backend.remove(ATTEMPT)


def test_secrets_are_in_no_file_and_on_no_command_line(tmp_path: Path) -> None:
    secret = f"sb_secret_{uuid4().hex}"
    settings = Settings(url="https://example.org", service_role_key=secret, home=tmp_path)
    source = "import os, time; print(len(os.environ['SUPABASE_SERVICE_ROLE_KEY']), flush=True); time.sleep(60)"
    backend = LocalBackend(settings, command=[sys.executable, "-S", "-c", source])
    backend.launch(ATTEMPT)
    await_that(lambda: read_all(backend) == f"{len(secret)}\n")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    pids = [json.loads(path.read_text())["pid"] for path in files if path.name in ("started.json", "program.json")]

    assert all(secret.encode() not in path.read_bytes() for path in files)
    assert all(secret.encode() not in _command(pid) for pid in pids)
    assert (tmp_path / "jobs").stat().st_mode & 0o077 == 0
    backend.remove(ATTEMPT)


def test_a_host_is_a_machine_and_a_home(tmp_path: Path) -> None:
    one, other = (Settings(home=tmp_path / name) for name in "ab")

    assert this_host(one) == this_host(one) != this_host(other)


@pytest.mark.parametrize("name", ["omrl-workers-1", "omrl-0123456789abcde-1", "omrl-0123456789abcdef-0", "other"])
def test_names_of_others_are_told_apart(name: str) -> None:
    assert parse_name(name) is None
    assert parse_name(ATTEMPT.name) == ("01234567", "89abcdef", 1)
