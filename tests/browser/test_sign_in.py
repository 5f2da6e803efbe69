"""Who sees what: the printed link signs in once, nothing else does, and a public run is open to all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from openmanus_rl.managers.members import MemberManager
from openmanus_rl.utils.supabase_db import TrainingRunManager

from .conftest import recorded


def test_the_printed_link_signs_in_once(
    open_context: Callable[..., BrowserContext],
    sign_in_link: Callable[[], str],
    stack: Any,
    axe: Callable[[Page], None],
) -> None:
    link = sign_in_link()
    page = open_context(as_visitor=True).new_page()
    page.goto(link)
    expect(page.get_by_role("button", name="Signed in as")).to_be_visible()
    assert "token_hash" not in page.url
    # The session stays with the browser.
    page.goto("/tasks")
    expect(page.get_by_role("button", name="Upload tasks")).to_be_visible()

    second = open_context(as_visitor=True).new_page()
    second.goto(link.replace("/#", "/sign-in#"))
    expect(second.get_by_role("alert")).to_contain_text("was used already")
    expect(second.get_by_text("openmanus-rl dashboard")).to_be_visible()
    expect(second.get_by_role("button", name="Signed in as")).to_have_count(0)
    assert stack.secret_key not in second.content()
    axe(second)


def test_no_secret_reaches_the_browser(page: Page, stack: Any) -> None:
    seen: list[str] = []
    page.on("response", lambda response: seen.append(response.url))
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    assert page.request.get("/config.json").json()["publishableKey"] == stack.publishable_key
    held = page.evaluate("JSON.stringify(localStorage) + document.documentElement.outerHTML")
    for text in (held, page.request.get("/config.json").text(), *seen):
        assert stack.secret_key not in text


def test_signing_out_forgets_what_was_seen(
    open_context: Callable[..., BrowserContext], sign_in_link: Callable[[], str], recorder: Callable[..., Any]
) -> None:
    with recorded(recorder(name="seen by members only")):
        pass
    page = open_context(as_visitor=True).new_page()
    page.goto(sign_in_link())
    expect(page.get_by_role("button", name="Signed in as")).to_be_visible()
    page.goto("/runs?search=seen by members only")
    expect(page.get_by_role("link", name="seen by members only")).to_be_visible()
    page.get_by_role("button", name="Signed in as").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in").first).to_be_visible()
    expect(page.get_by_role("link", name="seen by members only")).to_have_count(0)


def test_a_public_run_opens_without_signing_in_and_a_private_one_does_not(
    visitor: Page, recorder: Callable[..., Any], axe: Callable[[Page], None]
) -> None:
    ids = {}
    for visibility in ("public", "private"):
        with recorded(recorder(name=f"a {visibility} run")) as run:
            run.log({"loss": 0.5}, step=1)
            with run.rollout(task_description="look around") as rollout:
                rollout.log_turn(observation="a room", action="look")
                rollout.complete(status="success", total_reward=1.0)
            ids[visibility] = (run.id, rollout.id)
        TrainingRunManager.update_run(run.id, visibility=visibility)

    visitor.goto("/runs?search=a p")
    expect(visitor.get_by_role("link", name="a public run")).to_be_visible()
    expect(visitor.get_by_role("link", name="a private run")).to_have_count(0)
    axe(visitor)
    visitor.goto(f"/runs/{ids['public'][0]}")
    expect(visitor.get_by_role("heading", name="a public run")).to_be_visible()
    visitor.goto(f"/rollouts/{ids['public'][1]}")
    expect(visitor.get_by_text("a room")).to_be_visible()
    # Read-only: nothing offers to judge it.
    expect(visitor.get_by_role("button", name="Judge by hand")).to_have_count(0)

    for path in (f"/runs/{ids['private'][0]}", f"/rollouts/{ids['private'][1]}"):
        visitor.goto(path)
        expect(visitor.get_by_text("There is nothing by this id")).to_be_visible()


def test_who_may_change_a_run_makes_it_public_and_private_again(
    page: Page, visitor: Page, recorder: Callable[..., Any]
) -> None:
    with recorded(recorder(name="opened by its owner")) as run:
        pass
    page.goto(f"/runs/{run.id}")
    page.get_by_role("button", name="Private").click()
    page.get_by_role("menuitem", name="Make it public").click()
    expect(page.get_by_role("button", name="Public")).to_be_visible()
    visitor.goto(f"/runs/{run.id}")
    expect(visitor.get_by_role("heading", name="opened by its owner")).to_be_visible()
    page.get_by_role("button", name="Public").click()
    page.get_by_role("menuitem", name="Make it private").click()
    expect(page.get_by_role("button", name="Private")).to_be_visible()
    visitor.reload()
    expect(visitor.get_by_text("There is nothing by this id")).to_be_visible()


def test_a_session_of_a_stranger_is_told_so_and_sees_what_a_visitor_sees(
    open_context: Callable[..., BrowserContext], stack: Any, recorder: Callable[..., Any]
) -> None:
    with recorded(recorder(name="open to strangers")) as run:
        pass
    TrainingRunManager.update_run(run.id, visibility="public")
    account = {"email": "stranger@example.org", "password": "no-member-at-all"}
    made = account | {"email_confirm": True}
    httpx.post(f"{stack.url}/auth/v1/admin/users", headers={"apikey": stack.secret_key}, json=made).raise_for_status()
    signing_in = f"{stack.url}/auth/v1/token?grant_type=password"
    session = httpx.post(signing_in, headers={"apikey": stack.publishable_key}, json=account).json()
    page = open_context(as_visitor=True).new_page()
    page.goto("/config.json")
    page.evaluate("session => localStorage.setItem('openmanus-rl', session)", json.dumps(session))
    page.goto("/runs?search=open to strangers")
    expect(page.get_by_text("stranger@example.org is not a member")).to_be_visible()
    expect(page.get_by_role("link", name="open to strangers")).to_be_visible()


def test_a_link_with_somebody_elses_tokens_changes_nothing_for_who_is_signed_in(
    open_context: Callable[..., BrowserContext], stack: Any
) -> None:
    secret = {"apikey": stack.secret_key}
    link = {"type": "magiclink", "email": "mallory@example.org"}
    tokens = [
        httpx.post(f"{stack.url}/auth/v1/admin/generate_link", headers=secret, json=link).json()["hashed_token"]
        for _ in range(2)
    ]
    redeem = {"type": "magiclink", "token_hash": tokens[0]}
    mallory = httpx.post(f"{stack.url}/auth/v1/verify", json=redeem).json()
    page = open_context().new_page()
    page.goto("/runs")
    expect(page.get_by_role("button", name="Signed in as")).to_be_visible()
    held = page.evaluate("JSON.parse(localStorage.getItem('openmanus-rl')).user.id")

    session = f"access_token={mallory['access_token']}&refresh_token={mallory['refresh_token']}"
    more = "&expires_in=3600&token_type=bearer&type=magiclink"
    fragments = [session + more, "access_token=x&refresh_token=y" + more, f"token_hash={tokens[1]}", "error_code=x"]
    for fragment in fragments:
        page.goto("/config.json")  # Else only the fragment would change, and nothing would be loaded.
        page.goto(f"/runs#{fragment}")
        expect(page.get_by_text("this sign-in link was not used")).to_be_visible()
        expect(page.get_by_role("button", name="Signed in as")).to_be_visible()
        assert fragment not in page.url
        assert page.evaluate("JSON.parse(localStorage.getItem('openmanus-rl')).user.id") == held

    visitor = open_context(as_visitor=True).new_page()
    visitor.goto(f"/runs#token_hash={tokens[1]}")
    expect(visitor.get_by_text("mallory@example.org is not a member")).to_be_visible()


def test_a_server_that_is_away_at_the_start_is_said_and_waited_for(page: Page) -> None:
    page.route("**/rest/**", lambda route: route.abort("connectionrefused"))
    page.goto("/runs")
    expect(page.get_by_text("The server does not answer").first).to_be_visible()
    page.unroute_all()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    "answer",
    [{"status": 502, "body": "<html>Bad gateway</html>"}, {"status": 500, "json": {"code": "57014", "message": "no"}}],
    ids=["proxy", "database"],
)
def test_a_server_that_fails_at_the_start_signs_nobody_out(page: Page, answer: dict[str, Any]) -> None:
    page.route("**/rest/**", lambda route: route.fulfill(**answer))
    page.goto("/runs")
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.get_by_text("<html>")).to_have_count(0)
    page.unroute_all()
    expect(page.get_by_role("button", name="Signed in as")).to_be_visible()


def test_a_session_that_has_ended_is_no_strangers(page: Page) -> None:
    page.route("**/rest/**", lambda route: route.fulfill(status=401, json={"code": "PGRST301", "message": "refused"}))
    page.goto("/jobs")
    expect(page.get_by_text("You are not signed in")).to_be_visible()
    expect(page.get_by_text("is not a member")).to_have_count(0)


def test_who_signs_in_comes_back_to_the_page_where_they_were(
    open_context: Callable[..., BrowserContext], stack: Any, settings: None
) -> None:
    del settings
    account = {"email": "returning@example.org", "password": "correct horse battery", "email_confirm": True}
    made = httpx.post(f"{stack.url}/auth/v1/admin/users", headers={"apikey": stack.secret_key}, json=account).json()
    MemberManager.save_member(made["id"], "viewer")
    page = open_context(as_visitor=True).new_page()
    page.goto("/jobs?status=failed")
    page.get_by_role("banner").get_by_role("link", name="Sign in").click()
    page.reload()
    page.get_by_label("E-mail").fill(account["email"])
    page.locator("input[type=password]").fill(account["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_text("No job has such a status")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/jobs\?status=failed$"))
