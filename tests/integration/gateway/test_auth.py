"""Signing up, in and out, and administering users."""

from __future__ import annotations

import secrets

import httpx
import psycopg
import pytest
from supabase import Client, create_client
from supabase_auth.errors import AuthApiError, AuthError

from .process import Gateway


def new_email() -> str:
    return f"user-{secrets.token_hex(6)}@example.com"


@pytest.fixture
def visitor(gateway: Gateway) -> Client:
    return create_client(gateway.url, gateway.settings.publishable_key)


def test_sign_up_sign_in_refresh_and_sign_out(visitor: Client) -> None:
    email = new_email()
    signed_up = visitor.auth.sign_up({"email": email, "password": "password123", "options": {"data": {"team": "a"}}})
    assert signed_up.user is not None
    assert signed_up.session is not None, "no confirmation mail is needed"
    signed_in = visitor.auth.sign_in_with_password({"email": email, "password": "password123"})
    assert signed_in.user is not None
    assert signed_in.user.user_metadata["team"] == "a"
    refreshed = visitor.auth.refresh_session()
    assert refreshed.session is not None
    assert signed_in.session is not None
    assert refreshed.session.refresh_token != signed_in.session.refresh_token
    user = visitor.auth.get_user()
    assert user is not None
    assert user.user.email == email
    visitor.auth.sign_out()
    assert visitor.auth.get_session() is None


def test_wrong_credentials_and_taken_addresses_are_told(visitor: Client) -> None:
    email = new_email()
    visitor.auth.sign_up({"email": email, "password": "password123"})
    with pytest.raises(AuthApiError) as taken:
        visitor.auth.sign_up({"email": email, "password": "password123"})
    assert taken.value.code == "user_already_exists"
    with pytest.raises(AuthApiError) as wrong:
        visitor.auth.sign_in_with_password({"email": email, "password": "not it"})
    assert wrong.value.code == "invalid_credentials"


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
