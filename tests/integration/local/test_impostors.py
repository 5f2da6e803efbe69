"""Another user of the machine listens where the stack did: nobody sends them a password, a key or a record."""

from __future__ import annotations

import json
import secrets
import socket
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from openmanus_rl.connections import forget_clients, get_client
from openmanus_rl.errors import ConnectionFailed, OpenManusError, StackError
from openmanus_rl.local import gateway_process
from openmanus_rl.local.assets import find_assets, find_deno
from openmanus_rl.local.gateway_process import GatewayConfig
from openmanus_rl.local.home import Home
from openmanus_rl.local.keys import new_keys
from openmanus_rl.settings import Settings
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.loading import Loader
from openmanus_rl.transport.postgres import connect
from openmanus_rl.transport.retry import RetryPolicy

from .conftest import HomeUnderTest
from .impostors import METHODS, Impostor, http_impostor, postgres_impostor

ONCE = RetryPolicy(limit_seconds=0)


@pytest.mark.parametrize("method", METHODS)
def test_the_recorder_tells_no_password_and_no_record_to_a_server_that_does_not_prove_itself(method: str) -> None:
    password = secrets.token_hex(16)
    with postgres_impostor(method) as impostor:
        url = f"postgresql://openmanus_recorder:{password}@127.0.0.1:{impostor.port}/postgres"
        with pytest.raises(OpenManusError):
            connect(url, retry=ONCE)
        with pytest.raises(OpenManusError):
            Loader(url).load({"training_runs": [{"id": "x", "name": "a secret name"}]})

    assert b"openmanus_recorder" in impostor.received, "the impostor was reached"
    assert password.encode() not in impostor.received
    assert b"md5" not in impostor.received
    assert b"secret name" not in impostor.received
    assert b"select" not in impostor.received.lower()


def test_a_url_may_name_another_method_for_a_server_of_ones_own() -> None:
    with postgres_impostor("cleartext") as server:
        url = f"postgresql://me:opensesame@127.0.0.1:{server.port}/postgres?require_auth=password"
        connect(url, retry=ONCE).close()
    assert b"opensesame" in server.received


@pytest.mark.parametrize("method", METHODS)
def test_the_gateway_tells_no_password_and_no_statement_to_a_server_that_does_not_prove_itself(
    method: str, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    password = secrets.token_hex(16)
    with postgres_impostor(method) as impostor:
        config = GatewayConfig(
            home=home,
            assets=find_assets(),
            deno=find_deno(),
            keys=new_keys(),
            database_url=f"postgresql://authenticator:{password}@127.0.0.1:{impostor.port}/postgres",
            postgres_port=impostor.port,
            version="0",
        )
        with pytest.raises(StackError, match="did not prove"):
            gateway_process.initialise(config)

    assert b"authenticator" in impostor.received, "the impostor was reached"
    assert password.encode() not in impostor.received
    assert b"md5" not in impostor.received
    assert b"begin" not in impostor.received.lower()


def test_no_key_is_sent_to_a_server_that_does_not_hold_it() -> None:
    key = f"sb_secret_{secrets.token_hex(16)}"
    with http_impostor() as impostor:
        gateway = Client.from_url_and_key(f"http://127.0.0.1:{impostor.port}", key, proof_key=key, retry=ONCE)
        with pytest.raises(ConnectionFailed, match="is not this stack's"):
            gateway.select("training_runs")
    assert b"nonce=" in impostor.received
    assert key.encode() not in impostor.received


def test_an_impostor_gains_nothing_by_passing_the_question_on(running: HomeUnderTest) -> None:
    report = running.status()
    key = report["SUPABASE_SERVICE_ROLE_KEY"]
    with _relay(report["port"]) as impostor:
        gateway = Client.from_url_and_key(f"http://127.0.0.1:{impostor.port}", key, proof_key=key, retry=ONCE)
        with pytest.raises(ConnectionFailed, match="is not this stack's"):
            gateway.select("training_runs")
    assert b"nonce=" in impostor.received
    assert key.encode() not in impostor.received
    real = Client.from_url_and_key(report["SUPABASE_URL"], key, proof_key=key, retry=ONCE)
    assert real.select("training_runs").rows == []
    real.http.close()


def test_what_was_connected_to_a_stack_that_ended_does_not_trust_its_ports(home: HomeUnderTest) -> None:
    report = home.up()
    embedded = Settings(home=home.root, autostart=False, retry_limit_seconds=0)
    named = embedded.model_copy(
        update={
            "url": report["SUPABASE_URL"],
            "service_role_key": SecretStr(report["SUPABASE_SERVICE_ROLE_KEY"]),
        }
    )
    gateways = [_gateway(embedded, home), get_client(named)]
    for gateway in gateways:
        assert gateway.select("training_runs").rows == []
    state = json.loads((home.root / "state.json").read_text())
    home.run("down")

    with http_impostor(port=report["port"]) as web, postgres_impostor("cleartext", port=state["postgres_port"]) as sql:
        for gateway in gateways:
            with pytest.raises(ConnectionFailed):
                gateway.select("training_runs")
        with pytest.raises(StackError, match="no embedded stack runs"):
            _gateway(embedded, home)
        with pytest.raises(ConnectionFailed):
            get_client(named).select("training_runs")
        home.run("status")
        home.run("dashboard")
        home.run("sync")

    assert report["SUPABASE_SERVICE_ROLE_KEY"].encode() not in web.received
    assert sql.received == b"", "the address of a stack that ended is not used"
    forget_clients()


def test_a_home_of_an_earlier_version_gets_its_roles_and_new_passwords(home: HomeUnderTest) -> None:
    home.up()
    keys = json.loads((home.root / "keys.json").read_text())
    port = json.loads((home.root / "stack.json").read_text())["postgres_port"]
    old_url = home.superuser_url()
    with psycopg.connect(old_url, autocommit=True) as sql:
        sql.execute("reassign owned by openmanus_owner to postgres")
        for role in ("openmanus_owner", "openmanus_recorder", "authenticator"):
            sql.execute(f"drop owned by {role}; drop role {role}".encode())
    home.run("down")
    keys["database_password"] = keys["superuser_password"]
    old_names = ("publishable_key", "secret_key", "jwt_secret", "database_password")
    (home.root / "keys.json").write_text(json.dumps({name: keys[name] for name in old_names}))
    (home.root / "state.json").write_text(json.dumps({"postgres_port": port}))

    report = home.up()

    assert report["SUPABASE_SERVICE_ROLE_KEY"] == keys["secret_key"], "programs that hold the keys go on"
    with psycopg.connect(report["DATABASE_URL"]) as sql:
        owned = sql.execute(
            "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname in ('public', 'internal', 'auth', 'storage') and c.relowner = 10"
        ).fetchone()
        assert owned == (0,), "the superuser owns nothing that others use"
        assert sql.execute("select count(*) from public.training_runs").fetchone() == (0,)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(old_url)


def _gateway(settings: Settings, home: HomeUnderTest) -> Client:
    """Return the gateway of the embedded stack, which is found by the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENMANUS_RL_HOME", str(home.root))
        patch.setenv("OPENMANUS_RL_AUTOSTART", "0")
        return get_client(settings)


def _relay(port: int) -> Impostor:
    """Return a server that passes every question on to a real gateway."""

    def ask(data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as real:
            real.sendall(data)
            real.settimeout(5)
            return real.recv(65536)

    return Impostor(ask)
