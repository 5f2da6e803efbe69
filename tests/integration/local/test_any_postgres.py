"""`DATABASE_URL` alone is enough, on a server where we are an ordinary role that row security holds for."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from openmanus_rl.transport.postgres import session
from openmanus_rl.transport.postgres_names import with_options

from ...support.postgres_server import Server
from ..database import test_row_security
from ..database.actors import OWNER, SECRET, World
from ..database.writing import new_id
from .conftest import HomeUnderTest
from .external import Machine

# Everything that a training machine does, with no setting but the database.
PROGRAM = """
import json, pathlib, tempfile
import openmanus_rl
from openmanus_rl.utils.supabase_client import get_supabase
from openmanus_rl.utils.supabase_db import RolloutManager, TrainingRunManager
from openmanus_rl.utils.supabase_storage import StorageManager

with openmanus_rl.init(name="recorded", environment="house") as run:
    run.log({"loss": 0.5}, step=1)
    with run.rollout(task_description="find it") as rollout:
        rollout.log_turn(observation="a room", action="go", reward=1.0)
        rollout.complete(status="success", total_reward=1.0)
    delivered = run.flush(timeout_seconds=60)
created = TrainingRunManager.create_run(name="managed", algorithm="ppo", environment="house", config={})
rollout = RolloutManager.create_rollout(training_run_id=created["id"], episode_number=1, environment="house")
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "training.log").write_text("it learns")
log = str(folder / "training.log")
path = StorageManager.upload_log(training_run_id=created["id"], log_type="training", log_file=log)
StorageManager.download_file("logs", path, folder / "back.log")
print(json.dumps({
    "delivered": delivered,
    "runs": sorted(row["name"] for row in get_supabase().table("training_runs").select("name").execute().data),
    "turns": get_supabase().table("agent_states").select("observation").execute().data,
    "rollout_id": rollout["id"],
    "log": (folder / "back.log").read_text(),
}))
"""


@pytest.fixture(scope="module")
def server(external_server: Callable[[int], Server]) -> Server:
    """Debian's Postgres."""
    return external_server(15)


SETTINGS = {
    "client_encoding": "LATIN1",
    "datestyle": "German",
    "lock_timeout": "10s",
    "search_path": "nowhere",
    "standard_conforming_strings": "off",
    "statement_timeout": "20s",
    "timezone": "Asia/Kolkata",
}
"""What an administrator may have set for a database or a role."""


@pytest.fixture(scope="module")
def machine(server: Server, homes: Path) -> Iterator[Machine]:
    """A machine that has set up a database, which has settings of its own, and serves it."""
    url = server.create_ordinary_database()
    machine = Machine(homes / f"external-{server.port}", url)
    with server.connect() as administrator:
        for name, value in SETTINGS.items():
            administrator.execute(f"alter database {url.rsplit('/', 1)[1]} set {name} = '{value}'".encode())
    machine.up("--migrate")
    yield machine
    machine.down()


def test_recorder_managers_and_storage_need_no_other_setting(machine: Machine) -> None:
    done = machine.python(PROGRAM)

    assert done["delivered"] is True
    assert done["runs"] == ["managed", "recorded"]
    assert done["turns"] == [{"observation": "a room"}]
    assert done["log"] == "it learns"

    info = machine.info()
    answer = httpx.post(
        f"{info['url']}/functions/v1/complete-rollout",
        headers={"apikey": info["secret_key"]},
        json={"rollout_id": done["rollout_id"], "status": "success", "total_reward": 2, "step_count": 3},
    )
    assert answer.status_code == 200, answer.text
    assert "recorded" in machine.run("runs", "list").stdout


def test_settings_of_the_database_do_not_change_what_is_recorded(machine: Machine) -> None:
    text = "a room… 房间 \\d 'quoted'"
    script = f"""
import json, openmanus_rl
from openmanus_rl.utils.supabase_client import get_supabase
with openmanus_rl.init(name="settings", environment="house") as run:
    with run.rollout(task_description="find it") as rollout:
        rollout.log_turn(observation={text!r}, action="go")
        rollout.complete(status="success")
    assert run.flush(timeout_seconds=60)
rows = get_supabase().table("agent_states").select("observation").eq("rollout_id", rollout.id).execute()
print(json.dumps(rows.data))
"""
    assert [row["observation"] for row in machine.python(script)] == [text]
    with session(machine.env["DATABASE_URL"], attempt="look") as ours:
        assert ours.execute("select current_setting('search_path')").fetchone() == ("nowhere",)
        found = ours.execute(
            "select now() - created_at < interval '1 hour', created_at, '\\d' from public.training_runs"
        )
        assert {(recent, at.tzinfo is not None, text) for recent, at, text in found} == {(True, True, "\\d")}


def test_a_link_signs_in_to_the_dashboard(machine: Machine) -> None:
    link = machine.run("dashboard").stdout.strip()
    url, token = link.split("#token_hash=")
    assert "<div id=" in httpx.get(url).text
    session = httpx.post(f"{url}auth/v1/verify", json={"type": "magiclink", "token_hash": token}).json()

    info = machine.info()
    headers = {"apikey": info["publishable_key"], "Authorization": f"Bearer {session['access_token']}"}
    members = httpx.get(f"{url}rest/v1/members?select=role", headers=headers).json()
    assert members == [{"role": "admin"}]


def test_status_names_the_database_but_not_its_password(machine: Machine, server: Server) -> None:
    report = machine.status()
    assert report["mode"] == "external"
    assert report["healthy"] is True
    assert report["database"].startswith(f"postgresql://127.0.0.1:{server.port}/lab_")
    shown = machine.run("status").stdout
    assert report["database"] in shown
    assert server.password not in shown


def test_no_time_goes_into_compiling_queries(machine: Machine) -> None:
    with psycopg.connect(machine.env["DATABASE_URL"]) as connection:
        assert connection.execute("show jit").fetchone() == ("off",)


@pytest.mark.usefixtures("machine")
def test_nothing_of_ours_is_above_an_ordinary_role(server: Server) -> None:
    with server.connect() as connection:
        above = connection.execute(
            "select rolname from pg_roles where (rolsuper or rolbypassrls) and rolname !~ '^(postgres|pg_)'"
        ).fetchall()
        logins = connection.execute(
            "select distinct usename from pg_stat_activity where application_name = 'openmanus-rl gateway'"
        ).fetchall()
        assert above == []
    assert logins
    assert all(name.startswith("openmanus_gateway_lab_") for (name,) in logins)


def test_the_gateways_role_reads_no_keys(machine: Machine) -> None:
    with psycopg.connect(machine.env["DATABASE_URL"]) as owner:
        role, password = owner.execute("select role, password from openmanus_rl.gateway").fetchone() or ("", "")
    url = with_options(machine.env["DATABASE_URL"], user=role, password=password)
    with psycopg.connect(url) as gateway:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            gateway.execute("select * from openmanus_rl.gateway")
        gateway.rollback()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            gateway.execute("create table public.mine (id int)")


@pytest.fixture(scope="module")
def world(machine: Machine) -> Iterator[World]:
    info = machine.info()
    keys = {"publishable_key": info["publishable_key"], "secret_key": info["secret_key"]}
    with test_row_security.filled(
        info["url"], with_options(machine.env["DATABASE_URL"], client_encoding="utf8"), **keys
    ) as world:
        yield world


@pytest.mark.parametrize("verb", test_row_security.VERBS)
def test_everybody_can_do_to_every_table_what_they_may_and_no_more(world: World, verb: str) -> None:
    test_row_security.test_everybody_can_do_to_every_table_what_they_may_and_no_more(world, verb)


def test_everybody_can_call_what_they_may_and_no_more(world: World) -> None:
    test_row_security.test_everybody_can_call_what_they_may_and_no_more(world)


@pytest.mark.parametrize("actor", [SECRET, OWNER])
def test_a_refusal_names_the_key_that_is_taken_though_row_security_hides_it(world: World, actor: str) -> None:
    turn = world.records["private"]["agent_states"]
    taken = {"id": new_id(), "rollout_id": turn["rollout_id"], "step_number": turn["step_number"]}
    (refused,) = world.ingest(actor, agent_states=[taken])
    assert refused["field"] == "rollout_id, step_number"
    assert f"rollout_id, step_number = {turn['rollout_id']}, {turn['step_number']};" in refused["message"]


def test_the_secret_key_passes_row_security_of_every_table(machine: Machine) -> None:
    with psycopg.connect(machine.env["DATABASE_URL"]) as owner:
        without = owner.execute(
            "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where c.relrowsecurity and n.nspname in ('public', 'internal', 'storage') and not exists"
            " (select from pg_policy p where p.polrelid = c.oid and p.polroles = array['service_role'::regrole::oid])"
        ).fetchall()
    assert without == []


def test_a_new_table_is_served_without_event_triggers(machine: Machine) -> None:
    info = machine.info()
    with psycopg.connect(machine.env["DATABASE_URL"], autocommit=True) as owner:
        assert owner.execute("select count(*) from pg_event_trigger").fetchone() == (0,)
        owner.execute("create table public.mine (id int primary key)")
        owner.execute("grant select on public.mine to service_role")

    def is_served() -> bool:
        return httpx.get(f"{info['url']}/rest/v1/mine", headers={"apikey": info["secret_key"]}).status_code == 200

    machine.wait_until(is_served, what="the new table to be served")
    with psycopg.connect(machine.env["DATABASE_URL"], autocommit=True) as owner:
        owner.execute("drop table public.mine")


def test_the_advisors_find_nothing(machine: Machine, supabase_cli: Callable[..., Any]) -> None:
    url = machine.env["DATABASE_URL"]
    done = supabase_cli(
        "db", "advisors", f"--remote={url}", "--type", "all", "--level", "info", "--output-format", "json"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Sessions that deliver have temporary tables, which are nobody else's.
    assert [found for found in json.loads(done.stdout)["results"] if "pg_temp_" not in found["detail"]] == []


def test_a_backup_holds_database_and_files_and_an_embedded_stack_restores_it(
    machine: Machine, home: HomeUnderTest, tmp_path: Path
) -> None:
    info = machine.info()
    path = "storage/v1/object/datasets/house/backed-up.json"
    headers = {"apikey": info["secret_key"], "Authorization": f"Bearer {info['secret_key']}"}
    assert httpx.post(f"{info['url']}/{path}", headers=headers, json={"a": 1}).status_code == 200
    file = str(tmp_path / "lab.backup")
    done = machine.run("backup", file)
    assert done.returncode == 0, done.stderr
    refused = machine.run("restore", file, "--yes")
    assert refused.returncode != 0
    assert "pg_restore --no-owner" in refused.stderr

    restored = home.run("restore", file, "--yes")
    assert restored.returncode == 0, restored.stderr
    embedded = json.loads((home.root / "stack.json").read_text())
    headers = {"apikey": embedded["secret_key"], "Authorization": f"Bearer {embedded['secret_key']}"}
    assert httpx.get(f"{embedded['url']}/{path}", headers=headers).json() == {"a": 1}
    runs = "select id from public.training_runs order by id"
    with psycopg.connect(info["database_url"]) as theirs, psycopg.connect(embedded["database_url"]) as ours:
        assert ours.execute(runs).fetchall() == theirs.execute(runs).fetchall()


def test_requests_wait_for_each_other_where_the_server_takes_few_connections(machine: Machine, server: Server) -> None:
    info = machine.info()
    url, headers = f"{info['url']}/rest/v1/training_runs?select=id", {"apikey": info["secret_key"]}
    with server.connect() as administrator, ThreadPoolExecutor(20) as pool:
        connected = "from pg_stat_activity where application_name = 'openmanus-rl gateway'"
        (role,) = administrator.execute(f"select distinct usename {connected}").fetchone() or ("",)
        administrator.execute(f"alter role {role} connection limit 4".encode())
        try:
            administrator.execute(f"select pg_terminate_backend(pid) {connected}")
            machine.wait_until(lambda: httpx.get(url, headers=headers).status_code == 200, what="a new connection")
            asked = [pool.submit(httpx.get, url, headers=headers, timeout=30) for _ in range(30)]
            assert {each.result().status_code for each in asked} == {200}
        finally:
            administrator.execute(f"alter role {role} connection limit -1".encode())


def test_a_killed_gateway_comes_back_and_a_crashed_server_is_waited_for(machine: Machine, server: Server) -> None:
    url = machine.info()["url"]

    def is_healthy() -> bool:
        try:
            return httpx.get(f"{url}/functions/v1/health").status_code == 200
        except httpx.TransportError:
            return False

    os.kill(machine.gateway_pid(), signal.SIGKILL)
    machine.wait_until(is_healthy, what="the gateway to come back")

    server.stop()
    machine.wait_until(lambda: not is_healthy(), what="the gateway to say that the database is away")
    assert "does not respond" in machine.status()["health"]
    server.start()
    machine.wait_until(is_healthy, what="the gateway to reach the database again")
    assert machine.info()["url"] == url


def test_a_killed_supervisor_is_replaced_by_the_next_command(machine: Machine) -> None:
    before = machine.info()
    os.kill(before["pid"], signal.SIGKILL)
    link = machine.run("dashboard")
    assert link.returncode == 0, link.stderr
    after = machine.info()
    assert after["pid"] != before["pid"]
    assert after["url"] == before["url"]
    assert after["secret_key"] == before["secret_key"]


def test_creating_roles_gives_enough_power_over_them_on_newer_servers_whatever_the_databases_name(
    external_server: Callable[[int], Server], homes: Path
) -> None:
    server = external_server(17)
    url, _, plain = server.create_ordinary_database().rpartition("/")
    with server.connect() as administrator:
        administrator.execute(f'alter database {plain} rename to "a lab/17"'.encode())
    machine = Machine(homes / "external-17", f"{url}/a%20lab%2F17")
    machine.up("--migrate")
    try:
        done = machine.python(PROGRAM)
        assert done["delivered"] is True
        assert done["runs"] == ["managed", "recorded"]
        with psycopg.connect(machine.env["DATABASE_URL"]) as owner:
            roles = owner.execute(
                "select distinct usename from pg_stat_activity where application_name = 'openmanus-rl gateway'"
            ).fetchall()
        assert [name[:26] for (name,) in roles] == ["openmanus_gateway_a_lab_17"]
    finally:
        machine.down()
