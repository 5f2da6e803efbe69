"""A team's server works behind a real proxy, with the configuration files that `deploy/` has for it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import shutil
import signal
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from websockets.asyncio.client import connect

from openmanus_rl.local.home import Home
from openmanus_rl.local.launch import find_running
from openmanus_rl.local.stack_file import StackInfo
from tests.support.proxies import PROGRAMS, Proxy, free_port, make_certificate

from .conftest import HomeUnderTest

pytestmark = pytest.mark.timeout(300)
GIGABYTE = 2**30


@dataclass(frozen=True)
class Server:
    """A server that is reached at https://localhost."""

    url: str
    info: StackInfo
    certificate: Path
    home: HomeUnderTest

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    @property
    def env(self) -> dict[str, str]:
        """The settings of another machine: a URL and a key."""
        keys = {"SUPABASE_ANON_KEY": self.info.publishable_key, "SUPABASE_SERVICE_ROLE_KEY": self.info.secret_key}
        return {**self.home.env, "SUPABASE_URL": self.url, "SSL_CERT_FILE": str(self.certificate), **keys}

    def run(self, program: str, folder: Path) -> Any:
        """Run a program as another machine would, and return the JSON that it prints."""
        env = {**self.env, "OPENMANUS_RL_HOME": str(folder / "elsewhere")}
        command = [sys.executable, "-c", textwrap.dedent(program)]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def server(template: Path, homes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = HomeUnderTest(homes / "served")
    subprocess.run(["cp", "-a", str(template), str(home.root)], check=True)
    certificate = make_certificate(tmp_path_factory.mktemp("certificate"))
    public_port, port = free_port(), free_port()
    url = f"https://localhost:{public_port}"
    process = home.spawn("serve", "--public-url", url, "--port", str(port))
    home.wait_until(
        lambda: find_running(Home(home.root)) is not None or process.poll() is not None, what="start", seconds=120
    )
    info = find_running(Home(home.root))
    assert info is not None, process.communicate()[1]
    yield Server(url, info, certificate, home)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert "The server is running" in out
    assert f"{url}/\n" in out
    assert "token_hash" not in out, "what it prints is kept in logs"
    assert info.secret_key not in out


@pytest.fixture(params=PROGRAMS)
def proxy(request: pytest.FixtureRequest, server: Server) -> Iterator[Proxy]:
    program = str(request.param)
    if shutil.which(program, path="/usr/sbin:/usr/bin") is None:
        pytest.skip(f"{program} is not installed; scripts/test installs it as root")
    port = int(server.url.rsplit(":", 1)[1])
    found = Proxy(program, server.certificate.parent / program, port=port, server_port=server.info.port)
    found.start()
    yield found
    found.stop()


def get(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers=headers, verify=server.trust, trust_env=False)


@pytest.mark.usefixtures("proxy")
def test_a_link_of_the_admin_api_leads_to_the_public_name(server: Server) -> None:
    headers = {"apikey": server.info.secret_key}
    body = {"type": "magiclink", "email": "linked@example.org"}
    with httpx.Client(base_url=server.url, verify=server.trust, trust_env=False) as http:
        link = http.post("/auth/v1/admin/generate_link", json=body, headers=headers).json()["action_link"]
        assert link.startswith(f"{server.url}/auth/v1/verify?")
        elsewhere = http.get(link, params={"redirect_to": "https://elsewhere.example/"})
        followed = http.get(link)

    assert elsewhere.status_code == 400
    assert followed.status_code == 303
    assert followed.headers["location"].startswith(f"{server.url}/#access_token=")


@pytest.mark.usefixtures("proxy")
def test_it_is_known_by_its_public_name_alone(server: Server) -> None:
    assert get(server, "/functions/v1/health").json()["status"] == "ok"
    config = get(server, "/config.json").json()
    assert config["supabaseUrl"] == server.url
    # Caddy answers for itself, with an empty page.
    assert server.info.publishable_key not in get(server, "/config.json", Host="evil.example").text
    assert get(server, "/metrics").status_code == 401


@pytest.mark.usefixtures("proxy")
def test_live_updates_come_through(server: Server) -> None:
    asyncio.run(_hear(server))


async def _hear(server: Server) -> None:
    address = server.url.replace("https", "wss") + f"/realtime/v1/websocket?apikey={server.info.secret_key}&vsn=1.0.0"
    async with connect(address, ssl=server.trust, proxy=None) as socket:
        changes = [{"event": "*", "schema": "public", "table": "activity"}]
        payload = {"config": {"postgres_changes": changes}, "access_token": server.info.secret_key}
        join = {"topic": "realtime:any", "event": "phx_join", "ref": "1", "join_ref": "1", "payload": payload}
        await socket.send(json.dumps(join))
        while json.loads(await asyncio.wait_for(socket.recv(), 20))["event"] != "system":
            pass
        with psycopg.connect(server.info.database_url) as sql:
            sql.execute("insert into public.training_runs (name, environment) values ('live', 'grid')")
        while json.loads(await asyncio.wait_for(socket.recv(), 20))["event"] != "postgres_changes":
            pass


@pytest.mark.usefixtures("proxy")
def test_wrong_passwords_are_counted_by_the_address_of_whoever_sends_them(server: Server) -> None:
    def guess(number: int, *, address: str) -> int:
        transport = httpx.HTTPTransport(local_address=address, verify=server.trust)
        with httpx.Client(transport=transport, trust_env=False) as client:
            headers = {"apikey": server.info.publishable_key, "X-Forwarded-For": f"198.51.100.{number}"}
            account = {"email": f"{address}-{number}@example.org", "password": "wrong"}
            return client.post(
                f"{server.url}/auth/v1/token?grant_type=password", json=account, headers=headers
            ).status_code

    guesser = f"127.0.0.{5 + len(_guessers)}"
    _guessers.append(guesser)
    # One is forgiven every ten seconds, so that it takes a few more where guesses are slow.
    answers = (guess(number, address=guesser) for number in range(90))
    assert len(list(itertools.takewhile(lambda status: status == 400, answers))) in range(30, 89)
    assert guess(0, address="127.0.0.200") == 400


_guessers: list[str] = []


def test_a_checkpoint_of_a_gigabyte_streams_through(proxy: Proxy, server: Server, tmp_path: Path) -> None:
    # Once is enough to fill a disk; the other proxy gets one that is larger than any buffer.
    size = GIGABYTE if proxy.program == "nginx" else GIGABYTE // 16
    with (tmp_path / "model.pt").open("wb") as file:
        file.write(b"weights")
        file.truncate(size)
    gateway = next(
        one for one in psutil.Process(server.info.pid).children(recursive=True) if one.name().startswith("deno")
    )
    before = gateway.memory_info().rss
    path = server.run(
        """
        import json
        from openmanus_rl.utils.supabase_db import TrainingRunManager
        from openmanus_rl.utils.supabase_storage import StorageManager
        run = TrainingRunManager.create_run(name="large", environment="grid")
        print(json.dumps(StorageManager.upload_checkpoint(run["id"], 1, "model.pt")))
        """,
        tmp_path,
    )
    assert gateway.memory_info().rss - before < size // 4 + 2**27
    headers = {"apikey": server.info.secret_key, "Authorization": f"Bearer {server.info.secret_key}"}
    address = f"{server.url}/storage/v1/object/authenticated/model-checkpoints/{path}"
    with httpx.stream("GET", address, headers=headers, verify=server.trust, trust_env=False) as answer:
        received = hashlib.sha256()
        for part in answer.iter_bytes():
            received.update(part)
    with (tmp_path / "model.pt").open("rb") as file:
        assert received.hexdigest() == hashlib.file_digest(file, "sha256").hexdigest()


def test_records_arrive_once_although_the_proxy_goes_away_in_between(
    proxy: Proxy, server: Server, tmp_path: Path
) -> None:
    program = """
        import json, pathlib, sys, time
        import openmanus_rl
        run = openmanus_rl.init(name="through a proxy", environment="grid")
        for step in range(300):
            run.log({"loss": step}, step=step)
            with run.rollout(task_description="find it") as rollout:
                rollout.log_turn(observation="x" * 200, action="go", reward=1.0)
            if step == 150:
                pathlib.Path("half").touch()
                while not pathlib.Path("again").exists():
                    time.sleep(0.05)
        done = run.flush(timeout_seconds=90)
        print(json.dumps({"id": run.id, "done": done, "lost": run.stats.lost, "rejected": run.stats.rejected}))
        """
    env = {**server.env, "OPENMANUS_RL_HOME": str(tmp_path / "elsewhere")}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        server.home.wait_until(lambda: (tmp_path / "half").exists() or process.poll() is not None, what="half of it")
        proxy.stop()
        (tmp_path / "again").touch()
        proxy.start()
        out, _ = process.communicate(timeout=120)
    said = json.loads(out.splitlines()[-1])
    assert (said["done"], said["lost"], said["rejected"]) == (True, 0, 0)
    with psycopg.connect(server.info.database_url) as sql:
        points = sql.execute("select count(*) from public.metrics where training_run_id = %s", [said["id"]]).fetchone()
        turns = sql.execute(
            "select count(*), count(distinct rollout_id) from public.agent_states where training_run_id = %s",
            [said["id"]],
        ).fetchone()
    assert (points, turns) == ((300,), (300, 300))
