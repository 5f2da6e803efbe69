"""Signing in and out, what sessions may do, and administering users."""

from __future__ import annotations

import json
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest
from supabase import Client, create_client
from supabase_auth.errors import AuthApiError, AuthError
from supabase_auth.types import Session

from .process import Gateway


def new_email() -> str:
    return f"user-{secrets.token_hex(6)}@example.com"


@pytest.fixture
def visitor(gateway: Gateway) -> Client:
    return create_client(gateway.url, gateway.settings.publishable_key)


PASSWORD = "password123"


@pytest.fixture
def email(admin: Client) -> str:
    """The address of an account with a password."""
    address = new_email()
    made = {"email": address, "password": PASSWORD, "email_confirm": True, "app_metadata": {"team": "red"}}
    admin.auth.admin.create_user(made | {"user_metadata": {"name": "Ada"}})  # type: ignore[arg-type]
    return address


def signed_in(client: Client, email: str, password: str = PASSWORD) -> Session:
    session = client.auth.sign_in_with_password({"email": email, "password": password}).session
    assert session is not None
    return session


def test_sign_in_refresh_and_sign_out(visitor: Client, email: str) -> None:
    session = signed_in(visitor, email.upper())
    assert session.user.user_metadata["name"] == "Ada"
    refreshed = visitor.auth.refresh_session().session
    assert refreshed is not None
    assert refreshed.refresh_token != session.refresh_token
    user = visitor.auth.get_user()
    assert user is not None
    assert user.user.email == email
    visitor.auth.sign_out()
    assert visitor.auth.get_session() is None
    with pytest.raises(AuthApiError):
        visitor.auth.refresh_session(refreshed.refresh_token)


def test_nobody_signs_up(gateway: Gateway, http: httpx.Client, sql: psycopg.Connection) -> None:
    address = new_email()
    headers = {"apikey": gateway.settings.publishable_key}
    for body in ({"email": address, "password": PASSWORD}, {}, {"email": "owner@localhost", "password": PASSWORD}):
        answer = http.post("/auth/v1/signup", json=body, headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (422, "signup_disabled")
    assert http.get("/auth/v1/settings", headers=headers).json()["disable_signup"] is True
    assert sql.execute("select count(*) from auth.users where email = %s", (address,)).fetchone() == (0,)


def test_policies_read_every_claim_that_hosted_tokens_have(visitor: Client, email: str) -> None:
    signed_in(visitor, email)
    visitor.auth.refresh_session()
    claims = visitor.rpc("who_am_i", {}).execute().data["claims"]
    assert claims["app_metadata"]["team"] == "red"
    assert claims["user_metadata"]["name"] == "Ada"
    assert (claims["aal"], claims["amr"][0]["method"], claims["is_anonymous"]) == ("aal1", "password", False)
    assert (claims["role"], claims["aud"], claims["email"], claims["phone"]) == (
        "authenticated",
        "authenticated",
        email,
        "",
    )
    assert claims["iss"].endswith("/auth/v1")
    assert claims["exp"] == claims["iat"] + 3600
    assert {"sub", "session_id"} <= claims.keys()


def test_wrong_credentials_get_one_answer(visitor: Client, email: str) -> None:
    told = []
    for address, password in ((email, "not it"), (new_email(), PASSWORD), (email + "\0", PASSWORD)):
        with pytest.raises(AuthApiError) as wrong:
            signed_in(visitor, address, password)
        told.append((wrong.value.code, wrong.value.message))
    assert told[0] == told[1] == told[2]
    assert told[0][0] == "invalid_credentials"


def test_guessing_a_password_is_throttled_and_another_account_is_not(visitor: Client, admin: Client) -> None:
    guessed, other = new_email(), new_email()
    for address in (guessed, other):
        admin.auth.admin.create_user({"email": address, "password": PASSWORD, "email_confirm": True})
    codes = []
    for _ in range(11):
        with pytest.raises(AuthApiError) as caught:
            signed_in(visitor, guessed, "not it")
        codes.append((caught.value.status, caught.value.code))
    assert codes == [(400, "invalid_credentials")] * 10 + [(429, "over_request_rate_limit")]
    with pytest.raises(AuthApiError) as even_right:
        signed_in(visitor, guessed)
    assert even_right.value.status == 429
    assert signed_in(visitor, other)


def test_a_refresh_token_gives_one_new_token_however_many_ask_at_once(
    visitor: Client, email: str, http: httpx.Client
) -> None:
    token = signed_in(visitor, email).refresh_token

    def refresh(_: int) -> httpx.Response:
        headers = {"apikey": visitor.supabase_key}
        return http.post("/auth/v1/token?grant_type=refresh_token", json={"refresh_token": token}, headers=headers)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(refresh, range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8, "whoever lost the answer may ask again"
    (new,) = {answer.json()["refresh_token"] for answer in answers}
    assert visitor.auth.refresh_session(new).session is not None
    again = refresh(0)
    assert (again.status_code, again.json()["error_code"]) == (400, "refresh_token_already_used")


def test_a_refresh_token_that_comes_again_later_ends_its_session(
    visitor: Client, email: str, sql: psycopg.Connection
) -> None:
    stolen = signed_in(visitor, email).refresh_token
    visitor.auth.refresh_session()
    current = visitor.auth.refresh_session().session
    assert current is not None
    sql.execute("update auth.refresh_tokens set updated_at = now() - interval '1 minute' where token = %s", (stolen,))
    for token in (stolen, current.refresh_token):
        with pytest.raises(AuthApiError):
            visitor.auth.refresh_session(token)
    with pytest.raises(AuthApiError):
        visitor.auth.get_user(current.access_token)


def test_a_session_alone_sets_no_new_password(visitor: Client, email: str, http: httpx.Client) -> None:
    other = create_client(str(visitor.supabase_url), visitor.supabase_key)
    signed_in(other, email)
    session = signed_in(visitor, email)
    headers = {"apikey": visitor.supabase_key, "Authorization": f"Bearer {session.access_token}"}

    def change(**body: str) -> httpx.Response:
        return http.put("/auth/v1/user", json=body, headers=headers)

    refused = change(password="a new password")
    assert (refused.status_code, refused.json()["error_code"]) == (400, "reauthentication_needed")
    wrong = change(password="a new password", current_password="not it")
    assert (wrong.status_code, wrong.json()["error_code"]) == (400, "invalid_credentials")
    assert signed_in(visitor, email), "the old one still works"
    assert change(password="a new password", current_password=PASSWORD).status_code == 200
    with pytest.raises(AuthApiError):
        signed_in(visitor, email)
    assert signed_in(visitor, email, "a new password")
    with pytest.raises(AuthApiError):
        other.auth.refresh_session()


def test_a_fresh_link_sets_a_new_password_and_an_old_session_of_one_does_not(
    visitor: Client, email: str, admin: Client, sql: psycopg.Connection
) -> None:
    link = admin.auth.admin.generate_link({"type": "magiclink", "email": email})
    session = visitor.auth.verify_otp({"token_hash": link.properties.hashed_token, "type": "magiclink"}).session
    assert session is not None
    visitor.auth.update_user({"password": "by the link"})
    assert signed_in(create_client(str(visitor.supabase_url), visitor.supabase_key), email, "by the link")
    sql.execute(
        "update auth.mfa_amr_claims set created_at = now() - interval '1 hour' where session_id in"
        " (select id from auth.sessions where user_id = %s)",
        (session.user.id,),
    )
    with pytest.raises(AuthApiError) as caught:
        visitor.auth.update_user({"password": "another one"})
    assert caught.value.code == "reauthentication_needed"
    updated = visitor.auth.update_user({"data": {"name": "Grace"}})
    assert updated.user.user_metadata["name"] == "Grace", "what is no password may change"


def test_an_account_is_changed_as_a_whole_or_not_at_all(visitor: Client, email: str, http: httpx.Client) -> None:
    session = signed_in(visitor, email)
    headers = {"apikey": visitor.supabase_key, "Authorization": f"Bearer {session.access_token}"}
    asked = {"email": new_email(), "current_password": PASSWORD}
    for wrong, code in (
        ({"password": "short"}, "weak_password"),
        ({"password": PASSWORD}, "same_password"),
        ({"data": [1]}, "validation_failed"),
    ):
        answer = http.put("/auth/v1/user", json=asked | wrong, headers=headers)
        assert answer.json()["error_code"] == code
        assert http.get("/auth/v1/user", headers=headers).json()["email"] == email
    right = http.put("/auth/v1/user", json=asked | {"password": "another one"}, headers=headers)
    assert (right.status_code, right.json()["email"]) == (200, asked["email"])
    assert signed_in(visitor, asked["email"], "another one")


@pytest.mark.parametrize("data", [["a"], "text", 5, {"a": "\0"}, {"a": {"\ud800": 1}}])
def test_metadata_that_cannot_be_kept_is_refused(
    gateway: Gateway, visitor: Client, email: str, http: httpx.Client, data: object
) -> None:
    session = signed_in(visitor, email)
    own = {"apikey": visitor.supabase_key, "Authorization": f"Bearer {session.access_token}"}
    body = json.dumps({"data": data, "user_metadata": data})
    for path, headers in (
        ("user", own),
        (f"admin/users/{session.user.id}", {"apikey": gateway.settings.secret_key}),
    ):
        answer = http.put(f"/auth/v1/{path}", content=body, headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "validation_failed")
    assert visitor.auth.get_user().user.user_metadata["name"] == "Ada"  # type: ignore[union-attr]


def test_a_banned_user_neither_signs_in_nor_refreshes(visitor: Client, email: str, sql: psycopg.Connection) -> None:
    signed_in(visitor, email)
    sql.execute("update auth.users set banned_until = now() + interval '1 day' where email = %s", (email,))
    for attempt in (visitor.auth.refresh_session, lambda: signed_in(visitor, email)):
        with pytest.raises(AuthApiError) as caught:
            attempt()
        assert caught.value.code == "user_banned"
    with pytest.raises(AuthApiError) as refused:
        visitor.auth.update_user({"data": {"name": "Grace"}})
    assert refused.value.code == "user_banned"
    sql.execute("update auth.users set banned_until = null where email = %s", (email,))
    assert visitor.auth.refresh_session().session is not None, "a ban that is over has cost no session"


def test_the_secret_key_creates_finds_changes_and_deletes_users(admin: Client, visitor: Client) -> None:
    email = new_email()
    created = admin.auth.admin.create_user(
        {
            "email": email.upper(),
            "password": "password123",
            "email_confirm": True,
            "user_metadata": {"name": "Ada"},
            "app_metadata": {"team": "red"},
        }
    ).user
    assert (created.email, created.app_metadata["team"], created.user_metadata["name"]) == (email, "red", "Ada")
    assert created.identities is not None
    assert [identity.provider for identity in created.identities] == ["email"]
    assert visitor.auth.sign_in_with_password({"email": email, "password": "password123"}).session is not None
    assert admin.auth.admin.get_user_by_id(created.id).user.email == email
    assert created.id in [user.id for user in admin.auth.admin.list_users(per_page=1000)]
    admin.auth.admin.update_user_by_id(created.id, {"password": "different1", "app_metadata": {"team": "blue"}})
    assert visitor.auth.sign_in_with_password({"email": email, "password": "different1"}).session is not None
    assert admin.auth.admin.get_user_by_id(created.id).user.app_metadata["team"] == "blue"
    admin.auth.admin.delete_user(created.id)
    with pytest.raises(AuthApiError) as gone:
        admin.auth.admin.get_user_by_id(created.id)
    assert gone.value.status == 404
    with pytest.raises(AuthApiError):
        visitor.auth.refresh_session()


def test_an_unconfirmed_user_cannot_sign_in(admin: Client, visitor: Client) -> None:
    email = new_email()
    admin.auth.admin.create_user({"email": email, "password": "password123"})
    with pytest.raises(AuthApiError) as caught:
        visitor.auth.sign_in_with_password({"email": email, "password": "password123"})
    assert caught.value.code == "email_not_confirmed"


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"email": "no address", "password": "password123"}, "validation_failed"),
        ({"email": "a\0@example.com", "password": "password123"}, "validation_failed"),
        ({"email": f"{'a' * 250}@example.com", "password": "password123"}, "validation_failed"),
        ({"password": "password123"}, "validation_failed"),
        ({"email": "a@example.com", "password": "short"}, "weak_password"),
        ({"email": "a@example.com", "password": "x" * 73}, "validation_failed"),
    ],
)
def test_a_user_that_cannot_be_is_refused(admin: Client, attributes: dict[str, str], code: str) -> None:
    with pytest.raises(AuthError) as caught:
        admin.auth.admin.create_user(attributes)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_taken_address_is_refused_and_users_are_paged(admin: Client) -> None:
    email = new_email()
    admin.auth.admin.create_user({"email": email, "password": "password123"})
    with pytest.raises(AuthApiError) as caught:
        admin.auth.admin.create_user({"email": email, "password": "password123"})
    assert caught.value.code == "email_exists"
    admin.auth.admin.create_user({"email": new_email(), "password": "password123"})
    pages = [admin.auth.admin.list_users(page=page, per_page=1) for page in (1, 2)]
    assert [len(page) for page in pages] == [1, 1]
    assert pages[0][0].id != pages[1][0].id


def test_pages_of_users_name_the_next_and_the_last(gateway: Gateway, admin: Client, http: httpx.Client) -> None:
    for _ in range(3):
        admin.auth.admin.create_user({"email": new_email(), "password": PASSWORD})
    headers = {"apikey": gateway.settings.secret_key}
    first = http.get("/auth/v1/admin/users", params={"per_page": 2}, headers=headers)
    total = int(first.headers["x-total-count"])
    last = -(-total // 2)
    assert first.headers["link"] == (
        f'</auth/v1/admin/users?page=2&per_page=2>; rel="next", '
        f'</auth/v1/admin/users?page={last}&per_page=2>; rel="last"'
    )
    end = http.get("/auth/v1/admin/users", params={"per_page": 2, "page": last}, headers=headers)
    assert 'rel="next"' not in end.headers["link"]
    for wrong in ({"page": "-1"}, {"page": "1e20"}, {"per_page": "9" * 30}, {"page": "x"}):
        assert http.get("/auth/v1/admin/users", params=wrong, headers=headers).status_code == 400


def test_users_are_administered_with_the_secret_key_only(
    gateway: Gateway, http: httpx.Client, anon: Client, member: Client
) -> None:
    for client in (anon, member):
        with pytest.raises(AuthApiError):
            client.auth.admin.list_users()
    token = member.auth.get_session().access_token  # type: ignore[union-attr]
    headers = {"apikey": gateway.settings.publishable_key, "Authorization": f"Bearer {token}"}
    assert http.get("/auth/v1/admin/users", headers=headers).status_code == 403
    assert http.get("/auth/v1/admin/users").status_code == 401


def test_passwords_are_stored_as_hashes(admin: Client, sql: psycopg.Connection) -> None:
    user = admin.auth.admin.create_user({"email": new_email(), "password": "password123"}).user
    stored = sql.execute("select encrypted_password from auth.users where id = %s", (user.id,)).fetchone()
    assert stored is not None
    assert stored[0].startswith("$2")


def identity_data(user: Any) -> dict[str, Any]:
    (identity,) = user.identities
    return dict(identity.identity_data)


def test_an_address_is_verified_when_it_is_confirmed(admin: Client) -> None:
    email = new_email()
    created = admin.auth.admin.create_user({"email": email, "user_metadata": {"name": "Ada"}}).user
    assert created.user_metadata == {"name": "Ada"}
    assert created.email_confirmed_at is None
    assert identity_data(created) == {
        "sub": created.id,
        "email": email,
        "email_verified": False,
        "phone_verified": False,
    }
    confirmed = admin.auth.admin.update_user_by_id(created.id, {"email_confirm": True}).user
    assert confirmed.user_metadata == {"name": "Ada", "email_verified": True}
    assert confirmed.email_confirmed_at is not None
    assert confirmed.confirmed_at == confirmed.email_confirmed_at
    at_once = admin.auth.admin.create_user({"email": new_email(), "email_confirm": True}).user
    assert at_once.user_metadata == {"email_verified": True}


def test_an_admin_gives_an_account_another_address(admin: Client, visitor: Client, email: str) -> None:
    old = signed_in(visitor, email).user
    taken, address = new_email(), new_email()
    admin.auth.admin.create_user({"email": taken})
    with pytest.raises(AuthApiError) as refused:
        admin.auth.admin.update_user_by_id(old.id, {"email": taken})
    assert (refused.value.status, refused.value.code) == (422, "email_exists")
    changed = admin.auth.admin.update_user_by_id(old.id, {"email": address.upper()}).user
    assert (changed.email, identity_data(changed)["email"]) == (address, address)
    assert identity_data(changed)["email_verified"] is False
    changed = admin.auth.admin.update_user_by_id(old.id, {"email": address, "email_confirm": True}).user
    assert identity_data(changed)["email_verified"] is True
    with pytest.raises(AuthApiError):
        signed_in(visitor, email)
    assert signed_in(visitor, address).user.id == old.id


def test_metadata_is_merged_and_a_null_takes_its_key_away(admin: Client) -> None:
    made = {"email": new_email(), "user_metadata": {"a": 1, "b": 2}, "app_metadata": {"team": "red"}}
    user = admin.auth.admin.create_user(made).user  # type: ignore[arg-type]
    changes = {"user_metadata": {"a": None, "c": {"d": 3}}, "app_metadata": {"team": None}}
    changed = admin.auth.admin.update_user_by_id(user.id, changes).user  # type: ignore[arg-type]
    assert changed.user_metadata == {"b": 2, "c": {"d": 3}}
    assert changed.app_metadata == {"provider": "email", "providers": ["email"]}


def test_a_ban_lasts_as_long_as_it_says_and_none_ends_it(admin: Client, visitor: Client, email: str) -> None:
    user = signed_in(visitor, email).user
    admin.auth.admin.update_user_by_id(user.id, {"ban_duration": "1h30m"})
    with pytest.raises(AuthApiError) as banned:
        visitor.auth.get_user()
    assert banned.value.code == "user_banned"
    with pytest.raises(AuthApiError) as wrong:
        admin.auth.admin.update_user_by_id(user.id, {"ban_duration": "a while"})
    assert wrong.value.code == "validation_failed"
    admin.auth.admin.update_user_by_id(user.id, {"ban_duration": "none"})
    assert visitor.auth.get_user() is not None


def test_a_user_comes_with_the_hash_of_a_password(
    visitor: Client, gateway: Gateway, http: httpx.Client, sql: psycopg.Connection, email: str
) -> None:
    kept = sql.execute("select encrypted_password from auth.users where email = %s", (email,)).fetchone()
    assert kept is not None
    moved = new_email()
    body = {"email": moved, "password_hash": kept[0], "email_confirm": True}
    headers = {"apikey": gateway.settings.secret_key}
    assert http.post("/auth/v1/admin/users", json=body, headers=headers).status_code == 200
    assert signed_in(visitor, moved)
    for wrong in ({"password_hash": "plain"}, {"password_hash": kept[0], "password": PASSWORD}, {"id": "1"}):
        answer = http.post("/auth/v1/admin/users", json={"email": new_email(), **wrong}, headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "validation_failed"), wrong


def test_who_am_i_says_why_it_does_not_know(
    gateway: Gateway, http: httpx.Client, admin: Client, visitor: Client, email: str
) -> None:
    session = signed_in(visitor, email)

    def ask(token: str | None) -> tuple[int, str]:
        headers = {"apikey": gateway.settings.publishable_key}
        answer = http.get("/auth/v1/user", headers=headers | ({"Authorization": f"Bearer {token}"} if token else {}))
        assert answer.json()["code"] == answer.status_code
        return answer.status_code, answer.json()["error_code"]

    assert ask(None) == (401, "no_authorization")
    assert ask(session.access_token[:-4] + "AAAA") == (403, "bad_jwt")
    stranger = gateway.settings.jwt(sub="00000000-0000-4000-8000-000000000000", role="authenticated")
    assert ask(stranger) == (403, "user_not_found")
    visitor.auth.sign_out()
    assert ask(session.access_token) == (403, "session_not_found")
    admin.auth.admin.delete_user(session.user.id)
    assert ask(session.access_token) == (403, "user_not_found")


def test_times_of_users_are_written_with_a_z(gateway: Gateway, http: httpx.Client, email: str) -> None:
    headers = {"apikey": gateway.settings.secret_key}
    users = http.get("/auth/v1/admin/users", params={"per_page": 1000}, headers=headers).json()["users"]
    user = next(user for user in users if user["email"] == email)
    times = [user["created_at"], user["updated_at"], user["email_confirmed_at"], user["identities"][0]["created_at"]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", time) for time in times), times
    assert "last_sign_in_at" not in user


@pytest.mark.parametrize("path", ["/auth/v1/nowhere", "/auth/v1/admin/nowhere", "/auth/v1/"])
def test_an_unknown_path_of_auth_is_404_as_json(gateway: Gateway, http: httpx.Client, path: str) -> None:
    for method in ("GET", "POST"):
        answer = http.request(method, path, headers={"apikey": gateway.settings.secret_key})
        assert answer.status_code == 404
        assert answer.json()["code"] == 404, answer.text
