"""The gateway over a network that fails in every way, and the requests that it makes."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
import pytest
from pytest_httpx import HTTPXMock

from openmanus_rl.errors import (
    AuthError,
    BadResponse,
    ConflictError,
    ConnectionFailed,
    ForbiddenError,
    InvalidInput,
    NotFoundError,
    RateLimited,
    ServerError,
    TimeoutExceeded,
)
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.filters import Filter, asc, desc

from .conftest import ANON_KEY, KEY, URL

if TYPE_CHECKING:
    from .conftest import FakeTime

HTML = "<html><body>Just a moment...</body></html>"


# Whatever another test has left running asks somebody else.
pytestmark = pytest.mark.httpx_mock(should_mock=lambda request: request.url.host.startswith(("supabase", "elsewhere")))


def rest(path: str) -> str:
    return f"{URL}/rest/v1/{path}"


def last_request(httpx_mock: HTTPXMock) -> httpx.Request:
    request = httpx_mock.get_requests()[-1]
    assert request is not None
    return request


FAULTS: list[tuple[Any, type[Exception]]] = [
    ({"status_code": 429, "json": {"message": "slow"}, "headers": {"retry-after": "2"}}, RateLimited),
    ({"status_code": 500, "json": {"message": "broken"}}, ServerError),
    ({"status_code": 502, "text": HTML, "headers": {"content-type": "text/html"}}, ServerError),
    ({"status_code": 503, "text": ""}, ServerError),
    ({"status_code": 200, "text": HTML, "headers": {"content-type": "text/html"}}, BadResponse),
    ({"status_code": 200, "text": '[{"id": 1}, {"i', "headers": {"content-type": "application/json"}}, BadResponse),
    ({"status_code": 200, "json": {"id": 1}}, BadResponse),
    ({"status_code": 200, "json": [1, 2]}, BadResponse),
    (httpx.ConnectError("refused"), ConnectionFailed),
    (httpx.ReadError("connection reset by peer"), ConnectionFailed),
    (httpx.RemoteProtocolError("peer closed connection without sending complete message body"), ConnectionFailed),
    (httpx.ReadTimeout("slow"), TimeoutExceeded),
    (httpx.ConnectTimeout("slow"), TimeoutExceeded),
]


def fail(httpx_mock: HTTPXMock, fault: Any, *, forever: bool = False) -> None:
    if isinstance(fault, Exception):
        httpx_mock.add_exception(fault, is_reusable=forever)
    else:
        httpx_mock.add_response(**fault, is_reusable=forever)


@pytest.mark.parametrize("fault", [fault for fault, _ in FAULTS])
def test_a_read_survives_a_passing_fault(client: Client, httpx_mock: HTTPXMock, fault: Any) -> None:
    fail(httpx_mock, fault)
    httpx_mock.add_response(json=[{"id": "a"}])

    assert client.select("rollouts").rows == [{"id": "a"}]


@pytest.mark.parametrize("fault", [fault for fault, _ in FAULTS])
def test_a_write_survives_a_passing_fault_with_the_same_body(client: Client, httpx_mock: HTTPXMock, fault: Any) -> None:
    fail(httpx_mock, fault)
    httpx_mock.add_response(status_code=201, json=[{"id": "a", "n": 1}])

    assert client.insert("rollouts", {"id": "a", "n": 1}) == [{"id": "a", "n": 1}]
    first, second = httpx_mock.get_requests()
    assert first.method == second.method == "POST"
    assert first.content == second.content == b'[{"id":"a","n":1}]'


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
def test_a_lasting_fault_is_raised_once_the_time_is_used_up(
    client: Client, httpx_mock: HTTPXMock, fake_time: FakeTime, fault: Any, expected: type[Exception]
) -> None:
    fail(httpx_mock, fault, forever=True)

    with pytest.raises(expected, match="gave up after"):
        client.select("rollouts")
    assert fake_time.now - 100 < 30
    assert len(httpx_mock.get_requests()) > 3


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
def test_a_call_declared_not_retryable_is_made_once(
    client: Client, httpx_mock: HTTPXMock, fault: Any, expected: type[Exception]
) -> None:
    fail(httpx_mock, fault)

    with pytest.raises(expected):
        client.insert("rollouts", {"id": "a"}, retryable=False)
    assert len(httpx_mock.get_requests()) == 1


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, {"message": "Invalid API key"}, AuthError),
        (403, {"code": "42501", "message": "permission denied"}, ForbiddenError),
        (404, {"code": "OM404", "message": "unknown run"}, NotFoundError),
        (409, {"code": "23505", "message": "duplicate", "details": "Key (run_name)=(x) exists."}, ConflictError),
        (400, {"code": "22P02", "message": "invalid input syntax for type uuid"}, InvalidInput),
    ],
)
def test_a_lasting_failure_is_raised_at_once(
    client: Client, httpx_mock: HTTPXMock, fake_time: FakeTime, status: int, body: Any, expected: type[Exception]
) -> None:
    httpx_mock.add_response(status_code=status, json=body)

    with pytest.raises(expected):
        client.rpc("ingest", {"records": []})
    assert fake_time.slept == []


def test_retry_after_is_waited_for(client: Client, httpx_mock: HTTPXMock, fake_time: FakeTime) -> None:
    httpx_mock.add_response(status_code=429, json={"message": "slow"}, headers={"retry-after": "5"})
    httpx_mock.add_response(json=[])

    client.select("rollouts")

    assert fake_time.slept == [5]


def test_filters_order_and_paging_become_query_parameters(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{"id": index} for index in range(3)], headers={"content-range": "10-12/57"})

    page = client.select(
        "rollouts",
        columns="id,status",
        filters=[
            Filter.eq("status", "a,b(c)"),
            Filter.in_("environment", ["x", 'say "hi", (ok)', ""]),
            Filter.eq("group_id", None),
            Filter.eq("config->optimizer->>name", "adam"),
            Filter.gte("created_at", datetime(2026, 1, 2, tzinfo=UTC)),
            Filter.contains("metadata", {"tags": ["a"]}),
            Filter.contains_text("name", "50%_off"),
            Filter.neq("done", True),
        ],
        order=[desc("created_at"), asc("id")],
        limit=2,
        offset=10,
        count=True,
    )

    assert page.rows == [{"id": 0}, {"id": 1}]
    assert page.total == 57
    assert page.next_offset == 12
    request = last_request(httpx_mock)
    assert request.url.path == "/rest/v1/rollouts"
    assert dict(request.url.params.multi_items()) == {
        "select": "id,status",
        "status": "eq.a,b(c)",
        "environment": 'in.("x","say \\"hi\\", (ok)","")',
        "group_id": "is.null",
        "config->optimizer->>name": "eq.adam",
        "created_at": "gte.2026-01-02T00:00:00+00:00",
        "metadata": 'cs.{"tags":["a"]}',
        "name": "ilike.%50\\%\\_off%",
        "done": "neq.true",
        "order": "created_at.desc.nullslast,id.asc.nullslast",
        "limit": "3",
        "offset": "10",
    }
    assert request.headers["apikey"] == KEY
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["prefer"] == "count=exact"


def test_the_last_page_has_no_next_one(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{"id": 1}, {"id": 2}])

    assert client.select("rollouts", limit=2).next_offset is None


def test_select_all_follows_the_pages(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{"id": 1}, {"id": 2}, {"id": 3}])
    httpx_mock.add_response(json=[{"id": 3}])

    assert [row["id"] for row in client.select_all("rollouts", page_rows=2)] == [1, 2, 3]


def test_an_offset_past_the_end_is_an_empty_page(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(status_code=416, json={"code": "PGRST103", "message": "Requested range not satisfiable"})
    httpx_mock.add_response(method="HEAD", headers={"content-range": "*/7"})

    page = client.select("rollouts", offset=100, count=True)

    assert (page.rows, page.total, page.next_offset) == ([], 7, None)


def test_an_answer_without_a_count_is_not_taken_for_zero(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(method="HEAD")

    with pytest.raises(BadResponse, match="no count"):
        client.count("rollouts")


@pytest.mark.parametrize("column", ["a b", "id;drop table", "name)", "", "config->>'x'", "or"])
def test_a_filter_takes_only_columns(column: str) -> None:
    with pytest.raises(InvalidInput):
        Filter.eq(column, 1)


def test_select_one_tells_none_from_many(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[])
    httpx_mock.add_response(json=[{"id": 1}, {"id": 2}])

    assert client.select_one("rollouts", filters=[Filter.eq("id", 1)]) is None
    with pytest.raises(ConflictError, match="more than one"):
        client.select_one("rollouts", filters=[Filter.eq("id", 1)])


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (1001, 0), (10, -1)])
def test_a_page_that_makes_no_sense_is_refused(client: Client, limit: int, offset: int) -> None:
    with pytest.raises(InvalidInput):
        client.select("rollouts", limit=limit, offset=offset)


def test_a_write_without_a_filter_is_refused(client: Client) -> None:
    with pytest.raises(InvalidInput, match="every row"):
        client.delete("rollouts", filters=[])
    with pytest.raises(InvalidInput, match="every row"):
        client.update("rollouts", {"status": "failed"}, filters=[])


def test_an_insert_that_landed_before_its_answer_was_lost_returns_its_rows(
    client: Client, httpx_mock: HTTPXMock
) -> None:
    httpx_mock.add_exception(httpx.ReadTimeout("lost"))
    httpx_mock.add_response(status_code=409, json={"code": "23505", "message": "in any language", "details": None})
    httpx_mock.add_response(method="GET", json=[{"id": "a", "n": 1}])

    assert client.insert("rollouts", {"id": "a", "n": 1}) == [{"id": "a", "n": 1}]


def test_an_insert_of_a_taken_id_is_a_conflict_when_nothing_was_lost(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(
        status_code=409, json={"code": "23505", "message": "duplicate", "details": "Key (id)=(a) already exists."}
    )

    with pytest.raises(ConflictError):
        client.insert("rollouts", {"id": "a", "n": 1})


def test_a_conflict_with_another_row_is_one_even_after_a_lost_answer(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_exception(httpx.ReadTimeout("lost"))
    httpx_mock.add_response(status_code=409, json={"code": "23505", "message": "in any language", "details": None})
    httpx_mock.add_response(method="GET", json=[])

    with pytest.raises(ConflictError):
        client.insert("training_runs", {"id": "a", "run_name": "taken"})


def test_upsert_update_and_delete_are_what_postgrest_expects(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{"id": "a"}], is_reusable=True)

    client.upsert("tasks", [{"external_id": "a"}], on_conflict="external_id")
    upsert = last_request(httpx_mock)
    client.update("tasks", {"name": "b"}, filters=[Filter.eq("id", "a")])
    update = last_request(httpx_mock)
    client.delete("tasks", filters=[Filter.eq("id", "a")])
    delete = last_request(httpx_mock)

    assert upsert.url.params["on_conflict"] == "external_id"
    assert "resolution=merge-duplicates" in upsert.headers["prefer"]
    assert (update.method, update.url.params["id"], update.content) == ("PATCH", "eq.a", b'{"name":"b"}')
    assert (delete.method, delete.url.params["id"], delete.content) == ("DELETE", "eq.a", b"")


def test_rich_values_are_sent_as_json(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json={"ok": True})
    params = {
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "id": UUID(int=1),
        "text": "héllo",
        "set": {1},
        "pair": (1, 2),
    }

    assert client.rpc("ingest", params) == {"ok": True}
    assert json.loads(last_request(httpx_mock).content) == {
        "when": "2026-01-02T00:00:00+00:00",
        "id": str(UUID(int=1)),
        "text": "héllo",
        "set": [1],
        "pair": [1, 2],
    }


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"records": [{"reward": math.nan}]}, "records[0].reward"),
        ({"records": [{"config": {"lr": math.inf}}]}, "records[0].config.lr"),
        ({"records": [object()]}, "records[0]"),
        ({"text": "half \ud800"}, "text"),
    ],
)
def test_what_has_no_json_form_is_named_before_anything_is_sent(
    client: Client, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        client.rpc("ingest", params)

    assert caught.value.field == field


def test_a_value_that_contains_itself_is_refused(client: Client) -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop

    with pytest.raises(InvalidInput, match="contains itself"):
        client.rpc("ingest", loop)


def test_an_rpc_without_a_result_gives_none(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(status_code=204)

    assert client.rpc("touch") is None


def test_a_function_is_called_with_its_query_and_key(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json={"total_rollouts": 3})

    assert client.function("get-metrics", method="GET", params={"training_run_id": "a"}) == {"total_rollouts": 3}
    request = last_request(httpx_mock)
    assert str(request.url) == f"{URL}/functions/v1/get-metrics?training_run_id=a"
    assert request.headers["apikey"] == KEY


def test_a_functions_name_cannot_leave_its_folder(client: Client) -> None:
    with pytest.raises(InvalidInput):
        client.function("../rest/v1/rollouts")


def test_a_member_is_sent_as_token_with_the_publishable_key(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[], is_reusable=True)

    client.as_user("the-token").select("rollouts")
    member = last_request(httpx_mock)
    client.as_anonymous().select("rollouts")
    anonymous = last_request(httpx_mock)

    assert (member.headers["apikey"], member.headers["authorization"]) == (ANON_KEY, "Bearer the-token")
    assert (anonymous.headers["apikey"], anonymous.headers["authorization"]) == (ANON_KEY, f"Bearer {ANON_KEY}")


def test_a_redirect_is_not_followed_with_the_key(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(status_code=308, headers={"location": "https://elsewhere.test/"})

    with pytest.raises(Exception, match=r"redirects to https://elsewhere\.test"):
        client.select("rollouts")
    assert len(httpx_mock.get_requests()) == 1


def test_no_key_shows_in_the_gateways_text(client: Client) -> None:
    assert KEY not in repr(client) + str(client)


def test_threads_share_one_client(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{"id": 1}], is_reusable=True)

    def work(_index: int) -> tuple[int, int]:
        return len(client.select("rollouts").rows), id(client.http.client)

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(64)))

    assert set(results) == {(1, id(client.http.client))}


def test_a_child_process_does_not_use_its_parents_client(client: Client) -> None:
    parent_client = client.http.client
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        writer.send(client.http.client is not parent_client)
        os._exit(0)
    os.waitpid(child, 0)

    assert reader.recv() is True
    assert client.http.client is parent_client
