"""The options of a team's server are checked before anything starts."""

from __future__ import annotations

import pytest

from openmanus_rl.errors import StackError
from openmanus_rl.local.serving import Serving


def test_a_public_url_is_a_scheme_a_name_and_a_port() -> None:
    for given, expected in [
        ("https://rl.example.org", "https://rl.example.org"),
        ("https://RL.Example.org/", "https://rl.example.org"),
        ("http://localhost:8443", "http://localhost:8443"),
        ("https://[2001:db8::1]:444", "https://[2001:db8::1]:444"),
    ]:
        assert Serving.checked(given, host="127.0.0.1", trusted_proxies=[]).public_url == expected


@pytest.mark.parametrize(
    "given",
    [
        *["", "rl.example.org", "https://", "ftp://rl.example.org", "https://x:99999", "https://x:0", "https://a b"],
        *["https://rl.example.org/team", "https://rl.example.org/?a=1", "https://user@rl.example.org", "https://x/#a"],
    ],
)
def test_anything_else_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(StackError, match=r"--public-url.*https://rl\.example\.org"):
        Serving.checked(given, host="127.0.0.1", trusted_proxies=[])


@pytest.mark.parametrize("host", ["localhost", "rl.example.org", "", "203.0.113.7", "256.0.0.1"])
def test_an_address_that_is_not_this_machines_is_refused(host: str) -> None:
    with pytest.raises(StackError, match="--host"):
        Serving.checked("https://rl.example.org", host=host, trusted_proxies=[])


def test_proxies_are_addresses_or_networks() -> None:
    serving = Serving.checked(
        "https://x.org", host="0.0.0.0", trusted_proxies=["172.16.0.0/12", "10.0.0.5", "fd00::/8"]
    )
    assert serving.variables == {
        "GATEWAY_HOST": "0.0.0.0",
        "PUBLIC_URL": "https://x.org",
        "TRUSTED_PROXIES": "172.16.0.0/12,10.0.0.5/32,fd00::/8",
    }
    with pytest.raises(StackError, match="--trusted-proxy 'proxy'"):
        Serving.checked("https://x.org", host="0.0.0.0", trusted_proxies=["proxy"])


def test_only_https_and_loopback_are_safe_for_passwords() -> None:
    for url, is_safe in [("https://x.org", True), ("http://x.org", False), ("http://localhost:1", True)]:
        assert Serving(url).is_encrypted is is_safe
