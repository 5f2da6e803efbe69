"""Members' own keys: they act as their member, with no more rights, until they end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest
from supabase import create_client

from .conftest import Person, Workspace

WAYS = ["apikey", "bearer", "both", "beside the publishable key", "as a parameter"]


def headers_of(workspace: Workspace, key: str, way: str = "apikey") -> dict[str, str]:
    bearer = {"Authorization": f"Bearer {key}"}
    return {
        "apikey": {"apikey": key},
        "bearer": bearer,
        "both": {"apikey": key} | bearer,
        "beside the publishable key": workspace.publishable | bearer,
        "as a parameter": {},
    }[way]


@pytest.mark.parametrize("way", WAYS)
def test_a_key_acts_as_its_member_on_every_api(workspace: Workspace, editor: Person, way: str) -> None:
    key = workspace.key(editor)["key"]
    headers, http = headers_of(workspace, key, way), workspace.http
    params = {"apikey": key} if way == "as a parameter" else {}
    listed = http.get("/rest/v1/members", params=params | {"user_id": f"eq.{editor.id}"}, headers=headers)
    assert [row["role"] for row in listed.json()] == ["editor"]
    assert http.get("/auth/v1/user", params=params, headers=headers).json()["id"] == editor.id
    body = {"episode_number": 0, "environment": "alfworld"}
    begun = http.post("/functions/v1/submit-rollout", params=params, headers=headers, json=body)
    assert begun.status_code == 200, begun.text
    [rollout] = workspace.rows(workspace.secret, f"rollouts?id=eq.{begun.json()['rollout_id']}")
    assert rollout["owner_id"] == editor.id
    path = f"/storage/v1/object/datasets/alfworld/{begun.json()['rollout_id']}.json"
    stored = http.post(path, params=params, headers=headers | {"content-type": "application/json"}, content=b"[]")
    assert stored.status_code == 200, stored.text
    assert http.get(path, params=params, headers=headers).content == b"[]"


def test_supabase_py_works_with_a_key_alone(workspace: Workspace, editor: Person) -> None:
    client = create_client(workspace.stack.url, workspace.key(editor)["key"])
    row = client.table("training_runs").insert({"name": "mine", "environment": "x"}).execute().data[0]
    assert row["owner_id"] == editor.id
    assert client.rpc("list_members", {}).execute().data


def test_realtime_takes_a_key(workspace: Workspace, editor: Person) -> None:
    websockets = pytest.importorskip("websockets")
    key = workspace.key(editor)["key"]
    address = workspace.stack.url.replace("http://", "ws://")

    async def join(with_key: str) -> Any:
        url = f"{address}/realtime/v1/websocket?apikey={with_key}&vsn=1.0.0"
        async with websockets.connect(url, proxy=None) as socket:
            changes = [{"event": "*", "schema": "public", "table": "activity"}]
            payload = {"config": {"postgres_changes": changes}, "access_token": with_key}
            message = {"topic": "realtime:x", "event": "phx_join", "ref": "1", "payload": payload}
            await socket.send(json.dumps(message))
            return json.loads(await socket.recv())["payload"]["status"]

    assert asyncio.run(join(key)) == "ok"
    with pytest.raises(websockets.exceptions.InvalidStatus):
        asyncio.run(join("omrl_" + "x" * 43))


def test_a_live_connection_is_told_that_its_key_was_revoked(workspace: Workspace, editor: Person) -> None:
    websockets = pytest.importorskip("websockets")
    made = workspace.key(editor)
    url = workspace.stack.url.replace("http://", "ws://") + f"/realtime/v1/websocket?apikey={made['key']}&vsn=1.0.0"

    async def listen() -> str:
        async with websockets.connect(url, proxy=None) as socket:
            await socket.send(json.dumps({"topic": "realtime:x", "event": "phx_join", "ref": "1", "payload": {}}))
            assert json.loads(await socket.recv())["payload"]["status"] == "ok"
            workspace.done(editor.headers, "revoke_key", key_id=made["id"])
            told = ""
            async with asyncio.timeout(30):
                while (message := json.loads(await socket.recv()))["event"] != "phx_close":
                    told = message["payload"].get("message", told)
            return told

    assert "was revoked" in asyncio.run(listen())


def test_a_key_of_one_editor_changes_nothing_of_anothers(workspace: Workspace, editor: Person) -> None:
    other = workspace.person("editor")
    run = workspace.http.post(
        "/rest/v1/training_runs",
        headers=other.headers | {"Prefer": "return=representation"},
        json={"name": "theirs", "environment": "x"},
    ).json()[0]
    key = {"apikey": workspace.key(editor)["key"]}
    changed = workspace.http.patch(f"/rest/v1/training_runs?id=eq.{run['id']}", headers=key, json={"name": "mine"})
    deleted = workspace.http.delete(f"/rest/v1/training_runs?id=eq.{run['id']}", headers=key)
    assert (changed.status_code, deleted.status_code) == (204, 204)
    refused = workspace.done(key, "ingest", batch={"training_runs": [{"id": run["id"], "name": "mine"}]})["refused"]
    assert len(refused) == 1
    assert workspace.rows(workspace.secret, f"training_runs?id=eq.{run['id']}")[0]["name"] == "theirs"


def test_a_key_has_the_narrower_of_its_role_and_its_members(workspace: Workspace, admin: Person) -> None:
    person = workspace.person("admin")

    def may(key: str) -> tuple[bool, bool]:
        """Say whether a key may record, and read what only admins may."""
        answer = workspace.rpc({"apikey": key}, "request_rollouts", request={"task_id": "no such task"})
        return "only editors" not in answer.text, bool(workspace.rows({"apikey": key}, "audit_log?limit=1"))

    usual, narrow, wide = (workspace.key(person, **role)["key"] for role in ({}, {"role": "viewer"}, {"role": "admin"}))
    assert [may(key) for key in (usual, narrow, wide)] == [(True, False), (False, False), (True, True)]
    member = f"/rest/v1/members?user_id=eq.{person.id}"
    assert workspace.http.patch(member, headers=admin.headers, json={"role": "editor"}).status_code == 204
    assert [may(key) for key in (usual, narrow, wide)] == [(True, False), (False, False), (True, False)]
    assert workspace.http.patch(member, headers=admin.headers, json={"role": "viewer"}).status_code == 204
    assert [may(key) for key in (usual, narrow, wide)] == [(False, False)] * 3


def test_nobody_makes_a_key_with_more_rights_than_their_own(workspace: Workspace, editor: Person) -> None:
    viewer, stranger = workspace.person("viewer"), workspace.person()
    for person, role in ((editor, "admin"), (viewer, "editor"), (viewer, "admin")):
        answer = workspace.rpc(person.headers, "create_key", name="x", role=role)
        assert answer.json()["code"] == "OM403", answer.text
    for headers in (stranger.headers, workspace.publishable):
        assert workspace.rpc(headers, "create_key", name="x").json()["code"] in ("42501", "OM403")
    for person in (editor, stranger):
        answer = workspace.rpc(person.headers, "create_key", name="x", member_id=viewer.id)
        assert answer.json()["code"] == "OM403", answer.text


def test_a_key_lets_nobody_in_and_makes_no_other(workspace: Workspace, admin: Person) -> None:
    made = workspace.key(admin, role="admin")
    other = workspace.key(admin)
    key = {"apikey": made["key"]}
    stranger = workspace.person()
    for function, arguments in (
        ("create_key", {"name": "another"}),
        ("revoke_key", {"key_id": other["id"]}),
        ("invite_member", {"email": "x@example.org"}),
        ("prepare_sign_in_link", {"member_id": admin.id}),
        ("set_display_name", {"display_name": "x"}),
    ):
        answer = workspace.rpc(key, function, **arguments)
        assert answer.json()["code"] == "OM403", answer.text
        assert "a key may not" in answer.text
    http = workspace.http
    body = {"user_id": stranger.id, "role": "admin"}
    assert http.post("/rest/v1/members", headers=key, json=body).status_code == 403
    patched = http.patch(f"/rest/v1/members?user_id=eq.{admin.id}", headers=key, json={"role": "viewer"})
    assert (patched.status_code, workspace.rows(key, f"members?user_id=eq.{admin.id}")[0]["role"]) == (204, "admin")
    for table in ("member_keys", "invitations", "audit_log"):
        assert http.post(f"/rest/v1/{table}", headers=key, json={}).status_code == 403
        assert http.delete(f"/rest/v1/{table}?id=not.is.null", headers=key).status_code == 403
    link = http.post(f"/functions/v1/members/{admin.id}/link", headers=key)
    assert link.status_code == 403


def test_a_key_has_no_say_in_its_members_account(workspace: Workspace, editor: Person) -> None:
    key = {"apikey": workspace.key(editor)["key"]}
    for method, path in (
        ("PUT", "/auth/v1/user"),
        ("POST", "/auth/v1/logout?scope=global"),
        ("POST", "/auth/v1/token?grant_type=password"),
        ("GET", "/auth/v1/admin/users"),
        ("POST", "/auth/v1/admin/generate_link"),
    ):
        answer = workspace.http.request(method, path, headers=key, json={"email": editor.email, "password": "x" * 9})
        assert answer.status_code == 403, (path, answer.text)
    assert workspace.sign_in(editor.email, "correct horse battery").status_code == 200


def test_a_revoked_key_is_refused_at_once_and_told_so(workspace: Workspace, editor: Person) -> None:
    made = workspace.key(editor)
    key = {"apikey": made["key"]}
    assert workspace.rows(key, "members?limit=1")
    revoked = workspace.done(editor.headers, "revoke_key", key_id=made["id"])
    assert revoked["revoked_at"]
    assert "key" not in revoked
    # At once: the database itself asks. The gateway may take a second to say why.
    at_once = workspace.http.get("/rest/v1/members", headers=key)
    assert at_once.status_code == 401 or at_once.json() == []
    batch = {"training_runs": [{"name": "too late", "environment": "x"}]}
    assert workspace.rpc(key, "ingest", batch=batch).status_code == 401, "as a whole: its sender keeps it"
    time.sleep(1.1)
    for path in ("/rest/v1/members", "/storage/v1/bucket", "/auth/v1/user", "/functions/v1/rollouts"):
        answer = workspace.http.get(path, headers=key)
        assert answer.status_code == 401, path
        assert "was revoked" in answer.text
    assert workspace.done(editor.headers, "revoke_key", key_id=made["id"])["revoked_at"] == revoked["revoked_at"]
    assert len(workspace.entries(action="key.revoked", subject_id=made["id"])) == 1


def test_requests_that_race_with_a_revocation_write_nothing_after_it(workspace: Workspace, editor: Person) -> None:
    made = workspace.key(editor)
    key = {"apikey": made["key"]}

    def write(number: int) -> int:
        body = {"name": f"{made['id']} {number}", "environment": "x"}
        return workspace.http.post("/rest/v1/training_runs", headers=key, json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        before = [pool.submit(write, number) for number in range(20)]
        revoked = pool.submit(workspace.done, editor.headers, "revoke_key", key_id=made["id"])
        after = [future.result() for future in [pool.submit(write, 100 + n) for n in range(40)]]
        ended = revoked.result()["revoked_at"]
        assert {future.result() for future in before} | set(after) <= {201, 401, 403}
    written = workspace.rows(workspace.secret, f"training_runs?name=like.{made['id']}*&select=created_at,name")
    # A statement that had begun before the revocation was committed may end after it, and no other.
    late = datetime.fromisoformat(ended) + timedelta(seconds=1)
    assert all(datetime.fromisoformat(row["created_at"]) < late for row in written)
    assert write(1000) in (401, 403)


def test_a_key_ends_with_its_time_its_member_and_its_account(workspace: Workspace, admin: Person) -> None:
    person, other = workspace.person("editor"), workspace.person("editor")
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    short, removed, deleted = (
        workspace.key(who, **options)["key"]
        for who, options in ((person, {"expires_at": soon}), (person, {}), (other, {}))
    )
    time.sleep(1.2)
    assert "has expired" in workspace.http.get("/rest/v1/members", headers={"apikey": short}).text
    workspace.http.delete(f"/rest/v1/members?user_id=eq.{person.id}", headers=admin.headers)
    workspace.http.delete(f"/auth/v1/admin/users/{other.id}", headers=workspace.secret)
    for key in (removed, deleted):
        assert workspace.http.get("/rest/v1/members", headers={"apikey": key}).status_code == 401
    # Made a member again, the person has none of the former keys.
    body = {"user_id": person.id, "role": "editor"}
    assert workspace.http.post("/rest/v1/members", headers=admin.headers, json=body).status_code == 201
    assert workspace.http.get("/rest/v1/members", headers={"apikey": removed}).status_code == 401


@pytest.mark.parametrize("end", ["the key is revoked", "the member is removed"])
def test_signed_links_and_uploads_under_way_end_with_whoever_began_them(
    workspace: Workspace, editor: Person, end: str
) -> None:
    made = workspace.key(editor)
    key = {"apikey": made["key"]}
    content = {"Content-Type": "application/json"}

    def sign(what: str, name: str) -> dict[str, Any]:
        answer = workspace.http.post(
            f"/storage/v1/{what}/datasets/{made['id']}/{name}", headers=key, json={"expiresIn": 600}
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def store(name: str, chunks: Any) -> int:
        place = f"/storage/v1/object/datasets/{made['id']}/{name}"
        return workspace.http.post(place, headers=key | content, content=chunks).status_code

    def end_it() -> None:
        if end == "the key is revoked":
            workspace.done(editor.headers, "revoke_key", key_id=made["id"])
        else:
            workspace.http.delete(f"/rest/v1/members?user_id=eq.{editor.id}", headers=workspace.secret)

    def slowly() -> Iterator[bytes]:
        yield b"[1,"
        end_it()
        yield b"2]"

    assert store("one.json", b"[1]") == 200
    read = "/storage/v1" + sign("object/sign", "one.json")["signedURL"]
    first, second = ("/storage/v1" + sign("object/upload/sign", name)["url"] for name in ("two.json", "three.json"))
    assert workspace.http.get(read).content == b"[1]"
    assert workspace.http.put(first, headers=content, content=b"[2]").status_code == 200
    assert store("four.json", slowly()) == 400
    assert workspace.http.get(read).status_code == 400
    assert workspace.http.put(second, headers=content, content=b"[3]").status_code == 400
    stored = workspace.http.post(
        "/storage/v1/object/list/datasets", headers=workspace.secret, json={"prefix": made["id"]}
    ).json()
    assert sorted(one["name"] for one in stored) == ["one.json", "two.json"]


def test_whoever_runs_the_server_sees_who_uses_which_key_by_name(workspace: Workspace, editor: Person) -> None:
    made = workspace.key(editor, "gpu-box")
    agent = {"User-Agent": f"trainer {made['id']}"}
    assert workspace.rows({"apikey": made["key"]} | agent, "members?limit=1")
    workspace.done(editor.headers, "revoke_key", key_id=made["id"])
    secret = {"Authorization": f"Bearer {workspace.stack.secret_key}"}
    callers = workspace.http.get("/gateway/status", headers=secret).json()["callers"]
    [seen] = [one for one in callers if one["program"] == agent["User-Agent"]]
    assert (seen["name"], seen["key"], seen["role"]) == (editor.email, "gpu-box", "authenticated")


def test_a_key_may_end_itself(workspace: Workspace, editor: Person) -> None:
    made = workspace.key(editor)
    assert workspace.done({"apikey": made["key"]}, "revoke_key", key_id=made["id"])["revoked_at"]


def test_members_see_their_own_keys_and_admins_all(workspace: Workspace, admin: Person, editor: Person) -> None:
    made, others = workspace.key(editor), workspace.key(workspace.person("viewer"))
    query = f"member_keys?id=in.({made['id']},{others['id']})"
    assert [row["id"] for row in workspace.rows(editor.headers, query)] == [made["id"]]
    assert len(workspace.rows(admin.headers, query)) == 2
    assert workspace.rpc(editor.headers, "revoke_key", key_id=others["id"]).json()["code"] == "OM404"
    assert workspace.done(admin.headers, "revoke_key", key_id=others["id"])["revoked_at"]


def test_the_database_keeps_nothing_that_is_a_key(workspace: Workspace, stack: Any, editor: Person) -> None:
    key = workspace.key(editor)["key"]
    with psycopg.connect(stack.database_url) as connection:
        tables = connection.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables"
            " where schemaname in ('public', 'internal', 'auth')"
        ).fetchall()
        for (table,) in tables:
            found = connection.execute(f"select 1 from {table} t where t::text like %s limit 1", [f"%{key[6:]}%"])  # type: ignore[arg-type]
            assert found.fetchone() is None, table
        row = connection.execute(
            "select digest from internal.key_digests join public.member_keys on id = key_id where prefix = %s",
            [key[:12]],
        ).fetchone()
    assert row is not None
    for guess in (row[0], f"omrl_{row[0]}"):
        assert workspace.http.get("/rest/v1/members", headers={"apikey": guess}).status_code == 401


def test_the_last_use_is_kept_without_a_write_for_each(workspace: Workspace, stack: Any, editor: Person) -> None:
    made = workspace.key(editor)
    query = f"member_keys?id=eq.{made['id']}&select=last_used_at"
    assert workspace.rows(editor.headers, query) == [{"last_used_at": None}]
    for _ in range(3):
        workspace.rows({"apikey": made["key"]}, "members?limit=1")
    [first] = workspace.rows(editor.headers, query)
    assert first["last_used_at"]
    time.sleep(1.1)
    workspace.rows({"apikey": made["key"]}, "members?limit=1")
    assert workspace.rows(editor.headers, query) == [first]
    with psycopg.connect(stack.database_url) as connection:
        connection.execute(
            "update public.member_keys set last_used_at = now() - interval '1 hour' where id = %s", [made["id"]]
        )
    time.sleep(1.1)
    workspace.rows({"apikey": made["key"]}, "members?limit=1")
    assert workspace.rows(editor.headers, query)[0]["last_used_at"] >= first["last_used_at"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "  "},
        {"name": "x" * 201},
        {"name": "x", "role": "owner"},
        {"name": "x", "expires_at": "2020-01-01T00:00:00Z"},
        {"name": "x", "expires_at": "9999-01-01T00:00:00Z"},
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(workspace: Workspace, editor: Person, arguments: dict[str, str]) -> None:
    answer = workspace.rpc(editor.headers, "create_key", **arguments)
    assert (answer.status_code, answer.json()["code"]) == (400, "OM400"), answer.text
    assert workspace.rows(editor.headers, "member_keys") == []


def test_claims_in_a_request_are_not_believed(workspace: Workspace, admin: Person, editor: Person) -> None:
    """Only the gateway writes claims: none of what a client sends becomes one."""
    claims = json.dumps({"role": "service_role", "sub": admin.id})
    forged = {"request.jwt.claims": claims, "X-Request-Jwt-Claims": claims, "role": "service_role", "sub": admin.id}
    key = {"apikey": workspace.key(editor)["key"]}
    assert workspace.rows(key | forged, "audit_log?limit=1") == []
    for function in ("set_config", "note", "use_key", "add_key", "accept", "redeem_invitation"):
        for headers in (key, editor.headers, workspace.publishable):
            assert workspace.rpc(headers, function, setting_name="role", new_value="x").status_code in (401, 403, 404)
    header = {"Accept-Profile": "internal", "Content-Profile": "internal"}
    assert workspace.http.get("/rest/v1/key_digests", headers=admin.headers | header).status_code == 406
    assert workspace.http.get("/rest/v1/key_digests", headers=admin.headers).status_code == 404


def test_no_key_reaches_the_log_of_the_gateway(workspace: Workspace, stack: Any, editor: Person) -> None:
    if not (stack.home / "logs").exists():
        pytest.skip("the stack is not ours, and neither is its log")
    key = workspace.key(editor)["key"]
    for path in ("/rest/v1/rpc/no_such", "/rest/v1/nothing", "/storage/v1/object/x/y", "/functions/v1/none"):
        workspace.http.get(path, params={"apikey": key}, headers={"apikey": key})
        workspace.http.post(path, headers={"apikey": key}, content=b"{")
    logs = b"".join(file.read_bytes() for file in (stack.home / "logs").rglob("*") if file.is_file())
    assert key.encode() not in logs


def test_an_address_of_a_client_that_only_has_a_key_needs_nothing_else(workspace: Workspace, editor: Person) -> None:
    answer = httpx.get(
        f"{workspace.stack.url}/rest/v1/members?limit=1",
        headers={"apikey": workspace.key(editor)["key"], "User-Agent": "Mozilla/5.0"},
        trust_env=False,
    )
    assert answer.status_code == 200
