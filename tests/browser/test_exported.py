"""The dashboard as static files beside a project that is not embedded: members sign in by password."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect

from .conftest import recorded

ACCOUNT = {"email": "grace@example.org", "password": "a-viewers-password"}


class StaticHost(SimpleHTTPRequestHandler):
    """Serves a folder under /board/; like most such hosts, with 404.html where there is no file."""

    def do_GET(self) -> None:
        path = self.path.split("?")[0].removeprefix("/board")
        if (Path(self.directory) / path.lstrip("/")).is_file() or path == "/":
            self.path = path
            super().do_GET()
            return
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write((Path(self.directory) / "404.html").read_bytes())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(stack: Any, cli: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an exported dashboard."""
    folder = tmp_path_factory.mktemp("site") / "board"
    # Elsewhere than the stack's own home: there the settings would name the embedded stack.
    env = stack.env | {"OPENMANUS_RL_HOME": str(tmp_path_factory.mktemp("no-stack"))}
    done = cli("dashboard", "--export", str(folder), "--base", "/board/", env=env)
    assert done.returncode == 0, done.stderr
    assert stack.secret_key not in "".join(path.read_text(errors="ignore") for path in folder.rglob("*.*"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(StaticHost, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/board/"
    server.shutdown()


@pytest.fixture(scope="module")
def viewer(stack: Any) -> None:
    """An account that a member with the role viewer signs in to."""
    head = {"apikey": stack.secret_key}
    users = httpx.post(f"{stack.url}/auth/v1/admin/users", headers=head, json=ACCOUNT | {"email_confirm": True})
    member = {"user_id": users.json()["id"], "role": "viewer", "display_name": "Grace"}
    httpx.post(f"{stack.url}/rest/v1/members", headers=head, json=member).raise_for_status()


@pytest.mark.usefixtures("viewer")
def test_a_member_signs_in_by_password_sees_runs_live_and_a_link_to_one_opens_again(
    site: str, open_context: Callable[..., BrowserContext], recorder: Callable[..., Any]
) -> None:
    page = open_context(as_visitor=True).new_page()
    page.goto(f"{site}sign-in")
    page.get_by_label("E-mail").fill(ACCOUNT["email"])
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Invalid")
    page.get_by_label("Password", exact=True).fill(ACCOUNT["password"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Signed in as Grace")).to_be_visible()

    page.goto(f"{site}runs?search=seen from elsewhere")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    with recorded(recorder(name="seen from elsewhere")):
        pass
    page.get_by_role("link", name="seen from elsewhere").click()
    expect(page.get_by_role("heading", name="seen from elsewhere")).to_be_visible()
    assert page.url.startswith(f"{site}runs/")
    page.reload()
    expect(page.get_by_role("heading", name="seen from elsewhere")).to_be_visible()
    # A viewer changes nothing.
    page.goto(f"{site}tasks")
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    expect(page.get_by_role("button", name="Upload tasks")).to_have_attribute("aria-disabled", "true")
