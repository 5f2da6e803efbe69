"""How a team's server is reached: its public URL, where it listens, and which proxies it believes."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from openmanus_rl.errors import StackError

__all__ = ["VARIABLES", "Serving"]

# Letters of any script: the browser knows how to write them.
_NAME = re.compile(r"[\w.:-]+")
VARIABLES = ("GATEWAY_HOST", "PUBLIC_URL", "TRUSTED_PROXIES")


@dataclass(frozen=True, slots=True)
class Serving:
    """How other machines reach a stack."""

    public_url: str
    host: str = "127.0.0.1"
    trusted_proxies: tuple[str, ...] = ()

    @classmethod
    def checked(cls, public_url: str, *, host: str, trusted_proxies: list[str]) -> Serving:
        """Return the options of `openmanus-rl serve`, or raise an error that names the wrong one."""
        return cls(
            _checked_url(public_url), _checked_host(host), tuple(_checked_network(one) for one in trusted_proxies)
        )

    @property
    def is_encrypted(self) -> bool:
        """Whether what others send is encrypted, or stays on this machine."""
        parts = urlsplit(self.public_url)
        return parts.scheme == "https" or parts.hostname in ("127.0.0.1", "localhost", "::1")

    @property
    def variables(self) -> dict[str, str]:
        """The gateway's environment variables for this."""
        return dict(zip(VARIABLES, (self.host, self.public_url, ",".join(self.trusted_proxies)), strict=True))

    def as_json(self) -> dict[str, object]:
        """Return what stack.json keeps of it."""
        return asdict(self)


def _checked_url(given: str) -> str:
    try:
        parts = urlsplit(given)
        is_good = parts.scheme in ("http", "https") and _NAME.fullmatch(parts.hostname or "") and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise StackError(f"--public-url {given!r} is not a URL", hint="give one like https://rl.example.org")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise StackError(
            f"--public-url {given!r} has more than a scheme, a name and a port",
            hint="a server needs a name of its own, such as https://rl.example.org; it cannot be below a path",
        )
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _checked_host(given: str) -> str:
    try:
        address = str(ipaddress.ip_address(given.strip("[]")))
    except ValueError:
        raise StackError(
            f"--host {given!r} is not an address",
            hint="give 127.0.0.1 for a proxy on this machine, an address of this machine, or 0.0.0.0 for all of them",
        ) from None
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise StackError(
                f"--host {given}: this machine cannot listen there ({error.strerror})",
                hint="`ip addr` lists the addresses of this machine",
            ) from error
    return address


def _checked_network(given: str) -> str:
    try:
        return str(ipaddress.ip_network(given, strict=False))
    except ValueError:
        raise StackError(
            f"--trusted-proxy {given!r} is neither an address nor a network",
            hint="give one like 10.0.0.5 or 172.16.0.0/12",
        ) from None
