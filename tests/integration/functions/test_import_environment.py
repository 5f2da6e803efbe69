"""POST import-environment, against a server that speaks Firecrawl's wire format."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import jsonschema
import pytest

from openmanus_rl.local.assets import find_deno
from openmanus_rl.sandboxes.spec import parse_spec
from tests.conftest import clean_env

from .api import Database, Functions, refused
from .conftest import Callers

KEY = "fc-key-of-the-tests"
NAMES = {
    "papers.example": ["93.184.215.14"],
    "elsewhere.example": ["2606:4700::1111"],
    "inside.example": ["10.0.0.1"],
}
GRID = {"kind": "grid", "name": "four rooms", "description": "Find the goal.", "map": ["A.#", "..G"]}


def page(found: object, **metadata: object) -> dict[str, Any]:
    """Return what Firecrawl answers for a page."""
    known = {"title": "A paper", "sourceURL": "http://papers.example/a", "url": "http://papers.example/a"}
    return {"success": True, "data": {"json": found, "metadata": known | {"statusCode": 200} | metadata}}


@dataclass
class Servers:
    """The web with the papers, and Firecrawl, on this machine."""

    answer: Callable[[BaseHTTPRequestHandler, dict[str, Any]], None] | None = None
    visits: list[str] = field(default_factory=list)
    scraped: list[dict[str, Any]] = field(default_factory=list)

    def answers(self, status: int, body: object, **headers: str) -> None:
        """Let Firecrawl answer so."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()

        def answer(handler: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
            send(handler, status, content, headers)

        self.answer = answer


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | headers).items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


# What Firecrawl's own description of its API says of POST /v2/scrape, as far as it concerns us.
REQUEST = {
    "type": "object",
    "additionalProperties": False,
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "format": "uri"},
        "formats": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["type"],
                "properties": {"type": {"const": "json"}, "schema": {"type": "object"}, "prompt": {"type": "string"}},
            },
        },
        "onlyMainContent": {"type": "boolean"},
        "timeout": {"type": "integer", "minimum": 1000, "maximum": 300000},
        "parsers": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["type"],
                "properties": {
                    "type": {"const": "pdf"},
                    "maxPages": {"type": "integer", "minimum": 1, "maximum": 10000},
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Servers, int, int]]:
    """What is on the web, and the ports of the papers and of Firecrawl."""
    state = Servers()

    class Papers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.visits.append(f"{self.headers['Host']}{self.path}")
            leads_to = {
                "/old": "http://elsewhere.example/a",
                "/inside": "http://inside.example/secret",
                "/metadata": "http://169.254.169.254/latest/meta-data/",
            }.get(self.path)
            send(self, 302 if leads_to else 200, b"<p>A paper", {"Location": leads_to} if leads_to else {})

        def log_message(self, *_: object) -> None:
            pass

    class Firecrawl(Papers):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.scraped.append(asked)
            if self.path != "/v2/scrape":
                send(self, 404, b'{"success": false, "error": "Not Found"}', {})
            elif self.headers["Authorization"] != f"Bearer {KEY}":
                send(self, 401, b'{"success": false, "error": "Unauthorized: Invalid token"}', {})
            else:
                jsonschema.validate(asked, REQUEST)
                for wanted in asked["formats"]:
                    jsonschema.Draft202012Validator.check_schema(wanted["schema"])
                assert state.answer is not None
                state.answer(self, asked)

    running = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (Papers, Firecrawl)]
    for server in running:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state, running[0].server_port, running[1].server_port
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def started(stack: Any, servers: tuple[Servers, int, int]) -> Iterator[Callable[..., str]]:
    """Start the function with settings; return its address."""
    _, papers, firecrawl = servers
    script = Path(__file__).parent / "import_environment.ts"
    processes: list[subprocess.Popen[str]] = []

    def start(**settings: str) -> str:
        variables = {
            "SUPABASE_URL": stack.url,
            "SUPABASE_PUBLISHABLE_KEY": stack.publishable_key,
            "SUPABASE_SECRET_KEY": stack.secret_key,
            "FIRECRAWL_API_KEY": KEY,
            "FIRECRAWL_API_URL": f"http://127.0.0.1:{firecrawl}/",
        }
        command = [find_deno(), "run", "--quiet", "--no-config", "--no-lock", "--allow-net=127.0.0.1", "--allow-env"]
        process = subprocess.Popen(
            [*command, str(script), str(papers), json.dumps(NAMES)],
            env=clean_env(**variables | settings),
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        return f"http://127.0.0.1:{int(process.stdout.readline())}"

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def address(started: Callable[..., str]) -> str:
    return started()


@pytest.fixture
def web(servers: tuple[Servers, int, int]) -> Servers:
    state = servers[0]
    state.visits.clear()
    state.scraped.clear()
    state.answers(200, page(GRID))
    return state


Import = Callable[..., httpx.Response]


@pytest.fixture
def imports(address: str, secret: Functions) -> Import:
    """Import with the secret key, or whoever else's."""

    def call(url: str, *, by: Functions = secret, at: str = address, **fields: object) -> httpx.Response:
        body = {"url": url, **fields}
        return httpx.post(f"{at}/functions/v1/import-environment", json=body, headers=dict(by.headers), timeout=60)

    return call


def imported(response: httpx.Response) -> tuple[dict[str, Any], list[str]]:
    assert response.status_code == 200, response.text
    body = response.json()
    assert set(body) == {"environment", "warnings"}
    return body["environment"], body["warnings"]


def test_a_paper_becomes_a_draft_that_can_be_built(imports: Import, web: Servers, sql: Database) -> None:
    name = f"rooms {uuid4()}"
    environment, warnings = imported(imports("http://papers.example/a#section", name=name))

    assert (environment["name"], environment["kind"], environment["is_draft"]) == (name, "grid", True)
    assert environment["source"] == "http://papers.example/a"
    assert environment["spec"] == {"map": ["A.#", "..G"]}
    parse_spec({**environment["spec"], "kind": environment["kind"]})
    assert warnings == ["map: compare it with the paper"]
    assert web.visits == ["papers.example/a"]
    assert [each["url"] for each in web.scraped] == ["http://papers.example/a"]
    assert sql.rows("select is_draft, version from public.environments where name = %s", name) == [(True, 1)]


def test_the_managers_find_the_environment_by_the_same_id(imports: Import, web: Servers) -> None:  # noqa: ARG001
    from openmanus_rl.records.ids import environment_id

    name = f"räume {uuid4()}"
    assert imported(imports("http://papers.example/a", name=name))[0]["id"] == environment_id(name)


def test_firecrawl_is_given_the_last_of_the_redirects(imports: Import, web: Servers) -> None:
    environment, _ = imported(imports("http://papers.example/old", name=f"old {uuid4()}"))

    assert environment["source"] == "http://elsewhere.example/a"
    assert web.visits == ["papers.example/old", "elsewhere.example/a"]
    assert [each["url"] for each in web.scraped] == ["http://elsewhere.example/a"]


@pytest.mark.parametrize(
    "url",
    [
        "http://inside.example/",
        "http://papers.example/inside",
        "http://papers.example/metadata",
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://user:secret@papers.example/",
        "http://papers.example:22/",
        "ftp://papers.example/",
        "file:///etc/passwd",
        "paper",
    ],
)
def test_what_is_not_public_is_neither_fetched_nor_handed_on(
    imports: Import, web: Servers, sql: Database, url: str
) -> None:
    before = sql.fingerprint()
    assert refused(imports(url), 400, "invalid_input").startswith("url: ")

    assert all(visit.startswith("papers.example/") for visit in web.visits)
    assert web.scraped == []
    assert sql.fingerprint() == before


@pytest.mark.parametrize("reported", ["http://10.0.0.1/", "http://inside.example/", "file:///etc/passwd"])
@pytest.mark.parametrize("name", ["sourceURL", "url"])
def test_a_page_that_firecrawl_found_inside_is_not_saved(
    imports: Import, web: Servers, sql: Database, name: str, reported: str
) -> None:
    web.answers(200, page(GRID, **{name: reported}))
    before = sql.fingerprint()

    refused(imports("http://papers.example/a"), 400, "invalid_input")
    assert sql.fingerprint() == before


@pytest.mark.parametrize(
    ("status", "body", "expected", "code", "words"),
    [
        (401, {"success": False, "error": "Unauthorized: Invalid token"}, 502, "upstream_failed", "FIRECRAWL_API_KEY"),
        (402, {"success": False, "error": "Insufficient credits"}, 502, "upstream_failed", "no credits"),
        (408, {"success": False, "error": "Request Timeout"}, 504, "timeout", "in time"),
        (429, {"success": False, "error": "Rate limit exceeded"}, 429, "rate_limited", "pause"),
        (500, {"success": False, "code": "SCRAPE_DNS_RESOLUTION_ERROR", "error": "DNS"}, 502, "upstream_failed", "500"),
        (502, b"<html>Bad Gateway</html>", 502, "upstream_failed", "502"),
        (422, {"success": False, "error": "no conforming result"}, 422, "unprocessable", "cannot read"),
        (200, b"<html>", 502, "upstream_failed", "JSON"),
        (200, b"x" * 5_000_000, 502, "upstream_failed", "more than"),
        (200, {"success": False}, 502, "upstream_failed", "something else"),
        (200, [], 502, "upstream_failed", "something else"),
        (302, b"", 502, "upstream_failed", "reached"),
        (200, page(GRID, statusCode=404, error="Not Found"), 422, "unprocessable", "404"),
        (200, page({"kind": "none"}), 422, "unprocessable", "no environment"),
        (200, page({"kind": "other", "name": "Poker"}), 422, "unprocessable", "Poker"),
        (200, page(None), 422, "unprocessable", "no environment"),
        (200, page("text"), 422, "unprocessable", "no environment"),
    ],
)
def test_what_goes_wrong_at_firecrawl_is_told_apart(
    imports: Import, web: Servers, sql: Database, status: int, body: Any, expected: int, code: str, words: str
) -> None:
    headers = {"Location": "http://127.0.0.1:1/"} if status == 302 else {"Retry_After": "7"}
    web.answers(status, body, **headers)
    before = sql.fingerprint()

    response = imports("http://papers.example/a")

    assert words in refused(response, expected, code)
    assert KEY not in response.text
    assert sql.fingerprint() == before
    if status == 429:
        assert response.headers["retry-after"] == "7"


def test_what_was_found_instead_is_in_the_details(imports: Import, web: Servers) -> None:
    web.answers(200, page({"kind": "other", "name": "Poker", "description": "Cards."}))

    details = imports("http://papers.example/a").json()["error"]["details"]
    assert details == {"found": {"kind": "other", "name": "Poker", "description": "Cards.", "title": "A paper"}}


def test_an_environment_that_is_there_is_never_changed(imports: Import, web: Servers, sql: Database) -> None:
    name = f"rooms {uuid4()}"
    imported(imports("http://papers.example/a", name=name))
    web.scraped.clear()
    before = sql.fingerprint()

    refused(imports("http://papers.example/a", name=name), 409, "conflict")
    assert web.scraped == []
    assert sql.fingerprint() == before

    # The name of a paper is only a proposal.
    web.answers(200, page(GRID | {"name": name}))
    assert [imported(imports("http://papers.example/a"))[0]["name"] for _ in range(2)] == [f"{name} (2)", f"{name} (3)"]


def test_editors_import_and_nobody_else(
    imports: Import, web: Servers, callers: Callers, publishable: Functions
) -> None:
    for who in ("editor", "admin"):
        environment, _ = imported(imports("http://papers.example/a", by=callers[who], name=f"{who} {uuid4()}"))
        assert environment["owner_id"] is not None
    web.scraped.clear()
    web.visits.clear()
    for who in ("viewer", "stranger"):
        refused(imports("http://papers.example/a", by=callers[who]), 403, "forbidden")
    refused(imports("http://papers.example/a", by=publishable), 401, "unauthorized")
    assert (web.scraped, web.visits) == ([], [])


def test_what_firecrawl_found_is_data_not_orders(imports: Import, web: Servers) -> None:
    web.answers(200, page(GRID | {"is_draft": False, "id": "x", "owner_id": "y", "spec": {"map": ["A"]}, "version": 9}))
    environment, _ = imported(imports("http://papers.example/a", name=f"rooms {uuid4()}"))

    assert (environment["is_draft"], environment["version"]) == (True, 1)
    assert environment["spec"] == {"map": ["A.#", "..G"]}


def test_a_wrong_key_and_a_missing_one_name_the_setting(
    imports: Import, web: Servers, started: Callable[..., str], secret: Functions
) -> None:
    wrong = started(FIRECRAWL_API_KEY="fc-other")
    assert "FIRECRAWL_API_KEY" in refused(imports("http://papers.example/a", at=wrong), 502, "upstream_failed")

    # The stack of the tests has no key at all.
    message = refused(secret.post("import-environment", {"url": "https://example.com/"}), 501, "not_configured")
    assert "FIRECRAWL_API_KEY" in message
    assert refused(secret.post("import-environment", {"url": "http://10.0.0.1:1/"}), 400, "invalid_input")
    assert len(web.scraped) == 1


def test_a_firecrawl_that_is_not_there_is_named(imports: Import, started: Callable[..., str]) -> None:
    gone = started(FIRECRAWL_API_URL="http://127.0.0.1:1")

    assert "cannot be reached" in refused(imports("http://papers.example/a", at=gone), 502, "upstream_failed")
