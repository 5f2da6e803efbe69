"""Who may call what: keys of both generations, members, and strangers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from .api import UNKNOWN_ID, WRITERS, Database, Functions, ok, refused

Callers = dict[str, Functions]


def write(functions: Functions, name: str, run_id: str, rollout_id: str) -> httpx.Response:
    """Make a valid request to a function that writes."""
    bodies: dict[str, dict[str, object]] = {
        "submit-rollout": {"training_run_id": run_id, "episode_number": 0, "environment": "alfworld"},
        "log-agent-state": {"rollout_id": rollout_id, "step_number": 0, "reward": {"value": 1}},
        "complete-rollout": {"rollout_id": rollout_id, "status": "success"},
        "metrics": {"runId": run_id, "step": 1, "loss": 1},
    }
    return functions.post(name, bodies[name])


@pytest.fixture
def place(secret: Functions, users: dict[str, str], make_run: Callable[..., str]) -> tuple[str, str]:
    """A run that the editor owns, and a rollout of it."""
    run_id = make_run(owner_id=users["editor"], visibility="public")
    return run_id, secret.submit(training_run_id=run_id)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("form", ["apikey", "authorization", "both"])
@pytest.mark.parametrize("generation", ["opaque", "jwt"])
def test_a_secret_key_of_either_generation_writes_in_either_header(
    stack: Any,
    http: httpx.Client,
    request: pytest.FixtureRequest,
    place: tuple[str, str],
    name: str,
    form: str,
    generation: str,
) -> None:
    key = stack.secret_key if generation == "opaque" else request.getfixturevalue("legacy")("service_role")
    headers = {"apikey": key, "authorization": f"Bearer {key}"}
    if form != "both":
        headers = {form: headers[form]}
    ok(write(Functions(http, headers), name, *place))


@pytest.mark.parametrize("generation", ["opaque", "jwt"])
@pytest.mark.parametrize("form", ["apikey", "authorization"])
def test_a_publishable_key_of_either_generation_reads_and_does_not_write(
    stack: Any, http: httpx.Client, request: pytest.FixtureRequest, place: tuple[str, str], generation: str, form: str
) -> None:
    key = stack.publishable_key if generation == "opaque" else request.getfixturevalue("legacy")("anon")
    caller = Functions(http, {"apikey": key} if form == "apikey" else {"authorization": f"Bearer {key}"})
    assert ok(caller.get("get-metrics", training_run_id=place[0]))["total_rollouts"] == 1
    for name in WRITERS:
        message = refused(write(caller, name, *place), 401, "unauthorized")
        assert message.startswith("send the secret key or a member's access token")


@pytest.mark.parametrize("name", WRITERS)
def test_an_owner_and_an_admin_write(callers: Callers, place: tuple[str, str], name: str) -> None:
    ok(write(callers["editor"], name, *place))
    response = write(callers["admin"], name, *place)
    # The admin's turn has the step number of the owner's.
    assert response.status_code == (409 if name == "log-agent-state" else 200), response.text


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("who", ["other_editor", "viewer", "stranger"])
def test_whoever_does_not_own_the_run_does_not_write(
    callers: Callers, sql: Database, place: tuple[str, str], name: str, who: str
) -> None:
    before = sql.fingerprint()
    message = refused(write(callers[who], name, *place), 403, "forbidden")
    expected = "you are not a member of this workspace" if who == "stranger" else "ask its owner or an admin"
    assert expected in message
    assert sql.fingerprint() == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_member_is_told_of_an_unknown_id_and_a_stranger_is_not(callers: Callers, name: str) -> None:
    refused(write(callers["editor"], name, UNKNOWN_ID, UNKNOWN_ID), 404, "not_found")
    refused(write(callers["stranger"], name, UNKNOWN_ID, UNKNOWN_ID), 403, "forbidden")


def test_an_editor_owns_the_rollouts_it_makes_without_a_run(
    callers: Callers, sql: Database, users: dict[str, str]
) -> None:
    rollout_id = callers["editor"].submit()
    assert str(sql.one("select owner_id from public.rollouts where id = %s", rollout_id)) == users["editor"]
    turn = {"rollout_id": rollout_id, "step_number": 0}
    refused(callers["other_editor"].post("log-agent-state", turn), 403, "forbidden")
    ok(callers["editor"].post("log-agent-state", turn))
    ok(callers["editor"].post("complete-rollout", {"rollout_id": rollout_id, "status": "failed"}))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"apikey": "sb_secret_wrong"},
        {"apikey": "eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.AAAA"},
        {"authorization": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.AAAA"},
        {"authorization": "Bearer nonsense"},
        {"authorization": "Basic c2VjcmV0OnNlY3JldA=="},
    ],
)
@pytest.mark.parametrize("name", [*WRITERS, "get-metrics"])
def test_without_a_valid_key_nothing_is_said_or_done(http: httpx.Client, headers: dict[str, str], name: str) -> None:
    caller = Functions(http, headers)
    # The body is bad as well: whoever has no key does not learn that.
    response = caller.get(name) if name == "get-metrics" else caller.post(name, {"x": 1})
    refused(response, 401, "unauthorized")


def test_a_forged_token_beside_a_valid_key_is_refused(
    stack: Any, http: httpx.Client, legacy: Callable[[str], str]
) -> None:
    head, claims, signature = legacy("authenticated").split(".")
    forged = f"{head}.{claims}.{signature[::-1]}"
    caller = Functions(http, {"apikey": stack.publishable_key, "authorization": f"Bearer {forged}"})
    refused(caller.get("get-metrics"), 401, "unauthorized")
