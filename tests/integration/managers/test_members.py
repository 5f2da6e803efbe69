"""Members, and what acting as one means, on a real database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from supabase import create_client

from openmanus_rl.errors import ForbiddenError, InvalidInput, NotFoundError
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import MemberManager, TrainingRunManager


@pytest.fixture
def sign_up(stack: Any) -> Callable[[], tuple[str, str]]:
    """Return a function that signs up someone and returns the user's id and token."""

    def make() -> tuple[str, str]:
        login = {"email": f"{uuid4()}@example.com", "password": "correct horse battery"}
        admin = create_client(stack.url, stack.secret_key)
        admin.auth.admin.create_user({**login, "email_confirm": True})
        session = create_client(stack.url, stack.publishable_key).auth.sign_in_with_password(login)  # type: ignore[arg-type]
        assert session.user is not None
        assert session.session is not None
        return session.user.id, session.session.access_token

    return make


def test_a_members_role_is_saved_changed_and_ended(client: Client, sign_up: Callable[[], tuple[str, str]]) -> None:
    members = MemberManager.using(client)
    user_id, _ = sign_up()

    members.save_member(user_id, "viewer", display_name="Ada")
    changed = members.save_member(user_id, "editor")

    assert (changed["role"], changed["display_name"]) == ("editor", "Ada")
    assert members.get_member(user_id) == changed
    assert user_id in [member["user_id"] for member in members.list_members(role="editor")]
    members.remove_member(user_id)
    assert members.find_member(user_id) is None
    with pytest.raises(NotFoundError):
        members.remove_member(user_id)


def test_a_member_must_have_an_account_and_a_known_role(client: Client, sign_up: Callable[[], tuple[str, str]]) -> None:
    members = MemberManager.using(client)

    with pytest.raises(NotFoundError) as unknown:
        members.save_member(new_id(), "viewer")
    assert unknown.value.field == "user_id"
    with pytest.raises(InvalidInput):
        members.save_member(sign_up()[0], "emperor")  # type: ignore[arg-type]


def test_an_editor_writes_its_own_runs_and_nobody_elses(
    client: Client, run: Row, sign_up: Callable[[], tuple[str, str]]
) -> None:
    user_id, token = sign_up()
    MemberManager.using(client).save_member(user_id, "editor")
    own = TrainingRunManager.using(client.as_user(token))

    made = own.create_run("mine")

    assert made["owner_id"] == user_id
    assert own.get_run(run["id"])["name"] == "a run"
    with pytest.raises(ForbiddenError):
        own.update_run(run["id"], name="stolen")


def test_someone_who_merely_signed_up_sees_nothing(
    client: Client, run: Row, sign_up: Callable[[], tuple[str, str]]
) -> None:
    stranger = TrainingRunManager.using(client.as_user(sign_up()[1]))

    assert stranger.list_runs().rows == []
    with pytest.raises(NotFoundError):
        stranger.get_run(run["id"])
    with pytest.raises(ForbiddenError):
        stranger.create_run("x")
