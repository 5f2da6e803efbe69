"""The function tasks: importing tasks and reading them with their results."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from random import Random

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmanus_rl.records.ids import task_id, validator_id
from tests.support.validator_specs import RIGHT_SPECS, WRONG_SPECS

from .api import UNKNOWN_ID, Database, Functions, ok, refused

LIMIT_BYTES = 16 * 1024 * 1024
Callers = dict[str, Functions]


@pytest.fixture
def environment() -> str:
    return f"environment {uuid.uuid4()}"


def upload(functions: Functions, content: object, **options: object) -> httpx.Response:
    """Upload tasks as a JSON body, or as `options` say."""
    environment = options.pop("environment", None)
    options.setdefault("headers", functions.headers)
    if "files" not in options:
        options["content"] = content if isinstance(content, bytes) else json.dumps(content)
    params = {"environment": str(environment)} if environment else {}
    return functions.client.post("/functions/v1/tasks/upload", params=params, **options)  # type: ignore[arg-type]


def problems(response: httpx.Response) -> list[tuple[int, str | None]]:
    """Return the index and field of everything that is wrong with an upload."""
    refused(response, 400, "invalid_input")
    return [(problem["index"], problem["field"]) for problem in response.json()["error"]["details"]]


def test_the_contracts_tasks_are_imported(secret: Functions, sql: Database, environment: str) -> None:
    tasks = [
        {"id": "balls-1", "task": "How many red balls?", "answer": "3"},
        {"id": 7, "task": "Which rooms?", "answer": ["kitchen", {"n": 12345678901234567890}]},
    ]

    answer = ok(upload(secret, tasks, environment=environment))

    assert answer == {"message": "2 tasks were imported", "count": 2}
    rows = sql.rows(
        "select id::text, external_id, description, expected_answer from public.tasks"
        " where environment = %s order by external_id",
        environment,
    )
    assert rows == [
        (task_id(environment, "7"), "7", "Which rooms?", '["kitchen",{"n":12345678901234567890}]'),
        (task_id(environment, "balls-1"), "balls-1", "How many red balls?", "3"),
    ]


def test_a_task_may_have_everything(secret: Functions, sql: Database, environment: str) -> None:
    task = {
        "external_id": "a/b",
        "description": "Find it",
        "expected_answer": "x",
        "name": "finding",
        "split": "test",
        "environment": environment,
        "solution": {"answer": "x"},
        "metadata": {"level": 3},
        "difficulty": "hard",
        "validators": [{"kind": "exact"}, {"kind": "regex", "spec": {"pattern": "x"}, "external_id": "shape"}],
    }

    ok(upload(secret, {"tasks": [task], "environment": "another"}))

    made = task_id(environment, "a/b")
    assert sql.rows(
        "select environment, name, split, solution, metadata, version from public.tasks where id = %s", made
    ) == [(environment, "finding", "test", {"answer": "x"}, {"level": 3, "difficulty": "hard"}, 1)]
    validators = sql.rows(
        "select id::text, external_id, kind, spec from public.validators where task_id = %s order by 2", made
    )
    assert validators == [
        (validator_id(made, "default"), "default", "exact", {}),
        (validator_id(made, "shape"), "shape", "regex", {"pattern": "x"}),
    ]


def test_uploading_again_updates(secret: Functions, sql: Database, environment: str) -> None:
    ok(upload(secret, [{"id": "a", "task": "first", "answer": "1"}], environment=environment))
    ok(upload(secret, [{"id": "a", "task": "second"}], environment=environment))

    rows = sql.rows(
        "select description, expected_answer, version from public.tasks where environment = %s", environment
    )
    assert rows == [("second", "1", 2)]


def test_uploading_again_leaves_the_validators_that_it_names(
    secret: Functions, callers: Callers, environment: str
) -> None:
    exact, pattern = {"kind": "exact"}, {"kind": "regex", "external_id": "pattern", "spec": {"pattern": "x"}}

    def used() -> list[str]:
        found = ok(secret.get(f"tasks/{task_id(environment, 'a')}"))["validators"]
        return sorted(validator["external_id"] for validator in found)

    for named, expected in (
        ({"validators": [exact, pattern]}, ["default", "pattern"]),
        ({"validators": [pattern]}, ["pattern"]),
        ({"validators": [exact]}, ["default"]),
        ({}, []),
        ({"validators": [pattern]}, ["pattern"]),
    ):
        ok(upload(secret, [{"id": "a", "task": "first", **named}], environment=environment))
        assert used() == expected
    # Whoever may not change the task does not retire its validators.
    assert upload(callers["editor"], [{"id": "a", "task": "mine"}], environment=environment).status_code == 403
    assert used() == ["pattern"]


LINES = b'{"id": "a", "task": "one"}\n\n{"id": "b", "task": "two"}\r\n'
LIST = b'\n[{"id": "a", "task": "one"},\n {"id": "b", "task": "two"}]'


@pytest.mark.parametrize("content_type", ["application/x-ndjson", "application/jsonl", None, "application/json"])
def test_json_lines_are_read_whatever_they_call_themselves(
    secret: Functions, sql: Database, environment: str, content_type: str | None
) -> None:
    headers = dict(secret.headers) | ({"content-type": content_type} if content_type else {})
    assert ok(upload(secret, LINES, headers=headers, environment=environment))["count"] == 2
    rows = sql.rows("select external_id from public.tasks where environment = %s order by 1", environment)
    assert rows == [("a",), ("b",)]


@pytest.mark.parametrize(
    "file",
    [
        ("tasks.json", LIST, "application/json"),
        ("tasks.json", LIST, "application/octet-stream"),
        ("tasks.jsonl", LINES, "application/octet-stream"),
        ("../../etc/passwd", LINES, "text/plain"),
        ("tasks.json", json.dumps({"tasks": json.loads(LIST)}).encode(), "application/json"),
    ],
)
def test_a_file_is_uploaded_as_browsers_do(
    secret: Functions, sql: Database, environment: str, file: tuple[str, bytes, str]
) -> None:
    response = upload(secret, None, files={"file": file}, data={"environment": environment})
    assert ok(response)["count"] == 2
    assert sql.one("select count(*) from public.tasks where environment = %s", environment) == 2


def test_with_a_wrong_entry_nothing_is_written_and_every_wrong_one_is_named(
    secret: Functions, sql: Database, environment: str
) -> None:
    before = sql.fingerprint()
    tasks = [
        {"id": "good", "task": "do it"},
        {"id": "no task"},
        "text",
        {"id": "../../x", "task": "do it"},
        {"id": ["a"], "task": "do it"},
        {"id": "a", "task": "", "metadata": []},
        {"id": "b", "task": "do it", "description": "do it"},
        {"id": "c", "task": "do it", "validators": [{"kind": "exact"}, {"spec": {}}]},
        {"id": "good", "task": "again"},
        {"id": "d", "task": "nul \0"},
        {"id": "e", "task": "do it", "solution": {}},
        {"id": "x" * 501, "task": "do it"},
        {"id": "f", "task": "do it", "answer": [[[]]], "metadata": {"level": 1}, "level": 2},
    ]

    response = upload(secret, tasks, environment=environment)

    assert problems(response) == [
        (1, "task"), (2, None), (3, "id"), (4, "id"), (5, "task"), (5, "metadata"), (6, "description"),
        (7, "validators.1.kind"), (8, "id"), (9, "task"), (10, "solution"), (11, "id"), (12, "metadata.level"),
    ]  # fmt: skip
    assert "12 of 13 tasks are wrong, and nothing was written" in response.json()["error"]["message"]
    assert sql.fingerprint() == before


def with_validators(*validators: object) -> dict[str, object]:
    return {"task": "do it", "validators": list(validators)}


def test_what_python_refuses_of_a_spec_is_refused_with_the_same_field(secret: Functions, sql: Database) -> None:
    before = sql.fingerprint()
    # JSON has no NaN and no infinities.
    specs = [one for one in WRONG_SPECS if not re.search("NaN|Infinity", json.dumps(one))]
    assert len(specs) >= len(WRONG_SPECS) - 2

    found = problems(upload(secret, [with_validators({"kind": kind, "spec": spec}) for kind, spec, _ in specs]))

    assert found == [(index, f"validators.0.{field}") for index, (_, _, field) in enumerate(specs)]
    assert sql.fingerprint() == before


def test_what_python_takes_of_a_spec_is_taken_and_stored(secret: Functions, sql: Database, environment: str) -> None:
    ok(
        upload(
            secret,
            [with_validators({"kind": kind, "spec": spec}) for kind, spec in RIGHT_SPECS],
            environment=environment,
        )
    )

    stored = sql.rows(
        "select kind, spec from public.validators v join public.tasks t on t.id = v.task_id where t.environment = %s",
        environment,
    )
    by_content = lambda row: json.dumps(row, sort_keys=True)  # noqa: E731
    assert sorted(map(list, stored), key=by_content) == sorted(map(list, RIGHT_SPECS), key=by_content)


def test_validators_of_a_task_have_names_of_their_own(secret: Functions) -> None:
    exact = {"kind": "exact"}
    tasks = [
        with_validators(exact, {**exact, "external_id": "default"}),
        with_validators({**exact, "external_id": "1"}, exact),
        with_validators(exact, exact, exact),
    ]

    assert problems(upload(secret, tasks)) == [(0, "validators.1.external_id"), (1, "validators.1.external_id")]


PIECES = [
    *"ab^$.|*+?(){}[]#- \n,18é😀", "(?:", "(?P<n>", "(?P<m>", "(?P=n)", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i)",
    "(?x)", "(?i:", "(?-i:", "(?s-i:", "(?a)", "(?u)", "(?L)", "(?i-", "(?(1)", "(?(n)", "(?#", "{2}", "{1,3}", "{,",
    "{3,1}", "{9999999999}", "[^", "[a-z]", "[z-a]", r"[\d-x]", r"[\8]", "\\", r"\d", r"\b", r"\A", r"\Z", r"\1",
    r"\11", r"\377", r"\400", r"\0", r"\x41", r"\x4", r"\u0041", r"\q", r"\-", r"\]",
]  # fmt: skip


def compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, ValueError):
        return False
    return True


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_patterns_are_refused_if_python_does_not_compile_them(secret: Functions, seed: int) -> None:
    random = Random(seed)
    patterns = ["".join(random.choices(PIECES, k=random.randint(1, 9))) for _ in range(900)]
    # One is wrong in any case, so that nothing is written.
    patterns.append("(")

    found = problems(upload(secret, [with_validators({"kind": "regex", "spec": {"pattern": one}}) for one in patterns]))

    refused = {index for index, _ in found}
    assert [one for index, one in enumerate(patterns) if compiles(one) == (index in refused)] == []


def test_a_line_that_is_no_json_is_named_among_the_others(secret: Functions, sql: Database, environment: str) -> None:
    before = sql.fingerprint()
    lines = b'{"id": "a", "task": "one"}\n{"id": \n[1]\n{"task": 5}\n{"id": "b", "task": "\xc3\xa9"}'
    assert problems(upload(secret, lines, environment=environment)) == [(1, None), (2, None), (3, "task")]
    assert sql.fingerprint() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the body is empty"),
        (b"[]", "there are no tasks in it"),
        (b"{}", "a list of tasks is expected"),
        (b'{"tasks": 5}', "a list of tasks is expected"),
        (b'{"tasks": [], "colour": 1}', "colour: no such field"),
        (b'{"tasks": [{"task": "x"}], "environment": 5}', "environment: a text"),
        (b'{"tasks": [{"task": "x"}], "environment": "\\u0000"}', "environment: a text"),
        (b"[", "the body is not JSON"),
        (b'["\xff"]', "the body is not UTF-8"),
        (b"null", "a list of tasks is expected"),
        (b"[" * 300_000, "the body is nested more than"),
    ],
)
def test_what_is_no_list_of_tasks_is_refused(secret: Functions, content: bytes, message: str) -> None:
    assert refused(upload(secret, content), 400, "invalid_input").startswith(message)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"other": ("a.json", b"[]")}, "other: no such field"),
        ([("file", ("a.json", b"[]")), ("file", ("b.json", b"[]"))], "file: one file is expected"),
        ({"file": ("a.json", b'["\xff"]')}, "file: is not UTF-8"),
        ({"file": ("a.json", b"")}, "the body is empty"),
    ],
)
def test_a_form_without_one_good_file_is_refused(secret: Functions, files: object, message: str) -> None:
    assert refused(upload(secret, None, files=files), 400, "invalid_input").startswith(message)


def test_a_form_that_breaks_off_is_refused(secret: Functions) -> None:
    headers = dict(secret.headers) | {"content-type": "multipart/form-data; boundary=x"}
    refused(
        upload(secret, b'--x\r\ncontent-disposition: form-data; name="file"', headers=headers), 400, "invalid_input"
    )


def test_a_file_of_100_mb_is_refused_however_it_is_sent(secret: Functions, sql: Database) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'[{"task": "'
        for _ in range(100):
            yield b"x" * 1024 * 1024

    before = sql.fingerprint()
    huge = b"x" * 100 * 1024 * 1024
    for options in ({"files": {"file": ("tasks.json", huge)}}, {"content": chunks()}, {"content": huge}):
        response = secret.client.post("/functions/v1/tasks/upload", headers=secret.headers, **options)  # type: ignore[arg-type]
        assert refused(response, 413, "too_large") == f"the body exceeds {LIMIT_BYTES} bytes"
    assert sql.fingerprint() == before


def test_too_many_tasks_are_refused_and_many_are_taken(secret: Functions, sql: Database, environment: str) -> None:
    refused(upload(secret, [{"task": "x"}] * 10_001), 413, "too_large")
    many = [{"id": number, "task": "x", "validators": [{"kind": "exact"}]} for number in range(10_000)]
    assert ok(upload(secret, many, environment=environment))["count"] == 10_000
    assert sql.one("select count(*) from public.tasks where environment = %s", environment) == 10_000


def test_a_file_in_which_everything_is_wrong_has_a_bounded_answer(secret: Functions) -> None:
    response = upload(secret, [{}] * 10_000)
    assert len(problems(response)) == 1000
    assert "10000 of 10000 tasks are wrong" in response.json()["error"]["message"]


def test_an_upload_that_is_repeated_under_a_key_makes_its_tasks_once(
    secret: Functions, callers: Callers, sql: Database, environment: str
) -> None:
    headers = dict(secret.headers) | {"idempotency-key": "once"}
    for _ in range(2):
        ok(upload(secret, [{"task": "no id"}, {"task": "no id"}], headers=headers, environment=environment))
    assert sql.one("select count(*) from public.tasks where environment = %s", environment) == 2
    # The keys of others are their own.
    headers = dict(callers["editor"].headers) | {"idempotency-key": "once"}
    ok(upload(callers["editor"], [{"task": "no id"}], headers=headers, environment=environment))
    assert sql.one("select count(*) from public.tasks where environment = %s", environment) == 3


@pytest.mark.parametrize("who", ["viewer", "stranger"])
def test_who_may_not_write_uploads_nothing(callers: Callers, sql: Database, who: str) -> None:
    before = sql.fingerprint()
    refused(upload(callers[who], [{"id": "a", "task": "x"}]), 403, "forbidden")
    assert sql.fingerprint() == before


def test_an_editor_changes_its_own_tasks_only(callers: Callers, sql: Database, environment: str) -> None:
    ok(upload(callers["editor"], [{"id": "a", "task": "x"}], environment=environment))
    refused(
        upload(callers["other_editor"], [{"id": "b", "task": "y"}, {"id": "a", "task": "y"}], environment=environment),
        403,
        "forbidden",
    )
    assert sql.rows("select description from public.tasks where environment = %s", environment) == [("x",)]
    ok(upload(callers["admin"], [{"id": "a", "task": "z"}], environment=environment))


def test_the_publishable_key_neither_writes_nor_reads(publishable: Functions) -> None:
    refused(upload(publishable, [{"id": "a", "task": "x"}]), 401, "unauthorized")
    refused(publishable.get("tasks"), 401, "unauthorized")
    refused(publishable.get(f"tasks/{UNKNOWN_ID}"), 401, "unauthorized")


# Reading


def test_tasks_are_listed_a_page_at_a_time_with_their_results(
    secret: Functions, callers: Callers, sql: Database, environment: str
) -> None:
    ok(upload(secret, [{"id": str(number), "task": f"task {number}"} for number in range(5)], environment=environment))
    first = task_id(environment, "0")
    for status in ("success", "failed", "pending"):
        sql.one(
            "insert into public.rollouts (task_id, environment, status) values (%s, %s, %s) returning id",
            first,
            environment,
            status,
        )

    found, after = [], ""
    for _ in range(3):
        page = ok(callers["viewer"].get("tasks", environment=environment, limit=2, after=after))
        found += page["tasks"]
        after = page["next"] or ""

    assert after == ""
    assert sorted(task["external_id"] for task in found) == ["0", "1", "2", "3", "4"]
    results = {task["external_id"]: (task["rollouts"], task["success_rate"]) for task in found}
    assert results["0"] == (3, 0.5)
    assert results["1"] == (0, None)
    searched = ok(secret.get("tasks", environment=environment, search="task 3"))
    assert [task["external_id"] for task in searched["tasks"]] == ["3"]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "x"},
        {"after": "x"},
        {"after": "W10"},
        {"after": "WyJub3ciLCJpZCJd"},
        {"colour": "red"},
        {"search": "x" * 501},
    ],
)
@pytest.mark.parametrize("name", ["tasks", "rollouts"])
def test_a_list_that_cannot_be_given_says_why(secret: Functions, name: str, query: dict[str, str]) -> None:
    message = refused(secret.get(name, **query), 400, "invalid_input")
    assert next(iter(query)) in message


def test_a_task_is_found_by_either_id_with_its_validators_and_results(
    secret: Functions, sql: Database, environment: str
) -> None:
    reference = f"task {uuid.uuid4()}/one"
    ok(upload(secret, [{"id": reference, "task": "x", "validators": [{"kind": "exact"}]}], environment=environment))
    made = task_id(environment, reference)
    sql.one(
        "insert into public.rollouts (task_id, environment, status, agent, model)"
        " values (%s, 'e', 'success', 'chat', 'm') returning id",
        made,
    )

    by_id = ok(secret.get(f"tasks/{made}"))
    by_reference = ok(secret.get(f"tasks/{reference.replace('/', '%2F')}"))

    assert by_id == by_reference
    assert by_id["task"]["id"] == made
    assert [validator["kind"] for validator in by_id["validators"]] == ["exact"]
    assert [(result["agent"], result["success_rate"]) for result in by_id["results"]] == [("chat", 1)]


def test_an_id_that_several_environments_have_needs_its_environment(secret: Functions, environment: str) -> None:
    reference = str(uuid.uuid4())
    for name in (environment, f"{environment} 2"):
        ok(upload(secret, [{"id": reference, "task": name}], environment=name))
    assert "environment" in refused(secret.get(f"tasks/{reference}"), 409, "conflict")
    assert ok(secret.get(f"tasks/{reference}", environment=environment))["task"]["description"] == environment


HOSTILE = ["..%2F..%2Fx", "%252e%252e", "x" * 500, "'%20or%201=1", "*", "a,b", "a.b(c)", "%F0%9F%94%B4", UNKNOWN_ID]


@pytest.mark.parametrize("reference", HOSTILE)
def test_an_unknown_task_is_not_found_whatever_it_is_called(secret: Functions, reference: str) -> None:
    refused(secret.client.get(f"/functions/v1/tasks/{reference}", headers=secret.headers), 404, "not_found")


@pytest.mark.parametrize("reference", ["%00", "a%00b", "x" * 501, "%ff", "%ED%A0%80"])
def test_what_no_task_can_be_called_is_refused(secret: Functions, reference: str) -> None:
    refused(secret.client.get(f"/functions/v1/tasks/{reference}", headers=secret.headers), 400, "invalid_input")


@pytest.mark.parametrize("path", ["tasks/../x", "tasks/%2e%2e/x", "tasks/a/b", "tasks/a/b/c", "tasks//a"])
def test_a_path_that_leads_nowhere_is_not_found(secret: Functions, path: str) -> None:
    assert secret.client.get(f"/functions/v1/{path}", headers=secret.headers).status_code == 404
