"""What all managers share, seen through one of them."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_httpx import HTTPXMock

from openmanus_rl.errors import BadResponse, InvalidInput, NotFoundError, SchemaMismatch
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.utils.supabase_db import (
    EnvironmentManager,
    MemberManager,
    ModelCheckpointManager,
    RolloutManager,
    ToolCallManager,
    TrainingRunManager,
    TrainingStepManager,
    TurnManager,
    ValidationManager,
)

RUN_ID = "0197a1e2-0000-7000-8000-000000000001"
ENVIRONMENT: dict[str, Any] = {
    "id": RUN_ID,
    "name": "alfworld",
    "kind": None,
    "description": None,
    "spec": {},
    "version": 1,
    "is_draft": False,
    "source": None,
    "owner_id": None,
    "created_at": "2026-01-01T00:00:00+00:00",
    "updated_at": "2026-01-01T00:00:00+00:00",
}


@pytest.fixture
def client() -> Client:
    return Client.from_url_and_key("http://supabase.test", "sb_secret_x", retry=RetryPolicy(limit_seconds=0))


def test_using_binds_a_manager_to_one_gateway_and_leaves_the_class_alone(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[ENVIRONMENT])

    bound = EnvironmentManager.using(client)

    assert bound.get_environment("alfworld") == ENVIRONMENT
    assert issubclass(bound, EnvironmentManager)
    assert bound.__name__ == "EnvironmentManager"
    assert EnvironmentManager._given_gateway is None


def test_a_row_of_another_shape_points_to_the_migrations(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{name: value for name, value in ENVIRONMENT.items() if name != "spec"}])

    with pytest.raises(SchemaMismatch, match=r"another shape \(spec\).*openmanus-rl migrate"):
        EnvironmentManager.using(client).get_environment("alfworld")


@pytest.mark.parametrize("answer", [{}, {"rows": {}}, {"rows": {"environments": []}}, [], "text"])
def test_an_answer_without_the_row_is_not_taken_for_one(client: Client, httpx_mock: HTTPXMock, answer: Any) -> None:
    httpx_mock.add_response(json=answer)

    with pytest.raises(BadResponse, match="the answer holds no row"):
        EnvironmentManager.using(client).save_environment("alfworld")


def test_ties_are_broken_so_that_pages_do_not_overlap(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[], is_reusable=True)

    EnvironmentManager.using(client).list_environments(order_by=["kind", "-name"])
    MemberManager.using(client).list_members()
    TrainingRunManager.using(client).list_runs(order_by="-id")

    assert [request.url.params["order"] for request in httpx_mock.get_requests()] == [
        "kind.asc.nullslast,name.desc.nullslast,id.asc.nullslast",
        "created_at.asc.nullslast,user_id.asc.nullslast",
        "id.desc.nullslast",
    ]


def test_a_sort_key_must_be_a_column(client: Client) -> None:
    with pytest.raises(InvalidInput):
        EnvironmentManager.using(client).list_environments(order_by="name; drop table")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: TrainingStepManager.using(client).list_steps(None),
        lambda client: TurnManager.using(client).list_turns(None),
        lambda client: ValidationManager.using(client).list_overrides(None),
        lambda client: TrainingRunManager.using(client).update(None, name="x"),
        lambda client: RolloutManager.using(client).list_rollouts(group_id="7"),
        lambda client: ToolCallManager.using(client).list_tool_calls(agent_state_id=[RUN_ID, None]),
    ],
)
def test_what_is_no_id_is_said_before_anything_is_asked(client: Client, call: Any) -> None:
    with pytest.raises(InvalidInput, match="is not an id"):
        call(client)


def test_a_number_that_is_missing_is_none_of_those_that_are_there(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[], is_reusable=True)

    for call in (
        lambda: TrainingStepManager.using(client).get_step(RUN_ID, None),  # type: ignore[arg-type]
        lambda: TurnManager.using(client).get_by_step_number(RUN_ID, None),  # type: ignore[arg-type]
        lambda: ModelCheckpointManager.using(client).get_by_number(RUN_ID, None),  # type: ignore[arg-type]
    ):
        with pytest.raises(NotFoundError):
            call()
    asked = [request.url.params for request in httpx_mock.get_requests()]
    assert [params.get("step") or params.get("step_number") or params.get("checkpoint_number") for params in asked] == [
        "is.null"
    ] * 3


def test_a_list_takes_paging_and_nothing_else(client: Client) -> None:
    with pytest.raises(TypeError, match="limits"):
        EnvironmentManager.using(client).list_environments(limits=3)  # type: ignore[call-arg]
