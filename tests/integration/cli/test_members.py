"""`openmanus-rl members`: accounts made, roles given and taken, on the real Auth API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from openmanus_rl.utils.supabase_db import MemberManager

SignIn = Callable[[str, str], str]


@pytest.fixture
def email() -> str:
    return f"{uuid4().hex}@example.org"


@pytest.fixture
def sign_in(stack: Any) -> SignIn:
    """Sign in as a user would, and return who the server says it is."""

    def ask(address: str, password: str) -> str:
        answer = httpx.post(
            f"{stack.url}/auth/v1/token",
            params={"grant_type": "password"},
            headers={"apikey": stack.publishable_key},
            json={"email": address, "password": password},
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["user"]["id"])

    return ask


def test_a_new_address_gets_an_account_that_can_sign_in(cli: Any, email: str, sign_in: SignIn) -> None:
    added = cli("members", "add", email, "--role", "editor", "--display-name", "Ada", "--json").json
    assert added["account_created"] is True
    assert added["role"] == "editor"
    assert sign_in(email, added["password"]) == added["user_id"]


def test_a_given_password_is_taken_and_not_shown(cli: Any, email: str, sign_in: SignIn) -> None:
    done = cli("members", "add", email, "--password", "correct horse")
    assert done.code == 0, done.err
    assert "correct horse" not in done.out
    assert sign_in(email, "correct horse")


def test_a_generated_password_is_shown_to_whoever_asked(cli: Any, email: str, sign_in: SignIn) -> None:
    done = cli("members", "add", email)
    password = done.out.strip().splitlines()[-1].rpartition(" ")[2]
    assert sign_in(email, password)


def test_a_member_is_listed_changed_removed_and_added_again_by_id(cli: Any, email: str) -> None:
    cli("members", "add", f"another-admin-{email}", "--role", "admin")  # The last one could not be removed.
    user_id = cli("members", "add", email, "--json").json["user_id"]
    listed = {row["user_id"]: row for row in cli("members", "list", "--json").json}
    assert (listed[user_id]["email"], listed[user_id]["role"]) == (email, "viewer")
    assert cli("members", "set-role", email.upper(), "admin").code == 0
    assert MemberManager.get_member(user_id)["role"] == "admin"
    assert email in cli("members", "list").out

    assert cli("members", "remove", email).code == 0
    assert MemberManager.find_member(user_id) is None
    again = cli("members", "add", user_id, "--role", "editor", "--json").json
    assert again["account_created"] is False
    assert again["password"] is None
    assert MemberManager.get_member(user_id)["role"] == "editor"


def test_adding_a_member_twice_is_refused_and_leaves_the_role(cli: Any, email: str) -> None:
    user_id = cli("members", "add", email, "--role", "admin", "--json").json["user_id"]
    done = cli("members", "add", email, "--role", "viewer")
    assert done.code == 1
    assert "set-role" in done.message
    assert MemberManager.get_member(user_id)["role"] == "admin"


def test_the_password_of_an_account_that_is_there_is_not_changed(cli: Any, email: str, sign_in: SignIn) -> None:
    cli("members", "add", email, "--password", "the first one")
    cli("members", "remove", email)
    done = cli("members", "add", email, "--password", "another one")
    assert done.code == 2
    assert "--password" in done.message
    assert sign_in(email, "the first one")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("add", "not-an-address"), 2, "neither an email address nor a user id"),
        (("add", "new@example.org", "--role", "king"), 2, "viewer, editor, admin"),
        (("add", "new@example.org", "--password", "short"), 2, "--password"),
        (("add", "00000000-0000-4000-8000-000000000000"), 1, "not found"),
        (("remove", "nobody@example.org"), 1, "is not a member"),
        (("set-role", "nobody@example.org", "admin"), 1, "is not a member"),
        (("set-role", "nobody@example.org"), 2, "Missing argument"),
    ],
)
def test_bad_input_is_refused_and_makes_no_account(cli: Any, arguments: tuple[str, ...], code: int, named: str) -> None:
    done = cli("members", *arguments)
    assert done.code == code, done.message
    assert named in done.message
    assert "new@example.org" not in cli("members", "list").out
