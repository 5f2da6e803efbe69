"""Whoever runs the server sees who uses it, how much is stored, and has figures for Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from openmanus_rl.managers.runs import TrainingRunManager

ROOT = Path(__file__).resolve().parents[3]


def figures(text: str) -> dict[str, float]:
    """Return the values of Prometheus' text format by their names and labels."""
    return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:{[^}]*})?) (\S+)$", text, re.MULTILINE)}


@pytest.mark.usefixtures("_stack_settings")
def test_prometheus_reads_requests_queue_and_sizes(stack: Any) -> None:
    TrainingRunManager.create_run(name="measured", environment="grid")
    before = httpx.get(f"{stack.url}/metrics")
    assert before.headers["content-type"].startswith("text/plain; version=0.0.4")
    known = figures(before.text)
    assert known["openmanus_rl_database_up"] == 1
    assert known["openmanus_rl_database_bytes"] > 1_000_000
    assert known['openmanus_rl_queue_rollouts{state="waiting"}'] >= 0
    assert known['openmanus_rl_workers{health="active"}'] >= 0
    posted = 'openmanus_rl_request_seconds_count{api="rest",method="POST",status="200"}'
    TrainingRunManager.create_run(name="measured again", environment="grid")
    assert figures(httpx.get(f"{stack.url}/metrics").text)[posted] > known[posted]


def test_the_dashboard_of_grafana_shows_figures_that_exist(stack: Any) -> None:
    shown = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
    text = httpx.get(f"{stack.url}/metrics").text
    asked = [target["expr"] for panel in shown["panels"] for target in panel["targets"]]
    names = {name for expression in asked for name in re.findall(r"openmanus_rl_[a-z_]+", expression)}
    told = set(re.findall(r"^# TYPE (openmanus_rl_[a-z_]+)", text, re.MULTILINE))
    assert {re.sub(r"_(count|bucket|sum)$", "", name) for name in names} <= told
    assert told - {"openmanus_rl_info", "openmanus_rl_files"} <= {re.sub(r"_(count|bucket|sum)$", "", n) for n in names}


def test_nobody_reads_them_through_a_proxy_without_the_secret_key(stack: Any) -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.9"}
    for path in ("/metrics", "/gateway/status"):
        url = f"{stack.url}{path}"
        assert httpx.get(url, headers=forwarded).status_code == 401
        publishable = {**forwarded, "Authorization": f"Bearer {stack.env['SUPABASE_ANON_KEY']}"}
        assert httpx.get(url, headers=publishable).status_code == 401
        secret = {**forwarded, "Authorization": f"Bearer {stack.env['SUPABASE_SERVICE_ROLE_KEY']}"}
        assert httpx.get(url, headers=secret).status_code == 200
    assert httpx.get(f"{stack.url}/gateway/status").status_code == 401, "who is connected is not every local user's"


@pytest.mark.usefixtures("_stack_settings")
def test_status_says_who_is_connected_and_how_much_is_used(stack: Any) -> None:
    TrainingRunManager.create_run(name="seen", environment="grid")
    headers = {"Authorization": f"Bearer {stack.env['SUPABASE_SERVICE_ROLE_KEY']}"}
    answer = httpx.get(f"{stack.url}/gateway/status", headers=headers).json()
    mine = [caller for caller in answer["callers"] if caller["program"].startswith("openmanus-rl")]
    assert mine
    assert {caller["role"] for caller in mine} <= {"service_role", "authenticated"}
    assert mine[0]["requests"] > 0
    assert mine[0]["address"] == "127.0.0.1"
    assert answer["usage"]["database_bytes"] > 1_000_000
    assert "training_runs" in answer["usage"]["rows"] or answer["usage"]["rows"] == {}
    assert stack.env["SUPABASE_SERVICE_ROLE_KEY"] not in str(answer)


def test_who_is_connected_is_who_was_let_in_and_not_what_was_done_for_them(stack: Any) -> None:
    def ask(address: str, key: str, method: str, path: str, **body: Any) -> int:
        headers = {"X-Forwarded-For": address, "apikey": key, "User-Agent": "a stranger's"}
        with httpx.Client(base_url=stack.url, headers=headers, trust_env=False) as http:
            return http.request(method, path, **body).status_code

    publishable, secret = stack.env["SUPABASE_ANON_KEY"], stack.env["SUPABASE_SERVICE_ROLE_KEY"]
    wrong = {"json": {"email": "nobody@example.org", "password": "wrong"}}
    assert ask("192.0.2.1", "omrl_" + "x" * 43, "GET", "/rest/v1/training_runs") == 401
    assert ask("192.0.2.1", publishable, "GET", "/functions/v1/health") == 200
    assert ask("192.0.2.1", publishable, "POST", "/auth/v1/token?grant_type=password", **wrong) == 400
    assert ask("192.0.2.1", secret, "HEAD", "/rest/v1/training_runs") == 200
    answer = httpx.get(f"{stack.url}/gateway/status", headers={"Authorization": f"Bearer {secret}"}).json()
    seen = {one["role"]: one["requests"] for one in answer["callers"] if one["program"] == "a stranger's"}
    assert seen == {"anon": 2, "service_role": 1}
