"""GET get-metrics."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from .api import UNKNOWN_ID, Functions, ok, refused

EMPTY: dict[str, object] = {
    "total_rollouts": 0,
    "completed_rollouts": 0,
    "successful_rollouts": 0,
    "success_rate": None,
    "average_reward": None,
    "average_steps": None,
    "rollouts": [],
}


def end(secret: Functions, rollout_id: str, status: str, **fields: object) -> str:
    """Complete a rollout and return its id."""
    ok(secret.post("complete-rollout", {"rollout_id": rollout_id, "status": status, **fields}))
    return rollout_id


def test_counts_rates_and_averages_are_over_what_completed(secret: Functions, run_id: str) -> None:
    first = end(secret, secret.submit(training_run_id=run_id), "success", total_reward=10, step_count=4)
    second = end(secret, secret.submit(training_run_id=run_id), "failed", total_reward=0, step_count=8)
    other = end(secret, secret.submit(training_run_id=run_id, environment="gaia"), "timeout")
    running = secret.submit(training_run_id=run_id)
    cancelled = end(secret, secret.submit(training_run_id=run_id), "cancelled", total_reward=99)

    answer = ok(secret.get("get-metrics", training_run_id=run_id))
    rollouts = answer.pop("rollouts")
    assert [rollout["id"] for rollout in rollouts] == [cancelled, running, other, second, first]
    assert answer == {
        "total_rollouts": 5,
        "completed_rollouts": 3,
        "successful_rollouts": 1,
        "success_rate": pytest.approx(1 / 3),
        "average_reward": 5,
        "average_steps": 6,
    }
    answer = ok(secret.get("get-metrics", training_run_id=run_id, environment="gaia"))
    assert [rollout["id"] for rollout in answer["rollouts"]] == [other]
    assert (answer["total_rollouts"], answer["success_rate"], answer["average_reward"]) == (1, 0, None)


def test_nothing_completed_is_null_not_zero(secret: Functions, run_id: str) -> None:
    assert ok(secret.get("get-metrics", training_run_id=run_id)) == EMPTY
    secret.submit(training_run_id=run_id)
    answer = ok(secret.get("get-metrics", training_run_id=run_id, limit=0))
    assert answer == EMPTY | {"total_rollouts": 1}


def test_the_list_is_as_long_as_asked(secret: Functions, run_id: str) -> None:
    newest = [secret.submit(training_run_id=run_id) for _ in range(3)][-1]
    answer = ok(secret.get("get-metrics", training_run_id=run_id, limit=1))
    assert [rollout["id"] for rollout in answer["rollouts"]] == [newest]
    assert answer["total_rollouts"] == 3


def test_no_parameters_ask_for_everything(secret: Functions, run_id: str) -> None:
    rollout_id = secret.submit(training_run_id=run_id)
    answer = ok(secret.get("get-metrics", training_run_id="", environment=""))
    assert rollout_id in [rollout["id"] for rollout in answer["rollouts"]]


def test_an_unknown_run_is_named(secret: Functions) -> None:
    message = refused(secret.get("get-metrics", training_run_id=UNKNOWN_ID), 404, "not_found")
    assert message.startswith(f"training_run_id {UNKNOWN_ID}: there is no such training run")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("training_run_id=7", "training_run_id: a UUID is expected"),
        ("limit=-1", "limit: a whole number from 0 to 1000 is expected"),
        ("limit=1001", "limit: a whole number from 0 to 1000 is expected"),
        ("limit=1e2", "limit: a whole number from 0 to 1000 is expected"),
        ("limit=99999999999999999999", "limit: a whole number from 0 to 1000 is expected"),
        ("environment=%00", "environment: has a NUL character"),
        ("run=1", "run: no such field; there are training_run_id, environment, limit"),
        ("environment=" + "x" * 501, "environment: at most 500 characters are possible"),
    ],
)
def test_a_bad_parameter_is_named(secret: Functions, query: str, message: str) -> None:
    response = secret.client.get(f"/functions/v1/get-metrics?{query}", headers=secret.headers)
    assert refused(response, 400, "invalid_input").startswith(message)


def test_an_environment_may_have_any_name(secret: Functions, run_id: str) -> None:
    name = "β/env & co? 100%"
    rollout_id = secret.submit(training_run_id=run_id, environment=name)
    response = secret.client.get(
        f"/functions/v1/get-metrics?environment={quote(name, safe='')}", headers=secret.headers
    )
    assert rollout_id in [rollout["id"] for rollout in ok(response)["rollouts"]]


def test_the_publishable_key_sees_public_runs_only(
    secret: Functions, publishable: Functions, make_run: Callable[..., str]
) -> None:
    public, private = make_run(visibility="public"), make_run()
    shown = end(secret, secret.submit(training_run_id=public, environment="shared-env"), "success", total_reward=2)
    hidden = secret.submit(training_run_id=private, environment="shared-env")

    answer = ok(publishable.get("get-metrics", training_run_id=public))
    assert (answer["total_rollouts"], answer["average_reward"]) == (1, 2)
    assert [rollout["id"] for rollout in answer["rollouts"]] == [shown]
    refused(publishable.get("get-metrics", training_run_id=private), 404, "not_found")

    answer = ok(publishable.get("get-metrics", environment="shared-env"))
    ids = [rollout["id"] for rollout in answer["rollouts"]]
    assert shown in ids
    assert hidden not in ids
    assert answer["total_rollouts"] == len(ids)


def test_members_see_every_run_and_strangers_none(
    secret: Functions, callers: dict[str, Functions], make_run: Callable[..., str]
) -> None:
    for visibility in ("private", "public"):
        run_id = make_run(visibility=visibility)
        secret.submit(training_run_id=run_id)
        for name in ("editor", "other_editor", "viewer", "admin"):
            assert ok(callers[name].get("get-metrics", training_run_id=run_id))["total_rollouts"] == 1
        refused(callers["stranger"].get("get-metrics", training_run_id=run_id), 404, "not_found")
    assert ok(callers["stranger"].get("get-metrics")) == EMPTY
