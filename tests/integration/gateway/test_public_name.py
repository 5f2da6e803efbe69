"""A team's server answers to its public name, and knows who asks although a proxy stands between."""

from __future__ import annotations

import base64
import itertools
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from .process import Gateway, GatewaySettings

PUBLIC = "https://rl.example.org"
HOST = {"Host": "rl.example.org"}
FORWARDED = {**HOST, "X-Forwarded-For": "203.0.113.9"}


@pytest.fixture(scope="module")
def public(settings: GatewaySettings) -> Iterator[httpx.Client]:
    serving = {"PUBLIC_URL": PUBLIC, "GATEWAY_HOST": "0.0.0.0", "TRUSTED_PROXIES": "10.0.0.0/8"}
    with Gateway(replace(settings, serving=serving)) as gateway, httpx.Client(base_url=gateway.url) as client:
        yield client


@pytest.mark.parametrize("host", ["rl.example.org", "RL.example.org", "rl.example.org:443"])
def test_it_answers_to_its_public_name(public: httpx.Client, host: str) -> None:
    assert public.get("/config.json", headers={"Host": host}).json()["supabaseUrl"] == PUBLIC


@pytest.mark.parametrize("host", ["evil.example", "rl.example.org.evil.example", "rl.example.org:8443", "10.0.0.1", ""])
def test_it_answers_to_no_other_name(public: httpx.Client, host: str) -> None:
    answer = public.get("/functions/v1/health", headers={"Host": host})
    assert answer.status_code in (400, 421)
    if answer.status_code == 421:
        assert "answers to rl.example.org only" in answer.text


def test_programs_on_the_machine_use_loopback_and_proxies_must_pass_the_name_on(public: httpx.Client) -> None:
    assert public.get("/functions/v1/health").status_code == 200
    answer = public.get("/functions/v1/health", headers={"X-Forwarded-For": "203.0.113.9"})
    assert answer.status_code == 421
    assert "proxy_set_header Host" in answer.text


@pytest.mark.parametrize("lines", ["", "Host: rl.example.org\r\n", "X-Forwarded-For: 203.0.113.9\r\n"])
def test_what_a_proxy_passes_on_is_not_taken_for_a_program_of_the_machine(public: httpx.Client, lines: str) -> None:
    # HTTP/1.0 needs no Host; a proxy may say nothing of its clients.
    with socket.create_connection((public.base_url.host, public.base_url.port or 0), timeout=10) as connection:
        connection.sendall(f"GET /metrics HTTP/1.0\r\n{lines}\r\n".encode())
        status = connection.makefile("rb").readline().split()[1]
    assert status == {"": b"200", "Host: rl.example.org\r\n": b"401"}.get(lines, b"421")


def test_methods_that_strangers_invent_are_refused_and_make_no_figures_of_their_own(public: httpx.Client) -> None:
    for method in ("FIRST", "SECOND", "TRACE"):
        for path in ("/rest/v1/", "/", "/auth/v1/token"):
            assert public.request(method, path, headers=FORWARDED).status_code == 405, (method, path)
    figures = public.get("/metrics").text
    assert 'method="other",status="405"' in figures
    assert "FIRST" not in figures


def test_figures_that_the_database_does_not_give_are_absent_and_the_others_are_not(public: httpx.Client) -> None:
    for _ in range(2):
        # This database has none of the tables that are counted.
        answer = public.get("/metrics")
        assert answer.status_code == 200
        assert "\nopenmanus_rl_database_up 0\n" in answer.text
        assert "\nopenmanus_rl_realtime_connections 0\n" in answer.text
        assert "\nopenmanus_rl_database_bytes" not in answer.text
        assert "\nopenmanus_rl_rows{" not in answer.text


def test_pages_may_open_sockets_to_the_public_name(public: httpx.Client) -> None:
    policy = public.get("/", headers=HOST).headers["content-security-policy"]
    assert "connect-src 'self' wss://rl.example.org;" in policy


def test_tokens_are_issued_by_the_public_name(public: httpx.Client, settings: GatewaySettings) -> None:
    account = {"email": "named@example.org", "password": "correct horse battery"}
    admin = {"apikey": settings.secret_key, "Authorization": f"Bearer {settings.secret_key}"}
    made = public.post("/auth/v1/admin/users", json=account | {"email_confirm": True}, headers=admin)
    assert made.status_code == 200, made.text
    anon = {**HOST, "apikey": settings.publishable_key}
    session = public.post("/auth/v1/token?grant_type=password", json=account, headers=anon).json()
    payload = session["access_token"].split(".")[1]
    assert _decoded(payload)["iss"] == f"{PUBLIC}/auth/v1"


def test_guesses_are_counted_for_whoever_guesses_and_not_for_the_proxy(
    public: httpx.Client, settings: GatewaySettings
) -> None:
    def guess(number: int, *forwarded: str) -> int:
        headers = {**HOST, "apikey": settings.publishable_key, "X-Forwarded-For": ", ".join(forwarded)}
        account = {"email": f"nobody-{number}@example.org", "password": "wrong"}
        return public.post("/auth/v1/token?grant_type=password", json=account, headers=headers).status_code

    # The guesser writes another address into the header each time; the proxy appends the real one.
    # One is forgiven every ten seconds, so that it takes a few more where guesses are slow.
    answers = (guess(number, f"198.51.100.{number}", "203.0.113.66") for number in range(90))
    assert len(list(itertools.takewhile(lambda status: status == 400, answers))) in range(30, 89)
    assert guess(99, "203.0.113.67") == 400, "another client of the same proxy notices nothing"
    again = (guess(number, "203.0.113.66", "10.1.2.3") for number in range(100, 120))
    assert 429 in again, "also behind a second proxy that is trusted"


def test_no_proof_leaves_the_machine(public: httpx.Client) -> None:
    path = "/.well-known/openmanus-rl/proof"
    nonce = {"nonce": "0" * 64}
    assert "proof" in public.get(path, params=nonce).json()
    for headers in (FORWARDED, HOST):
        assert "proof" not in public.get(path, params=nonce, headers=headers).text.replace(path, "")


def test_it_listens_where_it_is_told_and_on_loopback(settings: GatewaySettings) -> None:
    serving = {"PUBLIC_URL": PUBLIC, "GATEWAY_HOST": "127.0.0.2"}
    with Gateway(replace(settings, serving=serving)) as gateway:
        port = gateway.url.rsplit(":", 1)[1]
        for address in ("127.0.0.1", "127.0.0.2"):
            answer = httpx.get(f"http://{address}:{port}/functions/v1/health", headers=HOST, trust_env=False)
            assert answer.status_code == 200, address
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.3", int(port)), timeout=2):
            pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PUBLIC_URL", "rl.example.org"),
        ("PUBLIC_URL", "https://rl.example.org/dashboard"),
        ("PUBLIC_URL", "ftp://rl.example.org"),
        ("TRUSTED_PROXIES", "10.0.0.0/8,proxy"),
    ],
)
def test_a_wrong_setting_is_named(settings: GatewaySettings, name: str, value: str, capfd: Any) -> None:
    with (
        pytest.raises(AssertionError, match="before it was ready"),
        Gateway(replace(settings, serving={name: value})),
    ):
        pass
    assert name in capfd.readouterr().err


def _decoded(part: str) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded
