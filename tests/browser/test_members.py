"""Members in the dashboard: invited by an admin, joined by the link, with keys of their own, and who did what."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from openmanus_rl.managers.members import InvitationManager, MemberManager

from .conftest import PHONE

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.usefixtures("settings")


@pytest.fixture
def email() -> str:
    return f"{secrets.token_hex(6)}@example.org"


def shown_secret(page: Page) -> str:
    """Return what is shown once, and close it."""
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("It is shown only now")).to_be_visible()
    text = dialog.locator(".om-secret").inner_text()
    dialog.get_by_role("button", name="Done").click()
    expect(dialog).to_have_count(0)
    return text


def join(page: Page, link: str, name: str = "Ada Lovelace", password: str = PASSWORD) -> None:
    page.goto(link)
    page.get_by_label("Name").fill(name)
    page.locator("input[type=password]").fill(password)
    page.get_by_role("button", name=re.compile("Make my account|Join")).click()


def test_an_admin_invites_and_the_link_makes_a_member(
    page: Page, open_context: Callable[..., BrowserContext], email: str, axe: Callable[[Page], None]
) -> None:
    page.goto("/members")
    page.get_by_role("button", name="Invite").click()
    page.get_by_label("E-mail").fill(email.upper())
    page.get_by_role("button", name="Make the link").click()
    link = shown_secret(page)
    row = page.get_by_role("table", name="Invitations").get_by_role("row", name=email)
    expect(row).to_contain_text("in 7 days")
    axe(page)

    guest = open_context(as_visitor=True).new_page()
    guest.goto(link)
    expect(guest.get_by_text("You are invited as editor")).to_be_visible()
    expect(guest.get_by_label("E-mail")).to_have_value(email)
    assert "token" not in guest.url, "the token is in no address that can be passed on"
    axe(guest)
    guest.reload()
    guest.get_by_label("Name").fill("Ada Lovelace")
    guest.locator("input[type=password]").fill(PASSWORD)
    guest.get_by_role("button", name="Make my account").click()
    expect(guest.get_by_role("button", name="Signed in as Ada Lovelace")).to_be_visible()
    expect(guest).to_have_url(re.compile("/runs$"))
    guest.goto("/members")
    expect(guest.get_by_role("row", name=re.compile("Ada Lovelace"))).to_contain_text("you")
    expect(guest.get_by_role("button", name="Invite")).to_have_count(0)
    expect(guest.get_by_text("owner@localhost")).to_have_count(0)

    second = open_context(as_visitor=True).new_page()
    second.goto(link)
    expect(second.get_by_role("heading", name="This invitation was used")).to_be_visible()
    axe(second)
    page.reload()
    expect(page.get_by_role("table", name="Members").get_by_role("row", name=re.compile(email))).to_be_visible()


@pytest.mark.parametrize(
    ("state", "heading"), [("revoked", "withdrawn"), ("expired", "expired"), ("unknown", "no invitation")]
)
def test_a_link_that_has_ended_says_how(visitor: Page, stack: Any, email: str, state: str, heading: str) -> None:
    made, token = InvitationManager.invite(email)
    if state == "revoked":
        InvitationManager.revoke(made["id"])
    if state == "expired":
        with psycopg.connect(stack.database_url) as connection:
            connection.execute("update public.invitations set expires_at = now() where id = %s", [made["id"]])
    visitor.goto(f"/invitation#token={token if state != 'unknown' else token[:-3]}")
    expect(visitor.get_by_role("heading", name=re.compile(heading))).to_be_visible()
    expect(visitor.get_by_role("alert")).to_be_visible()
    assert stack.secret_key not in visitor.content()


def test_who_has_an_account_joins_with_its_password(
    open_context: Callable[..., BrowserContext], stack: Any, email: str
) -> None:
    account = {"email": email, "password": PASSWORD, "email_confirm": True}
    httpx.post(f"{stack.url}/auth/v1/admin/users", headers={"apikey": stack.secret_key}, json=account)
    token = InvitationManager.invite(email, "viewer")[1]
    guest = open_context(as_visitor=True).new_page()
    join(guest, f"/invitation#token={token}", password="not the password")
    expect(guest.get_by_role("alert")).to_contain_text("has an account already")
    guest.locator("input[type=password]").fill(PASSWORD)
    guest.get_by_role("button", name="Join").click()
    expect(guest.get_by_role("button", name="Signed in as Ada Lovelace")).to_be_visible()


def test_a_member_signs_in_by_password_and_changes_it(
    open_context: Callable[..., BrowserContext], email: str, axe: Callable[[Page], None]
) -> None:
    token = InvitationManager.invite(email, "editor")[1]
    guest = open_context(as_visitor=True).new_page()
    join(guest, f"/invitation#token={token}")
    expect(guest.get_by_role("button", name="Signed in as Ada Lovelace")).to_be_visible()
    guest.goto("/account")
    axe(guest)
    guest.get_by_role("textbox", name="Name").fill("Ada, Countess")
    guest.get_by_role("button", name="Change the name").click()
    expect(guest.get_by_text("Your name is changed")).to_be_visible()
    password = guest.get_by_role("region", name="Password")
    password.get_by_label("Current password").fill("not the password")
    password.get_by_label("New password").fill("another horse battery")
    password.get_by_role("button", name="Change the password").click()
    expect(password.get_by_role("alert")).to_contain_text("The current password is not right")
    password.get_by_label("Current password").fill(PASSWORD)
    password.get_by_role("button", name="Change the password").click()
    expect(guest.get_by_text("Your password is changed")).to_be_visible()

    other = open_context(as_visitor=True).new_page()
    other.goto("/sign-in")
    other.get_by_label("E-mail").fill(email)
    other.locator("input[type=password]").fill(PASSWORD)
    other.get_by_role("button", name="Sign in", exact=True).click()
    expect(other.get_by_role("alert")).to_be_visible()
    other.locator("input[type=password]").fill("another horse battery")
    other.get_by_role("button", name="Sign in", exact=True).click()
    expect(other.get_by_role("button", name="Signed in as Ada, Countess")).to_be_visible()


def test_a_member_makes_a_key_which_works_until_it_is_revoked(
    page: Page, stack: Any, axe: Callable[[Page], None]
) -> None:
    name = f"gpu-{secrets.token_hex(4)}"
    page.goto("/keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Make the key").click()
    lines = dict(line.split("=", 1) for line in shown_secret(page).splitlines())
    assert lines["SUPABASE_URL"] == stack.url

    def status() -> int:
        headers = {"apikey": lines["SUPABASE_KEY"]}
        url = f"{stack.url}/rest/v1/members?limit=1"
        return httpx.get(url, headers=headers, trust_env=False, verify=httpx.create_ssl_context()).status_code

    assert status() == 200
    assert lines["SUPABASE_KEY"] not in page.content()
    row = page.get_by_role("row", name=re.compile(name))
    expect(row).to_contain_text("active")
    expect(row).to_contain_text("in 90 days")
    axe(page)
    row.get_by_role("button", name=f"Revoke {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    page.get_by_role("switch").click()
    expect(row).to_contain_text("revoked")
    page.wait_for_timeout(1_100)
    assert status() == 401


def test_an_admin_changes_roles_removes_members_and_sees_who_did_what(
    page: Page, email: str, stack: Any, axe: Callable[[Page], None]
) -> None:
    account = {"email": email, "password": PASSWORD, "email_confirm": True}
    secret = {"apikey": stack.secret_key}
    user_id = httpx.post(f"{stack.url}/auth/v1/admin/users", headers=secret, json=account).json()["id"]
    MemberManager.save_member(user_id, "viewer", display_name=f"Grace {email[:6]}")
    page.goto("/members")
    row = page.get_by_role("table", name="Members").get_by_role("row", name=re.compile(email))
    row.get_by_role("combobox", name=re.compile("Role of")).select_option("editor")
    expect(row.get_by_role("combobox", name=re.compile("Role of"))).to_have_value("editor")
    row.get_by_role("button", name=re.compile("More about")).click()
    page.get_by_role("menuitem", name="Make a sign-in link").click()
    assert "#token_hash=" in shown_secret(page)
    row.get_by_role("button", name=re.compile("More about")).click()
    page.get_by_role("menuitem", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    assert MemberManager.find_member(user_id) is None

    page.get_by_role("link", name="Who did what").click()
    for action in ("member.removed", "link.created", "member.role_changed", "member.added"):
        expect(
            page.get_by_role("row", name=re.compile(f"{action}.*Grace {email[:6]}|{action}.*{email}")).first
        ).to_be_visible()
    axe(page)
    page.get_by_role("combobox", name="About").click()
    page.get_by_role("option", name="Sign-in links").click()
    expect(page.get_by_role("row", name=re.compile("member.removed"))).to_have_count(0)
    expect(page.get_by_role("row", name=re.compile("link.created")).first).to_be_visible()


def test_a_member_sees_their_name_and_role_as_they_are_now_until_they_are_removed(
    open_context: Callable[..., BrowserContext], email: str
) -> None:
    token = InvitationManager.invite(email, "viewer")[1]
    guest = open_context(as_visitor=True).new_page()
    join(guest, f"/invitation#token={token}")
    expect(guest.get_by_role("button", name="Signed in as Ada Lovelace")).to_be_visible()
    guest.goto("/account")
    expect(guest.get_by_text(f"{email} · viewer")).to_be_visible()
    guest.get_by_role("textbox", name="Name").fill("Ada King")
    guest.get_by_role("button", name="Change the name").click()
    expect(guest.get_by_role("button", name="Signed in as Ada King")).to_be_visible()
    (one,) = [one for one in MemberManager.list_accounts() if one["email"] == email]
    MemberManager.save_member(one["user_id"], "editor", display_name="Ada King")
    expect(guest.get_by_text(f"{email} · editor")).to_be_visible()
    MemberManager.remove_member(one["user_id"])
    expect(guest.get_by_text(f"{email} is not a member of this workspace")).to_be_visible()


def test_an_old_key_that_is_active_is_listed_among_hundreds_and_can_be_revoked(page: Page, stack: Any) -> None:
    name = f"old-{secrets.token_hex(4)}"
    with psycopg.connect(stack.database_url) as connection:
        connection.execute(
            """insert into public.member_keys (member_id, name, prefix, role, created_at, revoked_at)
               select m.user_id, case n when 350 then %s else 'many' end, 'omk_', 'viewer',
                 now() - n * interval '1 hour', case when n between 10 and 249 then now() end
               from generate_series(1, 350) n, public.members m join auth.users u on u.id = m.user_id
               where u.email = 'owner@localhost'""",
            [name],
        )
    try:
        for path in ("/members", "/keys"):
            page.goto(path)
            table = page.get_by_role("table", name="Keys")
            expect(table.get_by_role("row").nth(50)).to_be_visible()
            page.get_by_role("button", name="Show more").click()
            expect(table.get_by_role("button", name=f"Revoke {name}")).to_be_visible()
            expect(table.get_by_text("revoked")).to_have_count(0)
        page.get_by_role("switch").click()
        expect(table.get_by_text("revoked").first).to_be_visible()
    finally:
        with psycopg.connect(stack.database_url) as connection:
            connection.execute("delete from public.member_keys where prefix = 'omk_'")


def test_of_hundreds_of_members_the_first_are_listed_and_any_is_found(page: Page) -> None:
    people = [{"user_id": str(uuid4()), "role": "viewer", "display_name": f"Person {n}"} for n in range(250)]
    rest = [
        {"email": f"{n}@example.org", "created_at": "2026-01-02T03:04:05Z", "last_sign_in_at": None, "keys": 0}
        for n in range(250)
    ]
    found = [person | more for person, more in zip(people, rest, strict=True)]
    page.route("**/rpc/list_members", lambda route: route.fulfill(json=found))
    page.goto("/members")
    rows = page.get_by_role("table", name="Members").locator("tbody tr")
    expect(page.get_by_text("100 of 250 members are listed")).to_be_visible()
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="List more").click()
    expect(rows).to_have_count(200)
    page.get_by_label("Search the members").fill("249@EXAMPLE")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Person 249")


def test_the_last_admin_is_told_to_find_another(page: Page) -> None:
    for one in MemberManager.list_accounts():
        if one["role"] == "admin" and one["email"] != "owner@localhost":
            MemberManager.save_member(one["user_id"], "editor")
    page.goto("/members")
    row = page.get_by_role("row", name=re.compile("owner@localhost"))
    row.get_by_role("combobox").select_option("viewer")
    expect(page.get_by_text("this is the last admin")).to_be_visible()
    expect(row.get_by_role("combobox")).to_have_value("admin")


@pytest.mark.parametrize("path", ["/members", "/members/log", "/keys", "/account"])
def test_visitors_are_told_to_sign_in(visitor: Page, path: str, axe: Callable[[Page], None]) -> None:
    visitor.goto(path)
    expect(visitor.get_by_role("main").get_by_role("link", name="Sign in").last).to_be_visible()
    axe(visitor)


def test_on_a_phone_nothing_is_wider_than_the_screen(open_context: Callable[..., BrowserContext]) -> None:
    page = open_context(phone=True).new_page()
    for path in ("/members", "/members/log", "/keys", "/account"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
