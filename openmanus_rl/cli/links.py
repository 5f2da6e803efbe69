"""Links to pages of the dashboard, whichever server serves it."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

import typer

from openmanus_rl.cli.stack import names_another
from openmanus_rl.connections import get_client
from openmanus_rl.errors import OpenManusError
from openmanus_rl.local import launch
from openmanus_rl.local.places import home_of
from openmanus_rl.settings import load_settings
from openmanus_rl.transport.http import read_object

__all__ = ["AddressOption", "dashboard_address"]

AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="URL where the dashboard is deployed. Default: the server of the embedded stack."),
]


def dashboard_address(address: str | None = None) -> str:
    """Return the URL of the dashboard, with a slash at its end; a link is this with a page and a fragment."""
    if address is not None:
        return _checked(address)
    settings = load_settings()
    client = get_client(settings)  # Starts the embedded stack if need be.
    running = launch.find_running(home_of(settings))
    if running is not None and not names_another(settings, running):
        return running.dashboard_url
    attempt = f"ask {client.url} for its dashboard"
    try:
        read = partial(read_object, attempt=attempt)
        config = client.http.request("GET", f"{client.url}/config.json", attempt=attempt, read=read, headers={})
    except OpenManusError:
        config = {}
    if config.get("embedded") is not True:
        raise typer.BadParameter(
            "is required: the URL where the dashboard is deployed (`openmanus-rl dashboard --export` writes the files)",
            param_hint="--address",
        )
    return f"{client.url}/"


def _checked(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.fragment or parts.query:
        raise typer.BadParameter(f"{address!r} is not a URL such as https://runs.example.org/", param_hint="--address")
    return address if address.endswith("/") else f"{address}/"
