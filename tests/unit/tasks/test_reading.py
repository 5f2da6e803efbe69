"""Task sets as files: what is good can be imported, and all else is reported with its place."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.tasks import Problem, TaskSet, iterate_tasks, read_tasks


def read(folder: Path, content: str | bytes, name: str = "tasks.json", **options: Any) -> TaskSet:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return read_tasks(path, **options)


def test_the_plain_form_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, '[{"id": "a", "task": "How many?", "answer": "3"}, {"id": 7, "task": "Which?"}]')

    assert found.problems == []
    assert found.tasks == [
        {"external_id": "a", "description": "How many?", "expected_answer": "3"},
        {"external_id": "7", "description": "Which?"},
    ]


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("tasks.json", "[{0}, {1}]"),
        ("tasks.json", "\ufeff \r\n[\r\n{0}\r\n,\r\n{1}\r\n]\r\n"),
        ("tasks.json", '{{"name": "set", "about": {{"x": [1]}}, "tasks": [{0}, {1}], "more": 1}}'),
        ("tasks.json", "{0}\n{1}\n"),
        ("tasks.jsonl", "{0}\n\n{1}"),
        ("tasks.JSONL", "\ufeff{0}\r\n{1}\r\n"),
        ("tasks", "{0}\n{1}"),
    ],
)
def test_lists_objects_and_lines_are_told_apart(tmp_path: Path, name: str, template: str) -> None:
    entries = ('{"id": 1, "task": "größer? 🌍"}', '{"id": 2, "task": "kleiner?"}')
    found = read(tmp_path, template.format(*entries), name)

    assert found.problems == []
    assert [task["description"] for task in found.tasks] == ["größer? 🌍", "kleiner?"]


def test_all_fields_are_read(tmp_path: Path) -> None:
    validator = {"kind": "json", "spec": {"unordered": True}, "external_id": "list"}
    entry = {
        "external_id": "org/one",
        "description": "Do it.",
        "expected_answer": {"a": [1, 2.5, "ü", None]},
        "name": "One",
        "split": "test",
        "environment": {"kind": "process", "services": {"web": {"command": "serve"}}},
        "validators": [validator, {"kind": "regex", "spec": {"pattern": "x"}}],
        "solution": {"answer": 5},
        "metadata": {"level": 3},
        "difficulty": "hard",
    }
    found = read(tmp_path, json.dumps([entry, {**entry, "external_id": "two"}]))

    assert found.problems == []
    task = found.tasks[0]
    (environment,) = found.environments
    assert environment == {
        "name": task["environment"],
        "kind": "process",
        "spec": {"services": {"web": {"command": "serve"}}},
    }
    assert json.loads(task["expected_answer"]) == entry["expected_answer"]
    assert task["metadata"] == {"level": 3, "difficulty": "hard"}
    assert task["validators"] == [validator, {"kind": "regex", "spec": {"pattern": "x"}, "external_id": "1"}]
    assert task["solution"] == {"answer": 5}
    assert (task["name"], task["split"], task["external_id"]) == ("One", "test", "org/one")


def test_the_given_environment_is_that_of_tasks_without_one(tmp_path: Path) -> None:
    found = read(tmp_path, '[{"task": "a"}, {"task": "b", "environment": "own"}]', environment="given")

    assert [task["environment"] for task in found.tasks] == ["given", "own"]
    assert found.environments == []


BAD_ENTRIES = {
    "5": None,
    "null": None,
    '"text"': None,
    "[]": None,
    "{}": "description",
    '{"task": ""}': "description",
    '{"task": " \\n"}': "description",
    '{"task": 5}': "description",
    '{"task": ["a"]}': "description",
    '{"task": "a\\u0000"}': "description",
    '{"task": "a\\ud800"}': "description",
    '{"task": "a", "description": "b"}': "description",
    '{"id": "../../x", "task": "a"}': "external_id",
    '{"id": "..", "task": "a"}': "external_id",
    '{"id": "/etc/passwd", "task": "a"}': "external_id",
    '{"id": "a/", "task": "a"}': "external_id",
    '{"id": "..\\\\x", "task": "a"}': "external_id",
    '{"id": "", "task": "a"}': "external_id",
    '{"id": "a\\nb", "task": "a"}': "external_id",
    '{"id": true, "task": "a"}': "external_id",
    '{"id": 1.5, "task": "a"}': "external_id",
    f'{{"id": "{"x" * 501}", "task": "a"}}': "external_id",
    '{"task": "a", "answer": {"x": "\\u0000"}}': "expected_answer.x",
    '{"task": "a", "metadata": []}': "metadata",
    '{"task": "a", "metadata": {"level": 1}, "level": 2}': "metadata.level",
    '{"task": "a", "other": ["\\ud83d"]}': "metadata.other[0]",
    f'{{"task": "a", "deep": {"[" * 150}{"]" * 150}}}': "metadata.deep",
    '{"task": "a", "solution": "rm -rf"}': "solution",
    '{"task": "a", "solution": {"script": 5}}': "solution.script",
    '{"task": "a", "solution": {"actions": {}}}': "solution.actions",
    '{"task": "a", "validators": {"kind": "json"}}': "validators",
    '{"task": "a", "validators": ["json"]}': "validators[0]",
    '{"task": "a", "validators": [{"kind": "magic"}]}': "validators[0].kind",
    '{"task": "a", "validators": [{"kind": "json", "unordered": true}]}': "validators[0].unordered",
    '{"task": "a", "validators": [{"kind": "json"}, {"kind": "regex", "spec": {}}]}': "validators[1].spec.pattern",
    '{"task": "a", "validators": [{"kind": "json", "spec": []}]}': "validators[0].spec",
    '{"task": "a", "validators": [{"kind": "json"}, {"kind": "json", "external_id": "default"}]}': (
        "validators[1].external_id"
    ),
    '{"task": "a", "environment": ""}': "environment",
    '{"task": "a", "environment": 5}': "environment",
    '{"task": "a", "environment": {}}': "environment.kind",
    '{"task": "a", "environment": {"kind": "docker", "name": 5}}': "environment.name",
    '{"task": "a", "split": 1}': "split",
    '{"task": "a", "n": NaN}': None,
    f'{{"task": "a", "n": {"9" * 5000}}}': None,
    '{"task": "a"': None,
    "[" * 100_000: None,
}


@pytest.mark.parametrize("entry", BAD_ENTRIES, ids=range(len(BAD_ENTRIES)))
def test_a_bad_entry_is_reported_by_place_and_field_and_its_neighbours_are_read(tmp_path: Path, entry: str) -> None:
    found = read(tmp_path, f'{{"task": "before"}}\n{entry}\n{{"task": "after"}}\n', "tasks.jsonl")

    assert [task["description"] for task in found.tasks] == ["before", "after"]
    (problem,) = found.problems
    assert problem.where == "line 2"
    if BAD_ENTRIES[entry] is None:
        assert problem.field is None
    else:
        assert (problem.field or "").startswith(BAD_ENTRIES[entry] or "")
    assert len(str(problem)) < 500


def test_bad_entries_of_a_list_are_told_by_their_number(tmp_path: Path) -> None:
    found = read(tmp_path, '[{"task": "a"}, 5, {"task": ""}, {"task": "b"}]')

    assert [(problem.where, problem.field) for problem in found.problems] == [
        ("entry 2", None),
        ("entry 3", "description"),
    ]
    assert [task["description"] for task in found.tasks] == ["a", "b"]


@pytest.mark.parametrize("rest", [", {]", "", " 5]", ', {"task": "b"}', "] 5", ", \xff]"])
def test_what_comes_before_a_broken_place_is_read(tmp_path: Path, rest: str) -> None:
    found = read(tmp_path, b'[{"task": "a"}' + rest.encode("latin-1"))

    assert found.tasks[0] == {"description": "a"}
    assert "nothing after it was read" in found.problems[-1].message


def test_a_byte_that_is_no_text_spoils_its_own_entry_only(tmp_path: Path) -> None:
    for name, content in (
        ("a.json", b'[{"task": "a"}, {"task": "\xff"}, {"task": "b"}]'),
        ("a.jsonl", b'{"task": "a"}\n{"task": "\xff"}\n{"task": "b"}'),
    ):
        found = read(tmp_path, content, name)
        assert [task["description"] for task in found.tasks] == ["a", "b"]
        assert len(found.problems) == 1


def test_duplicates_are_reported_with_the_first_place(tmp_path: Path) -> None:
    lines = ['{"id": 1, "task": "a"}', '{"id": "1", "task": "b"}', '{"id": 1, "task": "c", "environment": "other"}']
    found = read(tmp_path, "\n".join(lines), "tasks.jsonl")

    assert [str(problem) for problem in found.problems] == ["line 2: external_id: '1' is also that of line 1"]
    assert [task["description"] for task in found.tasks] == ["a", "c"]


def test_two_environments_of_one_name_are_reported(tmp_path: Path) -> None:
    made = [
        {"task": "a", "environment": {"name": "web", "kind": "none", "url": url}} for url in ("http://a", "http://b")
    ]
    found = read(tmp_path, json.dumps(made))

    assert [problem.field for problem in found.problems] == ["environment.name"]
    assert len(found.environments) == 1


def test_the_specs_of_environments_are_checked_by_who_knows_them(tmp_path: Path) -> None:
    def check(_spec: Any) -> None:
        raise InvalidInput("services.web.port: it is missing", field="services.web.port")

    found = read(tmp_path, '[{"task": "a", "environment": {"kind": "docker"}}]', check_environment=check)

    assert [problem.field for problem in found.problems] == ["environment.services.web.port"]


def test_columns_choose_and_rename(tmp_path: Path) -> None:
    lines = '{"question": "a?", "gold": 3, "noise": "x"}\n{"noise": 1}'
    found = read(tmp_path, lines, "q.jsonl", columns={"task": "question", "answer": "gold"})

    assert found.tasks == [{"description": "a?", "expected_answer": "3"}]
    assert [(problem.where, problem.field) for problem in found.problems] == [("line 2", "description")]


def test_what_is_not_there_or_no_task_set_raises(tmp_path: Path) -> None:
    with pytest.raises(LocalFileError):
        read_tasks(tmp_path / "nothing.json")
    with pytest.raises(InvalidInput):
        read_tasks(tmp_path)
    with pytest.raises(InvalidInput):
        read_tasks(5)
    assert read(tmp_path, "") == TaskSet()
    assert read(tmp_path, "[]") == TaskSet()


@pytest.mark.parametrize("form", ["lines", "list"])
def test_a_large_file_is_read_with_little_of_it_in_memory(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("tasks.jsonl" if form == "lines" else "tasks.json")
    entry = json.dumps({"task": "x" * 10_000})
    separator, start, end = ("\n", "", "") if form == "lines" else (",", "[", "]")
    with path.open("w") as file:
        file.write(start + entry)
        for _ in range(2999):
            file.write(separator + entry)
        file.write(end)
    tracemalloc.start()

    count = sum(1 for each in iterate_tasks(path) if not isinstance(each, Problem))

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 3000
    assert peak_bytes < 10_000_000 < path.stat().st_size


def test_an_entry_that_is_too_long_is_reported(tmp_path: Path) -> None:
    long = '{"task": "' + "x" * 17_000_000 + '"}'

    found = read(tmp_path, f'{{"task": "a"}}\n{long}\n{{"task": "b"}}', "tasks.jsonl")
    assert [problem.where for problem in found.problems] == ["line 2"]
    assert len(found.tasks) == 2
    found = read(tmp_path, f'[{{"task": "a"}}, {long[:-1]}')
    assert [problem.where for problem in found.problems] == ["entry 2"]


OURS = "id task answer external_id description expected_answer validators solution metadata split name environment"
KEYS = st.sampled_from([*OURS.split(), "kind", "spec", "other", "../x", "\0"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["json", "../a", "\0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ENTRIES = st.dictionaries(KEYS, JSON, max_size=6) | JSON


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=st.lists(ENTRIES, max_size=5), is_list=st.booleans())
def test_each_entry_is_a_task_or_a_problem_and_nothing_is_invented(
    tmp_path: Path, entries: list[Any], is_list: bool
) -> None:
    texts = [json.dumps(entry) for entry in entries]
    content = f"[{','.join(texts)}]" if is_list else "\n".join(texts)
    found = read(tmp_path, content, "tasks.json" if is_list else "tasks.jsonl")

    is_cut = any("nothing after it" in problem.message for problem in found.problems)
    assert is_cut or len(found.tasks) + len(found.problems) == len(entries)
    known = {"external_id", "description", "expected_answer", "name", "split", "environment"}
    known |= {"validators", "solution", "metadata"}
    for task in found.tasks:
        assert task.keys() <= known
        assert task["description"].strip()
        assert task["description"] in [
            entry.get(name) for entry in entries for name in ("task", "description") if isinstance(entry, dict)
        ]
        json.dumps(task, allow_nan=False).encode()
        assert "\\u0000" not in json.dumps(task)
        assert ".." not in (task.get("external_id") or "").split("/")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200) | st.text(alphabet='[]{}",:\\ntask1 \n', max_size=60).map(str.encode),
    name=st.sampled_from(["a.json", "a.jsonl"]),
)
def test_whatever_a_file_contains_reading_it_ends_well(tmp_path: Path, content: bytes, name: str) -> None:
    read(tmp_path, content, name)
