"""The audit log: who did what, for admins to read and nobody to change; and the last admin, who stays."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from .conftest import Person, Workspace


def new_run(workspace: Workspace, headers: dict[str, str], **fields: Any) -> dict[str, Any]:
    body = {"name": f"run {secrets.token_hex(4)}", "environment": "x"} | fields
    made = workspace.http.post(
        "/rest/v1/training_runs", headers=headers | {"Prefer": "return=representation"}, json=body
    )
    assert made.status_code == 201, made.text
    row: dict[str, Any] = made.json()[0]
    return row


def new_rollouts(workspace: Workspace, headers: dict[str, str], count: int, **fields: Any) -> list[str]:
    task = {"description": f"a task {secrets.token_hex(4)}", "external_id": secrets.token_hex(6), "environment": "x"}
    made = workspace.http.post("/rest/v1/tasks", headers=headers | {"Prefer": "return=representation"}, json=task)
    assert made.status_code == 201, made.text
    request = {"task_id": made.json()[0]["id"], "attempts": count, "agent": "noop"} | fields
    return [row["id"] for row in workspace.done(headers, "request_rollouts", request=request)["rollouts"]]


def test_an_entry_says_who_did_it_and_with_what(workspace: Workspace, stack: Any, editor: Person) -> None:
    key = workspace.key(editor, name="gpu-box")
    actors: list[tuple[dict[str, str], tuple[str, str | None, str | None]]] = [
        (editor.headers, ("member", editor.id, None)),
        ({"apikey": key["key"]}, ("key", editor.id, "gpu-box")),
        (workspace.secret, ("secret_key", None, None)),
    ]
    for headers, expected in actors:
        run = new_run(workspace, editor.headers)
        workspace.http.patch(
            f"/rest/v1/training_runs?id=eq.{run['id']}", headers=headers, json={"visibility": "public"}
        )
        workspace.http.delete(f"/rest/v1/training_runs?id=eq.{run['id']}", headers=headers)
        deleted, changed = workspace.entries(subject_id=run["id"])
        assert (deleted["action"], changed["action"]) == ("run.deleted", "run.visibility_changed")
        assert changed["details"] == {"from": "private", "to": "public"}
        for entry in (deleted, changed):
            assert (entry["actor_kind"], entry["actor_id"], entry["key_name"]) == expected
            assert entry["subject_name"] == run["name"]
    run = new_run(workspace, editor.headers)
    with psycopg.connect(stack.database_url) as connection:
        connection.execute("delete from public.training_runs where id = %s", [run["id"]])
    assert workspace.entries(subject_id=run["id"])[0]["actor_kind"] == "system"


def test_what_is_asked_of_the_queue_is_noted_once_for_a_request(workspace: Workspace, editor: Person) -> None:
    ids = new_rollouts(workspace, editor.headers, 3)
    workspace.done(editor.headers, "cancel_rollouts", rollout_ids=ids)
    workspace.done(editor.headers, "retry_rollouts", rollout_ids=ids)
    workspace.done(editor.headers, "delete_rollouts", rollout_ids=ids)
    entries = workspace.entries(actor_id=editor.id, subject="rollouts")
    assert [entry["action"] for entry in entries] == [
        "rollout.deleted",
        "rollout.retried",
        "rollout.cancelled",
        "rollout.requested",
    ]
    assert all(entry["details"]["count"] == 3 and set(entry["details"]["ids"]) == set(ids) for entry in entries)


def test_a_repeated_request_is_noted_once(workspace: Workspace, editor: Person) -> None:
    task = {"description": "t", "external_id": secrets.token_hex(6), "environment": "x"}
    made = workspace.http.post(
        "/rest/v1/tasks", headers=editor.headers | {"Prefer": "return=representation"}, json=task
    ).json()[0]
    for _ in range(2):
        workspace.done(
            editor.headers,
            "request_rollouts",
            request={"task_id": made["id"], "agent": "noop"},
            request_id="0192f0c1-7a10-7c3e-9d55-" + made["id"][-12:],
        )
    assert len(workspace.entries(actor_id=editor.id, action="rollout.requested")) == 1


def test_jobs_and_runs_that_are_launched_and_stopped_are_noted(workspace: Workspace, editor: Person) -> None:
    run = new_run(workspace, editor.headers, algorithm="ppo")
    job = workspace.done(editor.headers, "request_job", run_id=run["id"], config={"backend": "local"})["job"]
    workspace.done(editor.headers, "stop_jobs", job_ids=[job["id"]])
    workspace.done(editor.headers, "retry_job", job_id=job["id"])
    workspace.done(editor.headers, "stop_run", run_id=run["id"])
    entries = workspace.entries(actor_id=editor.id)
    assert [entry["action"] for entry in entries[:4]] == ["run.stopped", "job.retried", "job.stopped", "job.launched"]


def test_deleting_a_run_is_one_entry_however_much_hangs_on_it(workspace: Workspace, editor: Person) -> None:
    run = new_run(workspace, editor.headers)
    rollouts = [{"training_run_id": run["id"], "episode_number": n, "environment": "x"} for n in range(20)]
    assert workspace.http.post("/rest/v1/rollouts", headers=editor.headers, json=rollouts).status_code == 201
    workspace.http.delete(
        f"/rest/v1/rollouts?training_run_id=eq.{run['id']}&episode_number=eq.0", headers=editor.headers
    )
    workspace.http.delete(f"/rest/v1/training_runs?id=eq.{run['id']}", headers=editor.headers)
    actions = [entry["action"] for entry in workspace.entries(actor_id=editor.id)]
    assert actions == ["run.deleted", "rollout.deleted", "sign_in.succeeded"]


def test_an_override_is_noted(workspace: Workspace, editor: Person) -> None:
    rollout = {"episode_number": 0, "environment": "x", "status": "failed"}
    made = workspace.http.post(
        "/rest/v1/rollouts", headers=editor.headers | {"Prefer": "return=representation"}, json=rollout
    ).json()[0]
    workspace.done(editor.headers, "override_validation", rollout_id=made["id"], verdict="pass", reason="it did it")
    [entry] = workspace.entries(subject_id=made["id"], action="verdict.overridden")
    assert (entry["actor_id"], entry["details"]["verdict"]) == (editor.id, "pass")


def test_sign_ins_are_noted_and_failures_coarsely(workspace: Workspace, editor: Person) -> None:
    assert len(workspace.entries(action="sign_in.succeeded", actor_id=editor.id)) == 1, "the fixture's"
    for _ in range(3):
        assert workspace.sign_in(editor.email, "a wrong password").status_code == 400
    [failure] = workspace.entries(action="sign_in.failed", subject_id=editor.id)
    assert (failure["actor_kind"], failure["actor_id"]) == ("system", None), "nobody knows who it was"
    stranger = workspace.person()
    workspace.sign_in(stranger.email, "a wrong password")
    assert workspace.entries(subject_id=stranger.id) == workspace.entries(actor_id=stranger.id) == []


def test_members_that_come_change_and_go_are_noted(workspace: Workspace, admin: Person) -> None:
    person = workspace.person()
    member = f"/rest/v1/members?user_id=eq.{person.id}"
    workspace.http.post("/rest/v1/members", headers=admin.headers, json={"user_id": person.id, "role": "viewer"})
    workspace.http.patch(member, headers=admin.headers, json={"role": "editor"})
    workspace.http.patch(member, headers=admin.headers, json={"display_name": "Grace"})
    workspace.http.delete(member, headers=admin.headers)
    entries = workspace.entries(subject_id=person.id)
    assert [entry["action"] for entry in entries] == ["member.removed", "member.role_changed", "member.added"]
    assert {entry["actor_id"] for entry in entries} == {admin.id}
    assert (entries[0]["subject_name"], entries[1]["details"]) == ("Grace", {"from": "viewer", "to": "editor"})


def test_a_member_whose_account_is_deleted_is_still_named(workspace: Workspace) -> None:
    person = workspace.person("viewer")
    assert workspace.http.delete(f"/auth/v1/admin/users/{person.id}", headers=workspace.secret).status_code == 200
    [removed] = workspace.entries(subject_id=person.id, action="member.removed")
    assert (removed["subject_name"], removed["actor_kind"]) == (person.email, "secret_key")


def test_a_member_cannot_be_turned_into_another(workspace: Workspace, admin: Person) -> None:
    member, stranger = workspace.person("viewer"), workspace.person()
    place = f"/rest/v1/members?user_id=eq.{member.id}"
    for headers in (admin.headers, workspace.secret):
        answer = workspace.http.patch(place, headers=headers, json={"user_id": stranger.id, "role": "viewer"})
        assert answer.status_code == 400, "nothing would tell that one went and the other came"
    assert workspace.entries(subject_id=stranger.id) == []


def test_the_log_is_admins_to_read_and_nobodys_to_change(workspace: Workspace, admin: Person, editor: Person) -> None:
    assert workspace.rows(admin.headers, "audit_log?limit=1")
    for person in (editor, workspace.person("viewer"), workspace.person()):
        assert workspace.rows(person.headers, "audit_log?limit=1") == []
    assert workspace.http.get("/rest/v1/audit_log", headers=workspace.publishable).status_code == 401
    for headers in (admin.headers, workspace.secret):
        for method, body in (("PATCH", {"action": "nothing"}), ("DELETE", None), ("POST", {"action": "x"})):
            query = "" if method == "POST" else "?id=not.is.null"
            answer = workspace.http.request(method, f"/rest/v1/audit_log{query}", headers=headers, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "42501")


# The last admin, on a database of their own: the session's has others.


@pytest.fixture
def admins(workspace: Workspace, stack: Any) -> Any:
    """Two admins in a workspace that, for the length of the test, has no other."""
    people = [workspace.person("editor") for _ in range(2)]
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        others = connection.execute("select user_id from public.members where role = 'admin'").fetchall()
        ids = [person.id for person in people]
        connection.execute("update public.members set role = 'admin' where user_id = any (%s)", [ids])
        former = [row[0] for row in others]
        connection.execute("update public.members set role = 'viewer' where user_id = any (%s)", [former])
        yield people
        connection.execute("update public.members set role = 'admin' where user_id = any (%s)", [former])


def test_the_last_admin_is_neither_removed_nor_demoted(workspace: Workspace, admins: list[Person]) -> None:
    first, last = admins
    path = "/rest/v1/members?user_id=eq."
    assert workspace.http.patch(f"{path}{first.id}", headers=last.headers, json={"role": "viewer"}).status_code == 204
    attempts = [
        workspace.http.patch(f"{path}{last.id}", headers=last.headers, json={"role": "editor"}),
        workspace.http.delete(f"{path}{last.id}", headers=last.headers),
        workspace.http.delete(f"{path}{last.id}", headers=workspace.secret),
    ]
    assert [attempt.json()["code"] for attempt in attempts] == ["OM409"] * 3
    assert "make somebody else an admin first" in attempts[0].text
    assert not workspace.http.delete(f"/auth/v1/admin/users/{last.id}", headers=workspace.secret).is_success
    assert workspace.rows(last.headers, f"members?user_id=eq.{last.id}")[0]["role"] == "admin"


def test_two_admins_who_demote_each_other_at_once_leave_one(workspace: Workspace, admins: list[Person]) -> None:
    first, second = admins

    def demote(actor: Person, other: Person) -> httpx.Response:
        path = f"/rest/v1/members?user_id=eq.{other.id}"
        return workspace.http.patch(path, headers=actor.headers, json={"role": "viewer"})

    for _ in range(5):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(demote, (first, second), (second, first)))
        left = workspace.rows(workspace.secret, "members?role=eq.admin&select=user_id")
        assert len(left) == 1
        both = f"members?user_id=in.({first.id},{second.id})"
        assert workspace.http.patch(f"/rest/v1/{both}", headers=workspace.secret, json={"role": "admin"}).is_success
