"""What is served beside the APIs: functions, the dashboard, and nothing else."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from .process import GATEWAY, Gateway, GatewaySettings, deno_binary


def test_health_needs_no_key(http: httpx.Client) -> None:
    answer = http.get("/functions/v1/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": "1.2.3", "database": "ok"})
    refused = http.post("/functions/v1/health")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, OPTIONS")
    preflight = http.options("/functions/v1/health")
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, "*")


@pytest.mark.parametrize("name", ["nope", "constructor", "__proto__", "health%2f..", ""])
def test_an_unknown_function_is_404_in_the_functions_shape(http: httpx.Client, name: str) -> None:
    answer = http.get(f"/functions/v1/{name}")
    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"code", "message", "details"}


def test_the_dashboard_is_served_and_its_pages_route_themselves(http: httpx.Client) -> None:
    for path in ("/", "/runs/7", "/index.html"):
        page = http.get(path)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "dashboard" in page.text
    script = http.get("/assets/app-1.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    assert http.get("/assets/none.js").status_code == 404
    assert http.post("/").status_code == 405


def test_the_dashboard_learns_where_its_supabase_is(gateway: Gateway, http: httpx.Client) -> None:
    answer = http.get("/config.json", headers={"Origin": "http://elsewhere.example"})
    assert answer.json() == {
        "supabaseUrl": gateway.url,
        "publishableKey": gateway.settings.publishable_key,
        "embedded": True,
        "version": "1.2.3",
    }
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers, "other origins' pages have no business with it"
    assert gateway.settings.secret_key not in answer.text
    port = gateway.url.rsplit(":", 1)[1]
    assert httpx.get(f"http://localhost:{port}/config.json").json()["supabaseUrl"] == f"http://localhost:{port}"


def test_pages_run_no_foreign_code_and_are_in_no_foreign_frame(gateway: Gateway, http: httpx.Client) -> None:
    for path in ("/", "/runs/7", "/assets/app-1.js", "/none.js"):
        headers = http.get(path).headers
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["script-src"] == "'self'"
        assert policy["object-src"] == policy["frame-ancestors"] == "'none'"
        assert policy["connect-src"] == f"'self' {gateway.url.replace('http', 'ws')}"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.rebound.example", "localhost@rebound.example", "", "[::2]"]
)
@pytest.mark.parametrize("path", ["/config.json", "/", "/rest/v1/authors", "/functions/v1/health", "/auth/v1/verify"])
def test_a_name_that_was_pointed_here_is_refused(http: httpx.Client, host: str, path: str) -> None:
    answer = http.get(path, headers={"Host": host})
    assert answer.status_code in (400, 421)
    assert "sb_publishable_" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8000"])
def test_every_name_of_this_machine_is_answered_to(http: httpx.Client, host: str) -> None:
    assert http.get("/config.json", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/..%2f..%2fetc%2fpasswd.txt", "/%2e%2e/%2e%2e/etc/hosts.x", "/a%00.txt", "/assets", "/%E0%A4%A.js"]
)
def test_no_file_outside_the_dashboard_is_served(gateway: Gateway, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))) as connection:
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"root:" not in answer
    assert b" 404 " in answer.split(b"\r\n")[0] or b"dashboard" in answer


def test_cors_lets_browsers_in(gateway: Gateway, http: httpx.Client) -> None:
    asked = {
        "Origin": "http://localhost:5173",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "apikey,authorization,content-type,x-upsert",
    }
    for path in ("/rest/v1/authors", "/auth/v1/token", "/storage/v1/object/x/y"):
        answer = http.options(path, headers=asked)
        assert answer.is_success, path
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "apikey" in answer.headers["access-control-allow-headers"].lower()
    read = http.get("/rest/v1/authors", headers={"apikey": gateway.settings.publishable_key, **asked})
    assert read.headers["access-control-allow-origin"] == "*"


def test_one_bundled_file_serves_without_any_package(settings: GatewaySettings, tmp_path: Path) -> None:
    bundle = tmp_path / "gateway.js"
    build = [deno_binary(), "bundle", "--quiet", "--platform=deno", "--minify", "-o", str(bundle), str(GATEWAY)]
    subprocess.run(build, check=True, timeout=300, cwd=GATEWAY.parent)

    class Bundled(GatewaySettings):
        @property
        def command(self) -> list[str]:
            permissions = [part for part in super().command if part.startswith(("--allow", "--ignore"))]
            offline = ["--no-prompt", "--no-npm", "--cached-only", "--no-config", "--no-lock"]
            return [deno_binary(), "run", *offline, *permissions, str(bundle)]

        @property
        def environment(self) -> dict[str, str]:
            return {**super().environment, "DENO_DIR": str(tmp_path / "empty"), "DASHBOARD_DIR": ""}

    bundled = Bundled(settings.database_url, settings.storage_dir, settings.dashboard_dir)
    bundled.initialise()
    with Gateway(bundled) as running:
        assert httpx.get(f"{running.url}/functions/v1/health").json()["status"] == "ok"
        headers = {"apikey": bundled.secret_key}
        assert httpx.post(f"{running.url}/rest/v1/rpc/add_numbers", json={"a": 1}, headers=headers).json() == 2
        assert httpx.get(f"{running.url}/storage/v1/bucket", headers=headers).status_code == 200
        assert "`openmanus-rl runs list` shows what was recorded" in httpx.get(running.url).text


def test_a_method_that_nothing_has_is_405(http: httpx.Client) -> None:
    assert [http.request("TRACE", path).status_code for path in ("/", "/rest/v1/books")] == [405, 405]
