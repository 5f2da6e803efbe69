"""Environments of containers, on a real Docker engine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import psycopg
import pytest

from openmanus_rl.sandboxes import _docker_commands, _docker_disk, _docker_network
from openmanus_rl.sandboxes._docker_engine import OWNER_LABEL, ROLLOUT_LABEL
from openmanus_rl.sandboxes.base import SandboxCancelled, SandboxError
from openmanus_rl.sandboxes.docker import DockerProvider, DockerSandbox
from openmanus_rl.sandboxes.providers import provision, remove_rollout, take_back_all

POSTGRES = textwrap.dedent("""
    install -d -o postgres /run/postgresql /data
    exec su postgres -c '/usr/lib/postgresql/15/bin/initdb -D /data -A trust >/dev/null &&
      echo host all all all trust >> /data/pg_hba.conf &&
      exec /usr/lib/postgresql/15/bin/postgres -D /data -c listen_addresses=* -c jit=off -c fsync=off'
""")
# A web app that needs its database, as Metabase does.
WEB = textwrap.dedent("""
    import http.server, subprocess
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            query = ["psql", "-h", "db", "-U", "postgres", "-Atc", "select name from people order by 1"]
            done = subprocess.run(query, capture_output=True)
            self.send_response(200 if done.returncode == 0 else 503)
            self.end_headers()
            self.wfile.write(done.stdout)
    http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
""")
DUMP = "create table people (name text); insert into people values ('Ada'), ('Grace');"

Start = Callable[..., DockerSandbox]


def idle(image: str, **more: Any) -> dict[str, Any]:
    return {"kind": "docker", "services": {"main": {"image": image, "idle": True, **more}}}


def pair(image: str) -> dict[str, Any]:
    return {
        "kind": "docker",
        "url": "http://web:8000/people",
        "services": {
            "db": {
                "image": image,
                "command": POSTGRES,
                "port": 5432,
                "database": {},
                "load": [{"sql": {"text": DUMP}}],
            },
            "web": {
                "image": image,
                "command": ["python3", "/srv/app.py"],
                "port": 8000,
                "files": {"/srv/app.py": {"text": WEB}},
                "depends_on": ["db"],
                "health": {"http": "/people", "timeout_seconds": 30},
            },
        },
    }


def left(client: docker.DockerClient) -> list[str]:
    """Return what rollouts have left in the engine."""
    containers = client.containers.list(all=True, filters={"label": ROLLOUT_LABEL})
    networks = client.networks.list(filters={"label": ROLLOUT_LABEL})
    return [each.name for each in [*containers, *networks]]


@pytest.fixture
def start(docker_engine: docker.DockerClient, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts an environment; nothing may be left of any of them."""
    started: list[DockerSandbox] = []

    def run(spec: dict[str, Any], **options: Any) -> DockerSandbox:
        rollout = options.pop("rollout_id", str(uuid.uuid4()))
        sandbox = provision(spec, **{"rollout_id": rollout, "owner": "test", "folder": tmp_path / rollout} | options)
        assert isinstance(sandbox, DockerSandbox)
        started.append(sandbox)
        return sandbox

    yield run
    for sandbox in started:
        sandbox.close()
    assert left(docker_engine) == []


@pytest.fixture
def shell(start: Start, debian_image: str) -> DockerSandbox:
    """A container that waits for commands."""
    return start(idle(debian_image, resources={"memory": "256m", "pids": 64, "disk": "64m"}))


def test_a_web_app_is_served_with_its_database_loaded(start: Start, debian_image: str) -> None:
    sandbox = start(pair(debian_image))

    assert sandbox.url is not None
    assert sandbox.url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(sandbox.url) as answer:
        assert answer.read() == b"Ada\nGrace\n"
    assert sandbox.request("GET", "http://web:8000/people").body == b"Ada\nGrace\n"
    with psycopg.connect(sandbox.database_url()) as connection:
        assert connection.execute("select count(*) from people").fetchone() == (2,)
    sandbox.check()


def test_containers_are_named_labelled_and_limited(
    start: Start, debian_image: str, docker_engine: docker.DockerClient
) -> None:
    limits = {"memory": "128m", "cpus": 0.5, "pids": 50}
    start(idle(debian_image, resources=limits), rollout_id="abc-1", owner="worker-7")

    container = docker_engine.containers.get("rollout-main-abc-1")
    host = container.attrs["HostConfig"]
    assert container.labels[ROLLOUT_LABEL] == "abc-1"
    assert container.labels[OWNER_LABEL] == "worker-7"
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (128 * 1024**2, 128 * 1024**2, 50)
    assert host["NanoCpus"] == 500_000_000
    assert host["CapDrop"] == ["ALL"]
    assert not {"NET_RAW", "MKNOD", "SYS_ADMIN"} & set(host["CapAdd"])
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert not host["Privileged"]


def test_commands_get_input_and_environment_and_tell_their_end(shell: DockerSandbox) -> None:
    done = shell.run('cat; echo "$NAME in $PWD" >&2; exit 3', stdin=b"input", environment={"NAME": "x"}, folder="/usr")

    assert (done.exit_code, done.stdout, done.stderr) == (3, b"input", b"x in /usr\n")
    assert shell.run(["printf", "%s", "a b"]).stdout == b"a b"


def test_output_beyond_the_limit_is_dropped_and_said(shell: DockerSandbox) -> None:
    done = shell.run("yes | head -c 500000; echo end >&2", output_limit_bytes=1000)

    assert (len(done.stdout), done.stderr, done.is_truncated) == (1000, b"end\n", True)


def test_what_a_command_leaves_in_the_background_does_not_hold_it(shell: DockerSandbox) -> None:
    assert shell.run("sleep 600 & echo started", timeout_seconds=60).stdout == b"started\n"


def count_processes(sandbox: DockerSandbox, name: str) -> int:
    script = f'grep -lx "{name}" /proc/[0-9]*/comm 2>/dev/null | wc -l'
    return int(sandbox.run(script).stdout)


@pytest.mark.parametrize("is_root", [True, False])
def test_a_command_ends_at_its_time_limit_with_all_that_it_started(
    shell: DockerSandbox, monkeypatch: pytest.MonkeyPatch, is_root: bool
) -> None:
    if not is_root:
        monkeypatch.setattr(_docker_commands, "can_enter_namespaces", lambda: False)

    done = shell.run("sleep 601 & setsid sleep 602 & (sleep 603 &) ; echo begun; sleep 604", timeout_seconds=1)

    assert done.timed_out
    assert done.stdout == b"begun\n"
    # The container itself sleeps, too.
    assert count_processes(shell, "sleep") == 1


def test_a_fork_bomb_ends_at_the_time_limit_and_the_container_goes_on(shell: DockerSandbox) -> None:
    done = shell.run("bomb() { bomb | bomb & }; bomb; exec sleep 600", timeout_seconds=2)

    assert done.timed_out
    assert b"fork" in done.stderr
    assert shell.run("echo fine").stdout == b"fine\n"


def test_without_rights_a_fork_bomb_is_ended_or_its_container_is_stopped(
    shell: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_docker_commands, "can_enter_namespaces", lambda: False)

    try:
        shell.run("bomb() { bomb | bomb & }; bomb; exec sleep 600", timeout_seconds=1)
        bombs = count_processes(shell, "sh") - 2  # The one that counts, and its pipe.
    except SandboxError:
        shell._containers["main"].reload()
        assert shell._containers["main"].status == "exited"
        bombs = 0

    assert bombs <= 0


def test_a_command_that_can_not_be_ended_stops_its_container(
    shell: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_docker_commands, "can_enter_namespaces", lambda: False)
    monkeypatch.setattr(_docker_commands, "_END_SCRIPT", "exit 1")

    with pytest.raises(SandboxError, match=r"did not end|ended with exit code"):
        shell.run("sleep 600", timeout_seconds=0.5)
    with pytest.raises(SandboxError):
        shell.run("echo fine")


def test_one_file_can_not_fill_the_disk(shell: DockerSandbox) -> None:
    done = shell.run("dd if=/dev/zero of=/big bs=1M count=500; stat -c %s /big")

    assert int(done.stdout) == 64 * 1024**2


def test_many_files_that_fill_the_disk_stop_the_container(
    start: Start, debian_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_docker_disk, "_INTERVAL_SECONDS", 0.2)
    sandbox = start(idle(debian_image, resources={"disk": "20m"}))

    fill = "i=0; while head -c 5M /dev/zero > /part$i; do i=$((i + 1)); sleep 0.1; done"
    with pytest.raises(SandboxError, match="wrote more than 20971520 bytes"):
        sandbox.run(fill)
    with pytest.raises(SandboxError, match="wrote more than"):
        sandbox.check()


def test_memory_is_limited(shell: DockerSandbox) -> None:
    done = shell.run(["python3", "-c", "x = bytearray(1024 ** 3)"])

    assert done.exit_code == 137
    assert shell.run("echo fine").stdout == b"fine\n"


@pytest.fixture
def host_server() -> Iterator[int]:
    """A server that listens on all addresses of this machine."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        threading.Thread(target=_greet, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def _greet(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            client.sendall(b"hello")


def host_addresses() -> list[str]:
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    return [address for address in listed if ":" not in address and not address.startswith("198.18.")]


REACH = """
import socket, sys
for host in sys.argv[2:]:
    try:
        print(host, socket.create_connection((host, int(sys.argv[1])), 1).recv(5).decode())
    except OSError as error:
        print(host, "refused")
"""


def reach(sandbox: DockerSandbox, port: int, *hosts: str) -> dict[str, str]:
    gateway = "socket.inet_ntoa(bytes.fromhex(open('/proc/net/route').readlines()[1].split()[2])[::-1])"
    found = sandbox.run(["python3", "-c", f"import socket; print({gateway})"]).stdout.decode().strip()
    done = sandbox.run(["python3", "-c", REACH, str(port), "127.0.0.1", found or "198.18.0.1", *hosts])
    return dict(line.split() for line in done.stdout.decode().splitlines())


def test_a_container_reaches_neither_this_machine_nor_the_world(shell: DockerSandbox, host_server: int) -> None:
    reached = reach(shell, host_server, *host_addresses(), "deb.debian.org", "host.docker.internal")

    assert len(reached) >= 4
    assert set(reached.values()) == {"refused"}


def test_a_container_with_network_reaches_beyond_itself(start: Start, debian_image: str, host_server: int) -> None:
    sandbox = start(idle(debian_image) | {"network": "internet"})

    assert "hello" in reach(sandbox, host_server).values()


def test_rollouts_do_not_reach_each_other(start: Start, debian_image: str) -> None:
    first = start(pair(debian_image))
    second = start(idle(debian_image))

    address = first.run("hostname -i", service="web").stdout.decode().strip()
    reached = reach(second, 8000, address, "web")
    assert (reached[address], reached["web"]) == ("refused", "refused")


def test_services_are_reached_without_rights_on_namespaces(
    start: Start, debian_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_docker_network, "can_enter_namespaces", lambda: False)

    sandbox = start(pair(debian_image))

    assert sandbox.request("GET", "http://web/people").body == b"Ada\nGrace\n"


def test_requests_to_other_hosts_are_refused(start: Start, debian_image: str) -> None:
    sandbox = start(pair(debian_image))
    other = f"http://127.0.0.1:{sandbox.services['web'].port + 1}/"

    for url in ("http://example.com/", "http://web:22/", other, "file:///etc/passwd", "http://user@web/", "http://[/"):
        with pytest.raises(SandboxError):
            sandbox.request("GET", url)


def test_files_go_in_and_out(shell: DockerSandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "run.sh").write_text("echo ran")
    (source / "deep" / "er" / "run.sh").chmod(0o755)
    (source / "link").symlink_to("/etc/hostname")

    shell.write_file("/tests/answer.json", b"{}", mode=0o600)
    shell.put_folder(source, "/solution")
    shell.put_folder(source, "/tmp")

    assert shell.read_file("/tests/answer.json") == b"{}"
    assert shell.run("stat -c %a /tests/answer.json /tmp").stdout == b"600\n1777\n"
    assert shell.run("/solution/deep/er/run.sh").stdout == b"ran\n"
    assert shell.read_file("/solution/link") == b"main\n"


@pytest.mark.parametrize("path", ["/etc", "/dev/zero", "/proc/1/environ\0", "/loop", "/fifo", ""])
def test_what_is_not_a_file_is_refused(shell: DockerSandbox, path: str) -> None:
    shell.run("ln -s /loop /loop; mkfifo /fifo")

    with pytest.raises((SandboxError, FileNotFoundError)):
        shell.read_file(path)


def test_files_that_are_missing_or_too_large_are_told_apart(shell: DockerSandbox) -> None:
    shell.run("head -c 2000 /dev/zero > /large")

    with pytest.raises(FileNotFoundError):
        shell.read_file("/missing")
    with pytest.raises(SandboxError, match="2000 bytes"):
        shell.read_file("/large", limit_bytes=1000)


def test_paths_can_not_leave_the_container(shell: DockerSandbox, tmp_path: Path) -> None:
    target = tmp_path / "escaped"
    shell.run(f"mkdir -p {tmp_path.parent}; ln -s / /root-link")

    shell.write_file(f"../../../../{target}", b"x")
    shell.write_file(f"/root-link/{target}2", b"x")

    assert not target.exists()
    assert not Path(f"{target}2").exists()
    assert shell.read_file(str(target)) == b"x"


def test_a_service_that_never_gets_healthy_is_removed_and_its_log_kept(
    start: Start, debian_image: str, docker_engine: docker.DockerClient
) -> None:
    health = {"http": "/", "timeout_seconds": 1, "interval_seconds": 0.2}
    spec = idle(debian_image, port=80, health=health)
    spec["services"]["main"] |= {"idle": False, "command": "echo waiting for nothing; sleep 600"}

    with pytest.raises(SandboxError, match="main: not healthy after 1 s") as caught:
        start(spec)

    assert caught.value.logs == {"main": b"waiting for nothing\n"}
    assert left(docker_engine) == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"command": "echo no licence >&2; exit 7", "health": {"command": "true"}}, "exit code 7.*no licence"),
        ({"command": ["/missing"]}, "/missing"),
        ({"image": "not-there:1", "command": "true"}, "not-there"),
        ({"command": "sleep 600", "load": [{"command": "echo broken dump >&2; exit 3"}]}, "exit code 3: broken dump"),
        ({"command": "sleep 600", "load": [{"command": "sleep 600", "timeout_seconds": 0.5}]}, "no end in time"),
        ({"command": "true", "files": {"/x": {"path": "missing"}}}, "the task has no files"),
    ],
)
def test_a_failed_start_says_why_and_leaves_nothing(
    start: Start, debian_image: str, docker_engine: docker.DockerClient, more: dict[str, Any], message: str
) -> None:
    spec = {"kind": "docker", "services": {"main": {"image": debian_image, **more}}}

    with pytest.raises(SandboxError, match=f"(?s){message}"):
        start(spec)

    assert left(docker_engine) == []


def test_a_start_is_cancelled_while_it_waits(
    start: Start, debian_image: str, docker_engine: docker.DockerClient
) -> None:
    asked = iter([False] * 8)

    with pytest.raises(SandboxCancelled):
        start(idle(debian_image, port=80), is_cancelled=lambda: next(asked, True))

    assert left(docker_engine) == []


def test_a_folder_is_built_once_for_each_content(start: Start, debian_image: str, tmp_path: Path) -> None:
    folder = tmp_path / "task" / "environment"
    folder.mkdir(parents=True)
    spec = {"kind": "docker", "services": {"main": {"build": "environment", "idle": True}}}
    images = []
    for text in ("first", "second", "first"):
        (folder / "Dockerfile").write_text(f"FROM {debian_image}\nRUN echo {text} > /made\nWORKDIR /work\n")
        sandbox = start(spec, task_files=tmp_path / "task")
        sandbox.write_file("note", b"here")
        assert sandbox.run("cat /made; pwd; cat /work/note").stdout.decode().split() == [text, "/work", "here"]
        images.append(sandbox._containers["main"].image.id)

    assert images[0] == images[2] != images[1]


def test_a_build_that_fails_says_why(start: Start, debian_image: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {debian_image}\nRUN echo out of luck; exit 9\n")

    with pytest.raises(SandboxError, match=r"(?s)out of luck.*9"):
        start({"kind": "docker", "services": {"main": {"build": ".", "idle": True}}}, task_files=tmp_path)


def test_a_link_out_of_the_tasks_files_is_not_followed(start: Start, debian_image: str, tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "key").symlink_to("/etc/shadow")

    with pytest.raises(SandboxError, match="leads out of the task's files"):
        start(idle(debian_image, files={"/key": {"path": "key"}}), task_files=tmp_path / "task")


def test_eight_environments_start_at_once_and_are_all_removed(
    start: Start, debian_image: str, docker_engine: docker.DockerClient
) -> None:
    with ThreadPoolExecutor(8) as threads:
        sandboxes = list(threads.map(lambda _: start(pair(debian_image)), range(8)))
        answers = list(threads.map(lambda each: each.request("GET", "http://web/people").body, sandboxes))
        assert len(docker_engine.containers.list(filters={"label": ROLLOUT_LABEL})) == 16
        list(threads.map(DockerSandbox.close, sandboxes))

    assert answers == [b"Ada\nGrace\n"] * 8
    assert len({each.services["web"].port for each in sandboxes}) == 8


def test_closing_twice_and_at_once_is_harmless(shell: DockerSandbox) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: shell.close(), range(4)))

    with pytest.raises(SandboxError, match="closed"):
        shell.run("true")
    assert "main" in shell.logs()


KILLED = """
import sys, time
from pathlib import Path
from openmanus_rl.sandboxes.providers import provision
for name in ("a", "b"):
    spec = {"kind": "docker", "services": {"main": {"image": sys.argv[1], "idle": True}}}
    provision(spec, rollout_id=name, owner=f"worker-{name}", folder=Path(sys.argv[2]))
print("up", flush=True)
time.sleep(600)
"""


def test_what_a_killed_worker_left_is_taken_back_but_not_what_others_have(
    debian_image: str, docker_engine: docker.DockerClient, tmp_path: Path
) -> None:
    worker = subprocess.Popen([sys.executable, "-c", KILLED, debian_image, tmp_path], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    with worker:
        assert worker.stdout.readline() == b"up\n"
        os.kill(worker.pid, signal.SIGKILL)
    assert len(left(docker_engine)) == 4

    removed = take_back_all(lambda owner: owner == "worker-b")

    assert sorted(removed) == ["rollout-a", "rollout-main-a"]
    assert sorted(left(docker_engine)) == ["rollout-b", "rollout-main-b"]
    assert sorted(remove_rollout("b")) == ["rollout-b", "rollout-main-b"]
    assert left(docker_engine) == []


def test_a_second_attempt_replaces_the_first_and_is_not_removed_with_it(
    start: Start, debian_image: str, docker_engine: docker.DockerClient
) -> None:
    first = start(idle(debian_image), rollout_id="same")
    second = start(idle(debian_image), rollout_id="same")

    first.close()

    assert second.run("echo mine").stdout == b"mine\n"
    assert len(left(docker_engine)) == 2


def test_secrets_of_the_worker_are_not_in_containers(
    start: Start, debian_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "sb_secret_hidden")

    assert b"sb_secret_hidden" not in start(idle(debian_image)).run("env; cat /proc/1/environ").stdout


def test_an_engine_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    with pytest.raises(SandboxError, match="Docker engine can't be reached"):
        DockerProvider().remove("x")
    assert take_back_all(lambda _: False) == []


def test_an_openenv_image_is_started_and_asked_for_its_health(
    debian_image: str, docker_engine: docker.DockerClient, tmp_path: Path
) -> None:
    # The image of the tests has no OpenEnv: its server is a folder, which is not healthy.
    command = "exec python3 -m http.server 8000"
    spec = {"kind": "openenv", "image": debian_image, "command": command, "start_timeout_seconds": 1}

    with pytest.raises(SandboxError, match="service env: not healthy after 1 s: GET /health answers 404"):
        provision(spec, rollout_id="openenv", owner="test", folder=tmp_path)
    assert left(docker_engine) == []
