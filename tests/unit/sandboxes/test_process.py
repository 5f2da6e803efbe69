"""Environments of local processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from openmanus_rl.sandboxes import process as process_module
from openmanus_rl.sandboxes._traces import TOKEN_VARIABLE
from openmanus_rl.sandboxes.base import SandboxCancelled, SandboxError
from openmanus_rl.sandboxes.process import ProcessSandbox
from openmanus_rl.sandboxes.providers import provision, remove_rollout, take_back_all

SERVER = textwrap.dedent("""
    import http.server, os, time
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            if self.path == "/drip":
                while True:
                    self.wfile.write(b".")
                    time.sleep(0.05)
            self.wfile.write(b"x" * 5000 if self.path == "/large" else os.environ.get("GREETING", "hello").encode())
    http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
""")

Start = Callable[..., ProcessSandbox]


def web(**more: Any) -> dict[str, Any]:
    service = {"command": ["python", "app.py"], "files": {"app.py": {"text": SERVER}}, "health": {"http": "/"}}
    return {"kind": "process", "url": "http://web/start", "services": {"web": service | more}}


def running(token: str) -> list[int]:
    """Return the processes of a sandbox."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.environ().get(TOKEN_VARIABLE) == token and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each.pid)
        except (psutil.Error, OSError):
            continue
    return found


def commands(text: str) -> list[int]:
    """Return the processes with a text in their command line."""
    found = []
    for each in psutil.process_iter():
        try:
            if text in " ".join(each.cmdline()) and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each.pid)
        except (psutil.Error, OSError):
            continue
    return found


def sleeping(seconds: str) -> list[int]:
    """Return the processes that sleep for that long; not those that only have it in their command line."""
    return [pid for pid in commands(f"sleep {seconds}") if _arguments(pid) == ["sleep", seconds]]


def _arguments(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that starts an environment; nothing may be left of any of them."""
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(tmp_path / "home"))
    started: list[ProcessSandbox] = []

    def run(spec: dict[str, Any], **options: Any) -> ProcessSandbox:
        rollout = options.pop("rollout_id", str(uuid.uuid4()))
        sandbox = provision(spec, **{"rollout_id": rollout, "owner": "test", "folder": tmp_path / rollout} | options)
        assert isinstance(sandbox, ProcessSandbox)
        started.append(sandbox)
        return sandbox

    yield run
    for sandbox in started:
        sandbox.close()
        assert running(sandbox._trace.token) == []
    assert list((tmp_path / "home" / "sandboxes").glob("*.json")) == []


@pytest.fixture
def shell(start: Start) -> ProcessSandbox:
    """A sandbox without services."""
    return start({"kind": "process"})


def test_a_service_is_served_on_the_loopback_interface(start: Start) -> None:
    sandbox = start(web(environment={"GREETING": "good day"}))

    assert sandbox.url is not None
    assert sandbox.url == f"http://127.0.0.1:{sandbox.services['web'].port}/start"
    with urllib.request.urlopen(sandbox.url) as answer:
        assert answer.read() == b"good day"
    assert sandbox.request("GET", "http://web/").body == b"good day"
    sandbox.check()
    assert b"GET /start" in sandbox.logs()["web"]


def test_services_find_each_other_by_variables(start: Start) -> None:
    spec = web()
    spec["services"]["second"] = {
        "command": "echo $WEB_HOST:$WEB_PORT; sleep 600",
        "listens": False,
        "depends_on": ["web"],
    }
    sandbox = start(spec)
    address = sandbox.services["web"]

    wait_until(lambda: sandbox.logs()["second"] == f"{address.host}:{address.port}\n".encode())
    assert list(sandbox.services) == ["web"]


def test_secrets_of_the_worker_are_not_in_the_environment(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPABASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "sb_secret_hidden-value")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:hidden-value@127.0.0.1/x")
    monkeypatch.setenv("GEMINI_API_KEY", "hidden-value")
    sandbox = start(web(environment={"OWN": "shown"}))

    assert b"hidden-value" not in sandbox.run("env").stdout
    assert b"OWN=shown" in sandbox.run("env").stdout
    for pid in running(sandbox._trace.token):
        # Commands that ran just now may end meanwhile.
        with suppress(ProcessLookupError, FileNotFoundError):
            assert b"hidden-value" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_command_has_a_private_folder_as_its_home(start: Start, tmp_path: Path) -> None:
    sandbox = start({"kind": "process"}, rollout_id="one")

    folder = tmp_path / "one" / "sandbox" / "work"
    assert sandbox.run('pwd; echo "$HOME"; echo "$TMPDIR"').stdout.decode().split() == [
        str(folder),
        str(folder),
        f"{folder}/tmp",
    ]
    assert folder.stat().st_mode & 0o077 == 0


def test_commands_get_input_and_environment_and_tell_their_end(shell: ProcessSandbox) -> None:
    shell.run("mkdir sub")
    done = shell.run(
        'cat; echo "$NAME in ${PWD##*/}" >&2; exit 3', stdin=b"in", environment={"NAME": "x"}, folder="sub"
    )

    assert (done.exit_code, done.stdout, done.stderr) == (3, b"in", b"x in sub\n")
    assert shell.run("kill -9 $$").exit_code == 137
    assert shell.run(["no-such-program"]).exit_code == 127


def test_output_beyond_the_limit_is_dropped_and_said(shell: ProcessSandbox) -> None:
    done = shell.run("yes | head -c 5000000; echo end >&2", output_limit_bytes=1000)

    assert (len(done.stdout), done.stderr, done.is_truncated) == (1000, b"end\n", True)


def test_what_a_command_leaves_in_the_background_runs_until_the_end(shell: ProcessSandbox) -> None:
    mark = f"6{uuid.uuid4().int % 10**12}"
    assert shell.run(f"sleep {mark} & echo started").stdout == b"started\n"
    assert sleeping(mark)

    shell.close()

    assert commands(mark) == []


def test_a_command_ends_at_its_time_limit_with_all_that_it_started(shell: ProcessSandbox) -> None:
    mark = f"6{uuid.uuid4().int % 10**12}"
    script = f"""
        sleep {mark} &
        setsid sleep {mark} &
        env -i setsid sh -c 'trap "" TERM HUP; (sleep {mark} &) ; sleep {mark}' &
        echo begun
        sleep {mark}
    """

    done = shell.run(script, timeout_seconds=1)

    assert done.timed_out
    assert done.stdout == b"begun\n"
    assert commands(mark) == []


def test_processes_that_go_on_starting_others_are_ended(shell: ProcessSandbox) -> None:
    mark = f"fork-{uuid.uuid4().hex}"
    # Each starts the next and ends: there is always one, and never for long.
    shell.write_file("chain.sh", f'# {mark}\nsetsid sh "$0" {mark} &\nsleep 0.002\n'.encode())

    shell.run(f"sh chain.sh {mark}; sleep 600", timeout_seconds=1)

    assert commands(mark) == []


def test_limits_are_kept(start: Start) -> None:
    sandbox = start(web(resources={"memory": "1g", "disk": "1m"}))

    assert sandbox.run("python -c 'bytearray(2 * 1024 ** 3)'").exit_code == 1
    done = sandbox.run("head -c 5M /dev/zero > big; stat -c %s big")
    assert done.stdout == b"1048576\n"


@pytest.mark.parametrize("path", ["../x", "/etc/hosts", "a/../../x", "out/x", "file-link", "nul\0", "fifo", "."])
def test_paths_do_not_leave_the_folder(shell: ProcessSandbox, path: str, tmp_path: Path) -> None:
    shell.run(f"ln -s {tmp_path} out; ln -s /etc/hosts file-link; mkfifo fifo")
    before = Path("/etc/hosts").read_bytes()

    with pytest.raises(SandboxError):
        shell.write_file(path, b"attack")
    with pytest.raises(SandboxError):
        shell.read_file(path)
    assert Path("/etc/hosts").read_bytes() == before
    assert not (tmp_path / "x").exists()


def test_files_go_in_and_out(shell: ProcessSandbox, tmp_path: Path) -> None:
    source = tmp_path / "source" / "deep"
    source.mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)

    shell.put_folder(tmp_path / "source", "tests")
    shell.write_file("a/b.txt", b"content", mode=0o600)

    assert shell.run("tests/deep/run.sh").stdout == b"ran\n"
    assert shell.read_file("a/b.txt") == b"content"
    with pytest.raises(FileNotFoundError):
        shell.read_file("missing")
    with pytest.raises(SandboxError, match="more than 3 bytes"):
        shell.read_file("a/b.txt", limit_bytes=3)


def test_files_of_the_task_are_copied(start: Start, tmp_path: Path) -> None:
    (tmp_path / "task" / "data").mkdir(parents=True)
    (tmp_path / "task" / "data" / "rows.csv").write_text("a,b\n")
    files = {"app.py": {"text": SERVER}, "rows.csv": {"path": "data/rows.csv"}, "all": {"path": "data"}}

    sandbox = start(web(files=files), task_files=tmp_path / "task")

    assert sandbox.read_file("rows.csv") == sandbox.read_file("all/rows.csv") == b"a,b\n"


def test_a_service_that_never_gets_healthy_is_ended_and_its_log_kept(start: Start) -> None:
    mark = f"6{uuid.uuid4().int % 10**12}"
    health = {"http": "/", "timeout_seconds": 0.5, "interval_seconds": 0.1}

    with pytest.raises(SandboxError, match=r"service web: not healthy after 0.5 s: .*refused") as caught:
        start(web(command=f"echo waiting; sleep {mark}", health=health))

    assert caught.value.logs == {"web": b"waiting\n"}
    assert commands(mark) == []


def test_a_service_that_dies_says_why(start: Start) -> None:
    with pytest.raises(SandboxError, match=r"(?s)exit code 7: .*no licence"):
        start(web(command="echo no licence >&2; exit 7"))

    sandbox = start(web())
    os.kill(running(sandbox._trace.token)[-1], signal.SIGKILL)
    with pytest.raises(SandboxError, match="service web ended"):
        wait_until(lambda: bool(sandbox.check()))


def test_a_start_is_cancelled_while_it_waits(start: Start) -> None:
    asked = iter([False] * 3)

    with pytest.raises(SandboxCancelled):
        start(web(command="sleep 600"), is_cancelled=lambda: next(asked, True))


def test_a_command_ends_when_the_sandbox_is_closed(shell: ProcessSandbox) -> None:
    with ThreadPoolExecutor(4) as threads:
        running_command = threads.submit(shell.run, "echo > begun; sleep 600", timeout_seconds=600)
        wait_until(lambda: (shell._folder / "work" / "begun").exists())
        list(threads.map(lambda _: shell.close(), range(3)))
        with pytest.raises(SandboxError, match="closed"):
            running_command.result()
    with pytest.raises(SandboxError, match="closed"):
        shell.run("true")


def test_a_log_does_not_grow_without_limit(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_module, "LOG_LIMIT_BYTES", 100_000)
    noise = "yes | head -c 3000000; echo last; sleep 600"
    sandbox = start({"kind": "process", "services": {"loud": {"command": noise, "listens": False}}}, rollout_id="loud")

    wait_until(lambda: sandbox.logs()["loud"].endswith(b"last\n"))
    assert (tmp_path / "loud" / "logs" / "loud.log").stat().st_size <= 200_000


def test_requests_have_limits(start: Start) -> None:
    sandbox = start(web())

    large = sandbox.request("GET", "http://web/large", limit_bytes=100)
    assert (len(large.body), large.is_truncated) == (100, True)
    with pytest.raises(SandboxError, match="timed out"):
        sandbox.request("GET", "http://web/drip", timeout_seconds=0.5)
    for url in ("http://example.com/", "http://169.254.169.254/", "file:///etc/passwd", "http://web:1/", "//"):
        with pytest.raises(SandboxError):
            sandbox.request("GET", url)
    with pytest.raises(SandboxError):
        sandbox.request("GET / HTTP/1.1\r\nX: y", "http://web/")


@pytest.mark.parametrize("rollout_id", ["../../x", "", "a/b", "a\0", "-x", "x" * 65])
def test_ids_that_are_not_names_are_refused(start: Start, rollout_id: str) -> None:
    with pytest.raises(SandboxError, match="the id must"):
        start({"kind": "process"}, rollout_id=rollout_id, folder=Path("/nonexistent"))


WORKER = """
import sys, threading
from pathlib import Path
from openmanus_rl.sandboxes.providers import provision
service = {"command": f"sh -c 'sleep {sys.argv[1]}; true' & wait", "listens": False}
spec = {"kind": "process", "services": {"web": service}}
sandbox = provision(spec, rollout_id="dead", owner="worker-dead", folder=Path(sys.argv[2]))
if len(sys.argv) > 3:
    for pid in [process._guard.pid for process in sandbox._commands]:
        print(pid, flush=True)
print("up", flush=True)
threading.Event().wait()
"""


def killed_worker(mark: str, folder: Path, *options: str) -> list[str]:
    """Start a sandbox in another process, kill the guards that this tells and then itself."""
    command = [sys.executable, "-c", WORKER, mark, folder, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        said = []
        while (line := worker.stdout.readline().strip()) != "up":
            assert line
            said.append(line)
        wait_until(lambda: bool(sleeping(mark)))
        for guard in said:
            os.kill(int(guard), signal.SIGKILL)
        worker.kill()
    return said


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_services_end_with_a_killed_worker(start: Start, tmp_path: Path) -> None:
    mark = f"6{uuid.uuid4().int % 10**12}"

    killed_worker(mark, tmp_path / "dead")

    wait_until(lambda: not sleeping(mark))
    assert take_back_all(lambda _: False) == ["processes of rollout dead"]
    assert not (tmp_path / "dead" / "sandbox").exists()
    assert start


def test_what_a_killed_worker_left_is_taken_back(start: Start, tmp_path: Path) -> None:
    mark = f"6{uuid.uuid4().int % 10**12}"
    assert killed_worker(mark, tmp_path / "dead", "with its guards")
    other = start({"kind": "process"}, owner="worker-alive")
    assert sleeping(mark)

    assert take_back_all(lambda owner: owner == "worker-alive") == ["processes of rollout dead"]

    assert sleeping(mark) == []
    assert other.run("echo mine").stdout == b"mine\n"
    assert take_back_all(lambda owner: owner == "worker-alive") == []


def test_what_is_left_of_a_rollout_is_removed(start: Start) -> None:
    sandbox = start({"kind": "process"}, rollout_id="one")
    other = start({"kind": "process"}, rollout_id="two")

    assert remove_rollout("one") == ["processes of rollout one"]

    assert not sandbox._folder.exists()
    assert other.run("echo mine").stdout == b"mine\n"


def test_a_folder_made_unwritable_is_removed(shell: ProcessSandbox) -> None:
    shell.run("mkdir -p a/b; echo x > a/b/c; chmod 000 a/b a; ln -s / root")

    shell.close()

    assert not shell._folder.exists()
    assert Path("/etc").exists()


def test_ports_are_given_to_one_sandbox_only(start: Start) -> None:
    with ThreadPoolExecutor(8) as threads:
        sandboxes = list(threads.map(lambda _: start(web()), range(8)))

    assert len({sandbox.services["web"].port for sandbox in sandboxes}) == 8


def test_a_sandbox_started_by_a_thread_outlives_the_thread(start: Start) -> None:
    sandboxes: list[ProcessSandbox] = []
    thread = threading.Thread(target=lambda: sandboxes.append(start(web())))
    thread.start()
    thread.join()

    assert sandboxes[0].request("GET", "http://web/").status == 200
    with socket.create_connection((sandboxes[0].services["web"].host, sandboxes[0].services["web"].port), 5):
        sandboxes[0].check()
