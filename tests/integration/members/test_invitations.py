"""Invitations: a link makes one account and one member, once, until it ends."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from .conftest import PASSWORD, Person, Workspace


@pytest.fixture
def email() -> str:
    return f"{secrets.token_hex(6)}@example.org"


def invite(workspace: Workspace, admin: Person, email: str, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = workspace.done(admin.headers, "invite_member", email=email, **options)
    return made


def accept(workspace: Workspace, token: str, password: str = PASSWORD, name: str | None = "Ada") -> httpx.Response:
    body = {"token": token, "name": name, "password": password}
    return workspace.http.post("/functions/v1/members/accept", headers=workspace.publishable, json=body)


def look(workspace: Workspace, token: str) -> dict[str, Any]:
    found: dict[str, Any] = workspace.done(workspace.publishable, "find_invitation", token=token)
    return found


def test_a_link_makes_an_account_and_a_member(workspace: Workspace, admin: Person, email: str) -> None:
    made = invite(workspace, admin, email, role="editor")
    found = look(workspace, made["token"])
    assert (found["state"], found["email"], found["role"], found["has_account"]) == ("open", email, "editor", False)
    joined = accept(workspace, made["token"])
    assert joined.status_code == 200, joined.text
    assert (joined.json()["email"], joined.json()["role"]) == (email, "editor")
    session = workspace.session(email)
    [member] = workspace.rows(session, f"members?user_id=eq.{joined.json()['user_id']}")
    assert (member["role"], member["display_name"]) == ("editor", "Ada")
    [row] = workspace.rows(admin.headers, f"invitations?id=eq.{made['id']}")
    assert (row["accepted_by"], row["invited_by"]) == (member["user_id"], admin.id)
    [entry] = workspace.entries(action="invitation.accepted", subject_id=made["id"])
    assert (entry["actor_kind"], entry["actor_id"], entry["actor_name"]) == ("member", member["user_id"], "Ada")


def test_a_link_works_once(workspace: Workspace, admin: Person, email: str) -> None:
    token = invite(workspace, admin, email)["token"]
    assert accept(workspace, token).status_code == 200
    again = accept(workspace, token)
    assert (again.status_code, "used already" in again.text) == (409, True)
    found = look(workspace, token)
    assert (found["state"], found["email"], found["role"]) == ("used", None, None)


def test_many_who_accept_at_once_make_one_account(workspace: Workspace, admin: Person, email: str) -> None:
    token = invite(workspace, admin, email, role="editor")["token"]
    with ThreadPoolExecutor(6) as pool:
        passwords = [f"password number {n}" for n in range(6)]
        answers = list(pool.map(lambda password: accept(workspace, token, password), passwords))
    won = [n for n, answer in enumerate(answers) if answer.status_code == 200]
    assert len(won) == 1, [answer.text for answer in answers]
    assert {answer.status_code for answer in answers} <= {200, 403, 409, 429}
    assert workspace.sign_in(email, passwords[won[0]]).status_code == 200
    users = workspace.http.get("/auth/v1/admin/users?per_page=1000", headers=workspace.secret).json()["users"]
    assert [user["email"] for user in users].count(email) == 1


def test_inviting_again_replaces_the_link(workspace: Workspace, admin: Person, email: str) -> None:
    first, second = (invite(workspace, admin, email, role=role)["token"] for role in ("admin", "viewer"))
    assert look(workspace, first)["state"] == "revoked"
    refused = accept(workspace, first)
    assert (refused.status_code, "ask an admin for a new one" in refused.text) == (409, True)
    assert accept(workspace, second).json()["role"] == "viewer"


def test_an_invitation_ends_when_it_is_revoked_or_its_time_is_over(
    workspace: Workspace, stack: Any, admin: Person, email: str
) -> None:
    revoked, expired = invite(workspace, admin, email), invite(workspace, admin, f"x{email}")
    workspace.done(admin.headers, "revoke_invitation", invitation_id=revoked["id"])
    with psycopg.connect(stack.database_url) as connection:
        connection.execute("update public.invitations set expires_at = now() where id = %s", [expired["id"]])
    for made, state in ((revoked, "revoked"), (expired, "expired")):
        assert look(workspace, made["token"])["state"] == state
        refused = accept(workspace, made["token"])
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        assert state in refused.json()["error"]["message"]
    users = workspace.http.get("/auth/v1/admin/users?per_page=1000", headers=workspace.secret).json()["users"]
    assert not {email, f"x{email}"} & {user["email"] for user in users}, "no account is made"


def test_an_accepted_invitation_cannot_be_revoked(workspace: Workspace, admin: Person, email: str) -> None:
    made = invite(workspace, admin, email)
    accept(workspace, made["token"])
    answer = workspace.rpc(admin.headers, "revoke_invitation", invitation_id=made["id"])
    assert answer.json()["code"] == "OM409"


@pytest.mark.parametrize("token", ["", "x", "0" * 43, "'; drop table members --", "\u202e", "a\\0"])
def test_what_is_no_token_is_told_so(workspace: Workspace, token: str) -> None:
    assert look(workspace, token)["state"] == "unknown"
    assert accept(workspace, token).status_code in (400, 409)


def test_an_account_that_is_there_is_taken_over_by_no_link(workspace: Workspace, admin: Person) -> None:
    stranger = workspace.person()
    token = invite(workspace, admin, stranger.email.upper(), role="editor")["token"]
    assert look(workspace, token)["has_account"] is True
    refused = accept(workspace, token, "not the password")
    assert (refused.status_code, "has an account already" in refused.text) == (403, True)
    assert workspace.sign_in(stranger.email, "not the password").status_code == 400
    assert look(workspace, token)["state"] == "open"
    joined = accept(workspace, token, PASSWORD)
    assert (joined.status_code, joined.json()["user_id"]) == (200, stranger.id)


def test_a_member_is_not_invited_again(workspace: Workspace, admin: Person, editor: Person) -> None:
    answer = workspace.rpc(admin.headers, "invite_member", email=f" {editor.email.upper()} ", role="admin")
    assert (answer.json()["code"], "is a member already" in answer.text) == ("OM409", True)


def test_an_invitation_that_was_made_before_one_became_a_member_changes_no_role(
    workspace: Workspace, admin: Person
) -> None:
    person = workspace.person()
    token = invite(workspace, admin, person.email, role="admin")["token"]
    member = {"user_id": person.id, "role": "viewer"}
    assert workspace.http.post("/rest/v1/members", headers=admin.headers, json=member).status_code == 201
    assert accept(workspace, token).status_code == 409
    assert workspace.rows(person.headers, f"members?user_id=eq.{person.id}")[0]["role"] == "viewer"


def test_only_admins_invite_and_see_invitations(
    workspace: Workspace, admin: Person, editor: Person, email: str
) -> None:
    made = invite(workspace, admin, email)
    for headers in (editor.headers, workspace.person("viewer").headers, workspace.person().headers):
        assert workspace.rpc(headers, "invite_member", email=email, role="viewer").json()["code"] == "OM403"
        assert workspace.rpc(headers, "revoke_invitation", invitation_id=made["id"]).json()["code"] == "OM403"
        assert workspace.rows(headers, "invitations") == []
    for function in ("invite_member", "revoke_invitation", "redeem_invitation"):
        assert workspace.rpc(workspace.publishable, function, email=email).status_code in (401, 404)
    for headers in (admin.headers, editor.headers):
        answer = workspace.rpc(headers, "redeem_invitation", token=made["token"], user_id=editor.id)
        assert answer.json()["code"] == "42501"
    assert look(workspace, made["token"])["state"] == "open"


@pytest.mark.parametrize("text", ["", "nobody", "a@b c", "a@b\n", "a@@b", "@", "a@b" + "c" * 300, "a\u0000@b.org"])
def test_what_is_no_address_is_not_invited(workspace: Workspace, admin: Person, text: str) -> None:
    answer = workspace.rpc(admin.headers, "invite_member", email=text)
    assert answer.status_code == 400 or text == "a@b\n", answer.text


def test_an_address_is_the_same_however_it_is_written(workspace: Workspace, admin: Person) -> None:
    mark = secrets.token_hex(6)
    composed, decomposed = f"JOSÉ{mark}@Example.org", f"jose\u0301{mark}@example.ORG "
    first, second = (invite(workspace, admin, address) for address in (composed, decomposed))
    assert first["email"] == second["email"] == f"josé{mark}@example.org"
    assert look(workspace, first["token"])["state"] == "revoked"
    assert accept(workspace, second["token"]).status_code == 200
    assert workspace.sign_in(f"JOSÉ{mark}@example.org", PASSWORD).status_code == 200


@pytest.mark.parametrize("password", ["short", "é" * 40, ""])
def test_a_bad_password_is_told_and_uses_nothing_up(
    workspace: Workspace, admin: Person, email: str, password: str
) -> None:
    token = invite(workspace, admin, email)["token"]
    refused = accept(workspace, token, password)
    assert (refused.status_code, "password" in refused.text) == (400, True)
    assert accept(workspace, token).status_code == 200


def test_only_digests_of_links_are_kept(workspace: Workspace, stack: Any, admin: Person, email: str) -> None:
    token = invite(workspace, admin, email)["token"]
    with psycopg.connect(stack.database_url) as connection:
        for table in ("public.invitations", "internal.invitation_digests", "public.audit_log"):
            found = connection.execute(f"select 1 from {table} t where t::text like %s", [f"%{token}%"])  # type: ignore[arg-type]
            assert found.fetchone() is None
        row = connection.execute(
            "select digest from internal.invitation_digests order by invitation_id desc"
        ).fetchone()
    assert row is not None
    assert look(workspace, row[0])["state"] == "unknown"


def test_an_admin_makes_a_sign_in_link_for_who_forgot_the_password(
    workspace: Workspace, admin: Person, editor: Person
) -> None:
    path = f"/functions/v1/members/{editor.id}/link"
    for person in (editor, workspace.person("viewer"), workspace.person()):
        assert workspace.http.post(path, headers=person.headers).status_code == 403
    assert workspace.http.post(path, headers=workspace.publishable).status_code == 401
    made = workspace.http.post(path, headers=admin.headers)
    assert made.status_code == 200, made.text
    body = {"type": "magiclink", "token_hash": made.json()["token_hash"]}
    session = workspace.http.post("/auth/v1/verify", headers=workspace.publishable, json=body).json()
    assert session["user"]["id"] == editor.id
    headers = workspace.publishable | {"Authorization": f"Bearer {session['access_token']}"}
    changed = workspace.http.put("/auth/v1/user", headers=headers, json={"password": "a new password"})
    assert changed.status_code == 200, changed.text
    assert workspace.sign_in(editor.email, "a new password").status_code == 200
    [entry] = workspace.entries(action="link.created", subject_id=editor.id)
    assert entry["actor_id"] == admin.id
    unknown = workspace.http.post(f"/functions/v1/members/{workspace.person().id}/link", headers=admin.headers)
    assert unknown.status_code == 404


def test_an_address_changes_with_the_password_and_is_nobody_elses(workspace: Workspace, editor: Person) -> None:
    def change(**body: str) -> httpx.Response:
        return workspace.http.put("/auth/v1/user", headers=editor.headers, json=body)

    new = f"new-{editor.email}"
    assert change(email=new).json()["error_code"] == "reauthentication_needed"
    assert change(email=new, current_password="wrong one").status_code == 400
    other = workspace.person()
    assert change(email=other.email.upper(), current_password=PASSWORD).json()["error_code"] == "email_exists"
    changed = change(email=new.upper(), current_password=PASSWORD)
    assert (changed.status_code, changed.json()["email"]) == (200, new)
    assert workspace.sign_in(editor.email, PASSWORD).status_code == 400
    assert workspace.sign_in(new, PASSWORD).status_code == 200
