"""Which keys open what: opaque and JWT ones, right and wrong ones."""

from __future__ import annotations

import time

import httpx
import pytest
from supabase import Client, create_client

from .process import Gateway

pytestmark = pytest.mark.usefixtures("empty_tables")


def role(client: Client) -> str:
    return str(client.rpc("who_am_i", {}).execute().data["user"])


def test_the_older_jwt_keys_work_like_the_opaque_ones(gateway: Gateway) -> None:
    for name in ("anon", "service_role"):
        key = gateway.settings.jwt(role=name, iss="supabase")
        assert role(create_client(gateway.url, key)) == name
    legacy = create_client(gateway.url, gateway.settings.jwt(role="service_role"))
    legacy.table("authors").insert({"name": "by a JWT key"}).execute()
    assert legacy.storage.list_buckets() is not None
    assert legacy.auth.admin.list_users() is not None


def test_a_jwt_key_as_token_beside_another_key_decides_the_role(gateway: Gateway, http: httpx.Client) -> None:
    headers = {
        "apikey": gateway.settings.publishable_key,
        "Authorization": f"Bearer {gateway.settings.jwt(role='service_role')}",
    }
    answer = http.post("/rest/v1/rpc/who_am_i", json={}, headers=headers)
    assert answer.json()["user"] == "service_role"


def test_a_token_that_names_no_role_is_401(gateway: Gateway, http: httpx.Client) -> None:
    token = gateway.settings.jwt(role="nobody_like_that")
    headers = {"apikey": gateway.settings.publishable_key, "Authorization": f"Bearer {token}"}
    answer = http.get("/rest/v1/authors", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "22023")


def wrong_keys(gateway: Gateway) -> list[str]:
    expired = gateway.settings.jwt(role="service_role", exp=int(time.time()) - 10)
    forged = gateway.settings.jwt(role="service_role")[:-4] + "AAAA"
    unsigned = "eyJhbGciOiJub25lIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIn0."
    return ["sb_secret_wrong", gateway.settings.secret_key + "x", expired, forged, unsigned]


@pytest.mark.parametrize("path", ["/rest/v1/authors", "/auth/v1/settings", "/storage/v1/bucket"])
def test_a_wrong_or_missing_key_is_401(gateway: Gateway, http: httpx.Client, path: str) -> None:
    for key in wrong_keys(gateway):
        for headers in ({"apikey": key}, {"apikey": key, "Authorization": f"Bearer {key}"}):
            assert http.get(path, headers=headers).status_code == 401, key
    for headers in ({}, {"apikey": ""}):
        answer = http.get(path, headers=headers)
        # Hosted Storage has no gateway before it that asks for a key: it misses a token itself, in its own way.
        expected = (400, "Invalid Compact JWS") if "storage" in path else (401, answer.json().get("message"))
        assert (answer.status_code, answer.json().get("message")) == expected


def test_the_key_may_stand_in_the_query(gateway: Gateway, http: httpx.Client) -> None:
    assert http.get("/rest/v1/authors", params={"apikey": gateway.settings.publishable_key}).status_code == 200


def test_a_browser_may_not_use_the_secret_key(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key, "User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
    assert http.get("/rest/v1/authors", headers=headers).status_code == 401
