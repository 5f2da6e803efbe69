"""Row level security, with the claims that policies read."""

from __future__ import annotations

import psycopg
import pytest
from postgrest.exceptions import APIError
from supabase import Client

pytestmark = pytest.mark.usefixtures("empty_tables")

STRANGER = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


def user_id(client: Client) -> str:
    response = client.auth.get_user()
    assert response is not None
    return response.user.id


def test_a_member_reads_and_writes_what_the_policies_give(admin: Client, member: Client, anon: Client) -> None:
    mine = user_id(member)
    member.table("notes").insert({"id": 1, "owner": mine, "body": "mine"}).execute()
    admin.table("notes").insert({"id": 2, "owner": STRANGER, "body": "another's"}).execute()
    assert [row["id"] for row in member.table("notes").select("id").execute().data] == [1]
    assert [row["id"] for row in member.table("visible_notes").select("id").execute().data] == [1]
    assert len(admin.table("notes").select("id").execute().data) == 2, "the secret key bypasses policies"
    assert anon.table("notes").select("id").execute().data == []


def test_a_row_the_policies_refuse_is_403_and_not_stored(member: Client, sql: psycopg.Connection) -> None:
    with pytest.raises(APIError) as caught:
        member.table("notes").insert({"id": 1, "owner": STRANGER, "body": "forged"}).execute()
    assert caught.value.code == "42501"
    assert sql.execute("select count(*) from public.notes").fetchone() == (0,)


def test_policies_and_functions_read_the_callers_claims(member: Client) -> None:
    seen = member.rpc("who_am_i", {}).execute().data
    assert (seen["user"], seen["role"], seen["uid"]) == ("authenticated", "authenticated", user_id(member))
    assert seen["claims"]["email"].endswith("@example.com")


def test_nothing_is_granted_that_no_migration_granted(anon: Client, sql: psycopg.Connection) -> None:
    sql.execute("create table public.ungranted (id integer); alter table public.ungranted enable row level security")
    try:
        granted = sql.execute(
            "select count(*) from information_schema.role_table_grants"
            " where table_name = 'ungranted' and grantee in ('anon', 'authenticated', 'service_role')"
        ).fetchone()
        anon.table("notes").select("id").execute()
        assert granted == (0,)
    finally:
        sql.execute("drop table public.ungranted")


def test_the_storage_helpers_of_policies_exist(sql: psycopg.Connection) -> None:
    query = "select storage.foldername('a/b/c.txt'), storage.filename('a/b/c.txt'), storage.extension('a/b/c.txt')"
    assert sql.execute(query).fetchone() == (["a", "b"], "c.txt", "txt")
