"""Links that sign their holder in: once, for a day, and nothing less than the link does."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest
from supabase import Client, create_client
from supabase_auth.errors import AuthApiError

from .process import Gateway


def new_email() -> str:
    return f"user-{secrets.token_hex(6)}@example.com"


@pytest.fixture
def visitor(gateway: Gateway) -> Client:
    return create_client(gateway.url, gateway.settings.publishable_key)


def make_link(admin: Client, email: str, kind: str = "magiclink", **options: Any) -> Any:
    return admin.auth.admin.generate_link({"type": kind, "email": email, "options": options})  # type: ignore[arg-type, misc]


def verify(http: httpx.Client, token: str, kind: str = "magiclink") -> httpx.Response:
    return http.post("/auth/v1/verify", json={"type": kind, "token_hash": token})


def test_a_link_signs_its_holder_in_and_the_session_is_like_any_other(admin: Client, visitor: Client) -> None:
    email = new_email()
    link = make_link(admin, email)
    session = visitor.auth.verify_otp({"token_hash": link.properties.hashed_token, "type": "magiclink"}).session
    assert session is not None
    assert (session.user.id, session.user.email) == (link.user.id, email)
    assert visitor.rpc("who_am_i", {}).execute().data["uid"] == link.user.id
    refreshed = visitor.auth.refresh_session().session
    assert refreshed is not None
    assert refreshed.refresh_token != session.refresh_token
    visitor.auth.sign_out()
    with pytest.raises(AuthApiError):
        visitor.auth.refresh_session(refreshed.refresh_token)


def test_a_link_leads_to_the_account_that_is_there(admin: Client, http: httpx.Client) -> None:
    email = new_email()
    user = admin.auth.admin.create_user({"email": email, "password": "password123"}).user
    link = make_link(admin, email.upper())
    assert link.user.id == user.id
    assert verify(http, link.properties.hashed_token, "email").json()["user"]["id"] == user.id


def test_a_link_is_used_up_by_its_first_use_however_many_try_at_once(admin: Client, http: httpx.Client) -> None:
    token = make_link(admin, new_email()).properties.hashed_token
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: verify(http, token).status_code, range(8)))
    assert sorted(answers) == [200] + [403] * 7


def test_many_links_are_valid_at_once(admin: Client, http: httpx.Client) -> None:
    email = new_email()
    with ThreadPoolExecutor(8) as pool:  # At once: the account is made by one of them.
        links = list(pool.map(lambda _: make_link(admin, email), range(8)))
    assert len({link.user.id for link in links}) == 1
    assert {verify(http, link.properties.hashed_token).status_code for link in links} == {200}


def test_a_link_ends_after_a_day(admin: Client, http: httpx.Client, sql: psycopg.Connection) -> None:
    link = make_link(admin, new_email())
    left = "select extract(epoch from expires_at - now()) from auth.sign_in_links where user_id = %s"
    row = sql.execute(left, (link.user.id,)).fetchone()
    assert row is not None
    assert 23.9 * 3600 < float(row[0]) <= 24 * 3600
    sql.execute("update auth.sign_in_links set expires_at = now() where user_id = %s", (link.user.id,))
    assert verify(http, link.properties.hashed_token).status_code == 403
    make_link(admin, new_email())
    assert sql.execute(left, (link.user.id,)).fetchone() is None, "what has ended is cleared away"


def test_a_link_ends_with_its_account(admin: Client, http: httpx.Client, sql: psycopg.Connection) -> None:
    banned, deleted = (make_link(admin, new_email()) for _ in range(2))
    sql.execute("update auth.users set banned_until = now() + interval '1 day' where id = %s", (banned.user.id,))
    admin.auth.admin.delete_user(deleted.user.id)
    for link in (banned, deleted):
        assert verify(http, link.properties.hashed_token).status_code == 403


def test_the_database_keeps_nothing_that_signs_in(admin: Client, http: httpx.Client, sql: psycopg.Connection) -> None:
    link = make_link(admin, new_email())
    row = sql.execute("select * from auth.sign_in_links where user_id = %s", (link.user.id,)).fetchone()
    assert row is not None
    assert link.properties.hashed_token not in map(str, row)
    assert verify(http, str(row[0])).status_code == 403


def test_every_wrong_link_gets_the_same_answer(admin: Client, http: httpx.Client) -> None:
    used = make_link(admin, new_email()).properties.hashed_token
    verify(http, used)
    answers = [verify(http, token, kind) for token in (used, "x", "0" * 64) for kind in ("magiclink", "recovery")]
    assert {(answer.status_code, answer.text) for answer in answers} == {(403, answers[0].text)}
    assert answers[0].json()["error_code"] == "otp_expired"


@pytest.mark.parametrize("path", ["otp", "magiclink", "recover", "resend"])
def test_no_code_is_ever_sent_that_could_be_guessed(
    gateway: Gateway, admin: Client, http: httpx.Client, sql: psycopg.Connection, path: str
) -> None:
    user = make_link(admin, new_email()).user
    headers = {"apikey": gateway.settings.publishable_key}
    answer = http.post(f"/auth/v1/{path}", json={"email": user.email, "type": "signup"}, headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (422, "email_provider_disabled")
    tokens = sql.execute("select recovery_token, confirmation_token from auth.users where id = %s", (user.id,))
    assert tokens.fetchone() == (None, None)
    by_code = http.post("/auth/v1/verify", json={"type": "email", "email": user.email, "token": "123456"})
    assert (by_code.status_code, by_code.json()["error_code"]) == (403, "otp_expired")


def test_links_are_made_with_the_secret_key_only(
    gateway: Gateway, http: httpx.Client, anon: Client, member: Client
) -> None:
    for client in (anon, member):
        with pytest.raises(AuthApiError):
            make_link(client, new_email())
    assert http.post("/auth/v1/admin/generate_link", json={}).status_code == 401
    headers = {"apikey": gateway.settings.secret_key}
    for body in ({"type": "magiclink"}, {"type": "magiclink", "email": "no address"}, {"type": "recovery"}, {}):
        assert http.post("/auth/v1/admin/generate_link", json=body, headers=headers).status_code == 400


def test_an_action_link_ends_at_its_page_with_a_session(gateway: Gateway, admin: Client, http: httpx.Client) -> None:
    link = make_link(admin, new_email(), redirect_to="http://localhost:5173/runs")
    answer = http.get(link.properties.action_link)
    assert answer.status_code == 303
    target = urlsplit(answer.headers["location"])
    assert (target.netloc, target.path) == ("localhost:5173", "/runs")
    token = parse_qs(target.fragment)["access_token"][0]
    headers = {"apikey": gateway.settings.publishable_key, "Authorization": f"Bearer {token}"}
    assert http.get("/auth/v1/user", headers=headers).json()["id"] == link.user.id
    assert http.get(link.properties.action_link).status_code == 403


def test_an_action_link_hands_its_session_to_no_other_site(admin: Client, http: httpx.Client) -> None:
    link = make_link(admin, new_email(), redirect_to="https://elsewhere.example/")
    assert http.get(link.properties.action_link).status_code == 400
    assert verify(http, link.properties.hashed_token).status_code == 200, "it was not used up"


def test_an_invitation_makes_an_account_that_is_confirmed_by_its_use(admin: Client, http: httpx.Client) -> None:
    email = new_email()
    link = make_link(admin, email, "invite", data={"name": "Ada"})
    assert (link.user.email_confirmed_at, link.user.user_metadata["name"]) == (None, "Ada")
    again = make_link(admin, email, "invite")
    assert again.user.id == link.user.id, "a lost invitation can be made anew"

    assert verify(http, link.properties.hashed_token, "recovery").status_code == 403
    user = verify(http, link.properties.hashed_token, "invite").json()["user"]
    assert user["id"] == link.user.id
    assert user["email_confirmed_at"]
    with pytest.raises(AuthApiError, match="already been registered"):
        make_link(admin, email, "invite")


def test_a_recovery_link_sets_a_new_password_without_the_old(admin: Client, visitor: Client) -> None:
    email = new_email()
    with pytest.raises(AuthApiError, match="not found"):
        make_link(admin, email, "recovery")
    admin.auth.admin.create_user({"email": email, "password": "forgotten-password", "email_confirm": True})
    link = make_link(admin, email, "recovery")

    visitor.auth.verify_otp({"token_hash": link.properties.hashed_token, "type": "recovery"})
    visitor.auth.update_user({"password": "the-new-password"})

    assert visitor.auth.sign_in_with_password({"email": email, "password": "the-new-password"}).session
    with pytest.raises(AuthApiError, match="Invalid login credentials"):
        visitor.auth.sign_in_with_password({"email": email, "password": "forgotten-password"})
