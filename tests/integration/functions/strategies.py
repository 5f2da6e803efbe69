"""Requests good and bad: valid ones, and what a careless or hostile client makes of them."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from .api import UNKNOWN_ID

Json = Any
Draw = Callable[[st.SearchStrategy[Any]], Any]

_RAW = "\x1f"
"""Marks a string whose inside is to stand in the body as it is: what json.dumps would not write."""


def raw(text: str) -> str:
    return f"{_RAW}{text}{_RAW}"


def encode(body: Json) -> bytes:
    """The body as JSON, with the raw parts put in."""
    mark = json.dumps(_RAW)[1:-1]
    parts = json.dumps(body).replace(f'"{mark}', mark).replace(f'{mark}"', mark).split(mark)
    # Every second part is raw; within it json.dumps has only escaped quotes.
    return "".join(part.replace('\\"', '"') if i % 2 else part for i, part in enumerate(parts)).encode()


TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "",
            " ",
            "🔴🤖",
            "x" * 500,
            "é" * 501,
            "y" * 5000,
            "null",
            "2026-01-01T00:00:00Z",
            "'; drop table rollouts; --",
        ]
    ),
)

NUMBERS = st.one_of(
    st.integers(-10, 10),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [
            2**31 - 1,
            2**31,
            2**53 - 1,
            2**53,
            2**63 - 1,
            2**63,
            -(2**63) - 1,
            10**30,
            5e-324,
            1.7976931348623157e308,
            -0.0,
        ]
    ),
)

JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)

NASTY: st.SearchStrategy[Json] = st.one_of(
    JSON_VALUES,
    st.sampled_from(
        [
            None,
            [],
            {},
            "a\0b",
            "\ud800",
            "\udfff\ud800",
            {"\0": 1},
            {"\ud83d": 1},
            {"__proto__": {"polluted": True}, "constructor": None},
            "NaN",
            "-Infinity",
            "infinity",
            "not-a-uuid",
            "00000000-0000-0000-0000-000000000000",
            "00000000000040008000000000000000",
            "+299999-12-31T23:59:59Z",
            "0000-00-00T00:00:00Z",
            "2024-02-30T25:61:61+99:99",
            "9999-12-31T23:59:59.999999999+14:59",
            raw("1e400"),
            raw("-1e400"),
            raw("1e-400"),
            raw("1" + "0" * 400),
            raw("0." + "1" * 300),
            raw("[" * 150 + "]" * 150),
            raw("[" * 199 + "]" * 199),
            raw("[" * 20_000 + "]" * 20_000),
            raw('{"a":' * 5_000 + "1" + "}" * 5_000),
            raw('{"a": 1, "a": 2}'),
            raw("NaN"),
            raw("01"),
            raw("truе"),
            "z" * 100_000,
        ]
    ),
)

# New each time: Hypothesis would draw the same ones again, and a known id changes nothing.
UUIDS = st.builds(uuid.uuid4).map(str)


def maybe(strategy: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """A field that may be null; `fields` also leaves it out."""
    return st.none() | strategy


def fields(
    required: dict[str, st.SearchStrategy[Json]], optional: dict[str, st.SearchStrategy[Json]]
) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(required, optional={name: maybe(strategy) for name, strategy in optional.items()})


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1f"), min_size=1, max_size=20)
PROSE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1f"), max_size=60)
REALS = (
    st.sampled_from(["NaN", "Infinity", "-Infinity"])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**25), 10**25)
)
CLEAN_JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PROSE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PROSE, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(PROSE, CLEAN_JSON, max_size=3)


def known(pool: list[str]) -> st.SearchStrategy[str]:
    """An id that is known, most of the time."""
    return st.sampled_from([*pool * 3, UNKNOWN_ID, pool[0].upper()])


def good_bodies(
    name: str, runs: list[str], rollouts: list[str], groups: list[str], tasks: list[str]
) -> st.SearchStrategy[Json]:
    """Bodies that the document of a function calls valid."""
    steps = st.integers(0, 2**31 - 1)
    calls = fields(
        {"tool_name": NAMES},
        {
            "tool_input": CLEAN_JSON,
            "tool_output": CLEAN_JSON,
            "success": st.booleans(),
            "error_message": PROSE,
            "execution_time_ms": st.floats(0, 1e300) | st.integers(0, 10**20),
        },
    )
    statuses = ["success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"]
    return {
        "submit-rollout": fields(
            {"episode_number": st.integers(0, 2**53 - 1)},
            {
                "id": UUIDS,
                "training_run_id": known(runs),
                "environment": NAMES,
                "task_description": PROSE,
                "metadata": OBJECTS,
                "task_id": known(tasks),
                "group_id": known(groups),
                "seed": st.integers(-(2**53) + 1, 2**53 - 1),
                "model": PROSE,
                "source": st.sampled_from(["training", "evaluation", "baseline", "manual", "import"]),
            },
        ),
        "log-agent-state": fields(
            {"rollout_id": known(rollouts), "step_number": steps},
            {
                "id": UUIDS,
                "observation": PROSE,
                "action": PROSE,
                "thought": PROSE,
                "memory_summary": PROSE,
                "tool_calls": st.lists(calls, max_size=3),
                "reward": fields({"value": REALS}, {"type": NAMES, "details": CLEAN_JSON}),
            },
        ),
        "complete-rollout": fields(
            {"rollout_id": known(rollouts), "status": st.sampled_from(statuses)},
            {
                "total_reward": REALS,
                "step_count": steps,
                "error": PROSE,
                "result": CLEAN_JSON,
                "metadata": OBJECTS,
                "message": PROSE,
                "change_id": UUIDS,
            },
        ),
        "metrics": st.builds(
            lambda metrics, known_fields: metrics | known_fields,
            st.dictionaries(NAMES, maybe(REALS), min_size=1, max_size=5),
            fields(
                {"runId": known(runs), "step": st.integers(0, 2**53 - 1)},
                {"id": UUIDS, "timestamp": st.datetimes().map(lambda moment: f"{moment.isoformat()}Z")},
            ),
        ),
    }[name]


@st.composite
def spoiled(draw: Draw, bodies: st.SearchStrategy[Json]) -> Json:
    """A body with something in it replaced, removed, added or wrapped."""
    # Copies: what is drawn may be the same object each time.
    body = copy.deepcopy(draw(bodies))
    nasty = NASTY.map(copy.deepcopy)
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(body))
        holder, key = draw(st.sampled_from(places)) if places else (None, None)
        match draw(st.sampled_from(["replace", "replace", "replace", "remove", "add", "wrap"])):
            case "replace" if holder is not None:
                holder[key] = draw(nasty)
            case "remove" if holder is not None:
                del holder[key]
            case "wrap" if holder is not None:
                holder[key] = [holder[key]]
            case "add" if isinstance(body, dict):
                body[draw(TEXTS)] = draw(nasty)
            case _:
                return draw(nasty)
    return body


def _places(value: Json) -> list[tuple[Json, Any]]:
    """Every holder and key there is inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((value, key), *_places(inner))]
