"""Several machines share one database, and several databases one server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from ...support.postgres_server import Server
from .external import Machine

KEYS = ("publishable_key", "secret_key", "jwt_secret")


@pytest.fixture(scope="module")
def server(external_server: Callable[[int], Server]) -> Server:
    return external_server(15)


@pytest.fixture(scope="module")
def machines(server: Server, homes: Path) -> Iterator[tuple[Machine, Machine]]:
    """Two machines that set the same new database up at the same time."""
    url = server.create_ordinary_database()
    first, second = (Machine(homes / f"shared-{name}", url) for name in ("one", "two"))
    starting = [machine.spawn("up", "--migrate", "--detach", "--port", "0") for machine in (first, second)]
    for process in starting:
        _, said = process.communicate()
        assert process.returncode == 0, said
    yield first, second
    first.down()
    second.down()


def sign_in(machine: Machine, token: str) -> httpx.Response:
    url = machine.info()["url"]
    return httpx.post(f"{url}/auth/v1/verify", json={"type": "magiclink", "token_hash": token})


def new_link(machine: Machine) -> str:
    return machine.run("dashboard").stdout.strip().split("#token_hash=")[1]


def refresh(machine: Machine, token: str) -> httpx.Response:
    info = machine.info()
    return httpx.post(
        f"{info['url']}/auth/v1/token?grant_type=refresh_token",
        headers={"apikey": info["publishable_key"]},
        json={"refresh_token": token},
    )


def test_machines_that_set_it_up_at_once_make_one_set_of_keys(machines: tuple[Machine, Machine]) -> None:
    first, second = (machine.info() for machine in machines)
    assert [first[name] for name in KEYS] == [second[name] for name in KEYS]
    assert first["url"] != second["url"]
    with psycopg.connect(first["database_url"]) as owner:
        roles = owner.execute("select rolname from pg_roles where rolname ~ %s", [f"gateway_{owner.info.dbname}_"])
        assert len(roles.fetchall()) == 1


def test_a_link_signs_in_once_on_either_machine_and_its_session_holds_on_both(
    machines: tuple[Machine, Machine],
) -> None:
    first, second = machines
    token = new_link(first)
    session = sign_in(second, token).json()

    assert sign_in(first, token).status_code == 403
    assert sign_in(second, token).status_code == 403
    for machine in machines:
        info = machine.info()
        headers = {"apikey": info["publishable_key"], "Authorization": f"Bearer {session['access_token']}"}
        assert httpx.get(f"{info['url']}/rest/v1/members?select=role", headers=headers).json() == [{"role": "admin"}]
        assert httpx.get(f"{info['url']}/auth/v1/user", headers=headers).status_code == 200


def test_a_refresh_token_gives_one_new_token_on_either_machine(machines: tuple[Machine, Machine]) -> None:
    first, second = machines
    session = sign_in(first, new_link(first)).json()
    next_token = refresh(second, session["refresh_token"]).json()["refresh_token"]
    assert refresh(first, session["refresh_token"]).json()["refresh_token"] == next_token
    assert refresh(first, next_token).status_code == 200
    with psycopg.connect(first.info()["database_url"], autocommit=True) as owner:
        # Sent twice within seconds it was lost on its way; later, somebody else has it.
        owner.execute("update auth.refresh_tokens set updated_at = now() - interval '1 minute' where revoked")
    again = refresh(first, session["refresh_token"])

    assert next_token != session["refresh_token"]
    assert again.status_code == 400
    assert again.json()["error_code"] == "refresh_token_already_used"


def test_what_one_machine_records_the_other_reads(machines: tuple[Machine, Machine]) -> None:
    first, second = machines
    script = "import json, openmanus_rl\nwith openmanus_rl.init(name='shared') as run: run.log({'a': 1.0}, step=0)\n"
    first.python(script + "print(json.dumps(run.flush(timeout_seconds=60)))")
    assert "shared" in second.run("runs", "list").stdout


def test_a_file_of_another_machine_is_refused_in_words(machines: tuple[Machine, Machine]) -> None:
    first, second = (machine.info() for machine in machines)
    headers = {"apikey": first["secret_key"], "Authorization": f"Bearer {first['secret_key']}"}
    path = "storage/v1/object/datasets/house/train.json"
    assert httpx.post(f"{first['url']}/{path}", headers=headers, json={"a": 1}).status_code == 200

    here, there = (httpx.get(f"{info['url']}/{path}", headers=headers) for info in (first, second))
    copied = httpx.post(
        f"{second['url']}/storage/v1/object/copy",
        headers=headers,
        json={"bucketId": "datasets", "sourceKey": "house/train.json", "destinationKey": "house/copy.json"},
    )

    assert here.json() == {"a": 1}
    for answer in (there, copied):
        assert answer.status_code == 400
        assert answer.json()["statusCode"] == "404"
        assert "is not on this machine" in answer.json()["message"]


def test_databases_of_one_server_do_not_disturb_each_other(
    server: Server, homes: Path, machines: tuple[Machine, Machine]
) -> None:
    first, _ = machines
    other = Machine(homes / "shared-other", server.create_ordinary_database(role="others"))
    assert other.run("migrate").returncode == 0
    other.up()
    try:
        assert other.info()["secret_key"] != first.info()["secret_key"]
        # Each logs in anew, with a password that the other's setup must not have changed.
        for machine in (first, other):
            assert machine.run("down").returncode == 0
            machine.up()
            assert machine.status()["healthy"] is True
        for name, machine in (("one", first), ("other", other)):
            machine.python(
                f"import json, openmanus_rl\nwith openmanus_rl.init(name='of-{name}') as run: pass\n"
                "print(json.dumps(run.flush(timeout_seconds=60)))"
            )
        assert "of-one" not in other.run("runs", "list").stdout
        assert "of-other" not in first.run("runs", "list").stdout
    finally:
        other.down()


def test_what_runs_for_a_database_is_not_the_embedded_stack_of_its_home(machines: tuple[Machine, Machine]) -> None:
    first, _ = machines
    before = first.info()

    assert "Nothing is running" in first.run("down", DATABASE_URL="").stdout
    status = json.loads(first.run("status", "--json", DATABASE_URL="").stdout)
    assert (status["mode"], status["running"]) == ("embedded", False)
    assert first.info() == before
    # And by the lines of `status --env`, which name a URL, the same stack is found.
    lines = dict(line.split("=", 1) for line in first.run("status", "--env").stdout.splitlines())
    assert json.loads(first.run("status", "--json", **lines).stdout)["database"] == before["external"]


def test_a_spool_belongs_to_the_database_whoever_connects_and_by_whatever_port(
    machines: tuple[Machine, Machine],
) -> None:
    first, _ = machines
    script = "from openmanus_rl.spool.roots import address_of\nfrom openmanus_rl.settings import load_settings\n"
    script += "import json; print(json.dumps(address_of(load_settings())))"
    address = first.python(script)
    assert re.fullmatch(r"postgresql://127\.0\.0\.1:\d+/lab_\w+", address)
