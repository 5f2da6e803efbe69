"""`dashboard` and the links of `up` and `status`: what signs in, and what is exported."""

from __future__ import annotations

import getpass
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from openmanus_rl.local.owner import OWNER_EMAIL

ENV_NAMES = ["SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY"]


def sign_in(report: dict[str, Any]) -> dict[str, Any]:
    """Redeem the link of a report, as the dashboard does."""
    address, token = report["dashboard_url"].split("#token_hash=")
    body = {"type": "magiclink", "token_hash": token}
    answer = httpx.post(f"{address}auth/v1/verify", json=body, trust_env=False)
    assert answer.status_code == 200, answer.text
    session: dict[str, Any] = answer.json()
    return session


def test_every_printed_link_signs_in_as_the_owner_who_is_an_admin(home: Any) -> None:
    started = home.up()
    asked = (("status", "--json", "--link"), ("dashboard", "--json"))
    reports = [json.loads(home.run(*arguments).stdout) for arguments in asked]
    sessions = [sign_in(report) for report in reports]
    assert {session["user"]["email"] for session in sessions} == {OWNER_EMAIL}
    headers = {
        "apikey": started["SUPABASE_ANON_KEY"],
        "Authorization": f"Bearer {sessions[0]['access_token']}",
    }
    url = f"{started['SUPABASE_URL']}/rest/v1/members?select=role,display_name"
    members = httpx.get(url, headers=headers, trust_env=False).json()
    assert members == [{"role": "admin", "display_name": getpass.getuser()}]
    tokens = [report["dashboard_url"].split("=")[1] for report in reports]
    kept = [path for path in home.root.rglob("*.log") if any(token in path.read_text() for token in tokens)]
    kept += [path for path in home.root.glob("*.json") if "token_hash" in path.read_text()]
    assert kept == [], "a link is for the terminal alone"


def test_the_plain_command_prints_the_link_and_nothing_else(running: Any) -> None:
    done = running.run("dashboard")
    assert done.returncode == 0
    assert sign_in({"dashboard_url": done.stdout.strip()})["user"]["email"] == OWNER_EMAIL


def test_first_links_asked_for_at_once_have_one_owner(home: Any) -> None:
    home.up()
    with psycopg.connect(json.loads((home.root / "stack.json").read_text())["database_url"]) as sql:
        sql.execute("delete from auth.users")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: home.run("dashboard", "--json"), range(4)))
    assert [done.returncode for done in made] == [0] * 4
    assert len({sign_in(json.loads(done.stdout))["user"]["id"] for done in made}) == 1


def test_a_role_that_was_changed_stays(running: Any) -> None:
    running.run("dashboard")
    # The last admin cannot be demoted.
    assert running.run("members", "add", "another@example.org", "--role", "admin").returncode == 0
    assert running.run("members", "set-role", OWNER_EMAIL, "viewer").returncode == 0
    running.run("dashboard")
    roles = {member["email"]: member["role"] for member in json.loads(running.run("members", "list", "--json").stdout)}
    assert roles[OWNER_EMAIL] == "viewer"


def test_no_link_is_made_unless_it_is_asked_for(running: Any) -> None:
    count = "select count(*) from auth.sign_in_links"
    with psycopg.connect(running.status()["DATABASE_URL"], autocommit=True) as sql:
        before = sql.execute(count).fetchone()
        running.run("status", "--env")
        running.run("status")
        report = running.status()
        again = running.up("--port", str(report["port"]))
        assert sql.execute(count).fetchone() == before
    assert {one["dashboard_url"] for one in (report, again)} == {f"{report['SUPABASE_URL']}/"}


def test_a_status_without_a_link_still_tells_the_address(running: Any) -> None:
    report = running.status()
    with psycopg.connect(report["DATABASE_URL"], autocommit=True) as sql:
        sql.execute("alter table auth.sign_in_links rename to put_away")
        try:
            told = json.loads(running.run("status", "--json", "--link").stdout)
            assert told["dashboard_url"] == f"{report['SUPABASE_URL']}/"
            refused = running.run("dashboard")
            assert (refused.returncode, refused.stdout) == (1, "")
            assert "could not create a sign-in link" in refused.stderr
        finally:
            sql.execute("alter table auth.put_away rename to sign_in_links")


def test_where_nothing_runs_the_exit_code_is_3(home: Any) -> None:
    done = home.run("dashboard")
    assert (done.returncode, done.stdout) == (3, "")
    assert "openmanus-rl up" in done.stderr
    assert home.run("dashboard", "--json").returncode == 3


def hosted(running: Any) -> dict[str, str]:
    """Settings that name a running stack as a home without one sees it: a Supabase elsewhere."""
    report = running.status()
    return {name: report[name] for name in ENV_NAMES}


def test_a_hosted_project_gets_a_link_for_an_account(running: Any, fresh_home: Any) -> None:
    settings = hosted(running)
    added = fresh_home.run("members", "add", "ada@example.org", "--role", "editor", **settings)
    assert added.returncode == 0, added.stderr
    where = ["--address", "https://runs.example.org/app/", "--email", "Ada@example.org"]
    done = fresh_home.run("dashboard", *where, **settings)
    assert done.returncode == 0, done.stderr
    address, token = done.stdout.strip().split("#token_hash=")
    assert address == "https://runs.example.org/app/"
    session = sign_in({"dashboard_url": f"{settings['SUPABASE_URL']}/#token_hash={token}"})
    assert session["user"]["email"] == "ada@example.org"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--address"),
        (["--address", "https://runs.example.org/"], "--email"),
        (["--address", "runs.example.org", "--email", "a@example.org"], "--address"),
        (["--address", "https://runs.example.org/", "--email", "stranger@example.org"], "members add"),
    ],
    ids=["nothing", "no-email", "no-scheme", "no-account"],
)
def test_what_a_hosted_link_lacks_is_named(running: Any, fresh_home: Any, arguments: list[str], told: str) -> None:
    done = fresh_home.run("dashboard", *arguments, **hosted(running))
    assert done.returncode != 0
    assert done.stdout == ""
    assert told in done.stderr


def test_hosted_options_are_refused_where_the_stack_is_embedded(running: Any) -> None:
    done = running.run("dashboard", "--email", "ada@example.org")
    assert done.returncode == 2
    assert "SUPABASE_URL" in done.stderr


def test_an_export_of_the_embedded_stack_is_refused(running: Any, tmp_path: Path) -> None:
    done = running.run("dashboard", "--export", str(tmp_path / "site"))
    assert done.returncode == 1
    assert not (tmp_path / "site").exists()
