"""Finding rollouts and reading them, however the walk is interrupted and whatever lies in them."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from .examples import one_of_each
from .writing import Connection, Record, acting_as, new_group, new_id, new_member, new_rollout, new_run, row, write

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["Red Ball", "100%", "a_b", 'it\'s "so"', "ÄRGER", "back\\slash", "a.*b", "nothing"]
STATUSES = ["success", "failed", "error", "running"]
TOOLS = ["search", "click"]


def find(db: Connection, filters: Record | None = None, **options: Any) -> Record:
    named = "".join(f", {name} => %({name})s" for name in options)
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in options.items()}
    answer = db.execute(
        f"select public.find_rollouts(%(filters)s{named}) as answer", {"filters": Jsonb(filters or {}), **values}
    ).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def walk(db: Connection, filters: Record, **options: Any) -> list[Record]:
    """Follow `next` to the end; return all that was found."""
    found, after = [], None
    for _ in range(5000):
        page = find(db, filters, after=after, **options)
        assert len(page["rollouts"]) <= options.get("page_size", 50)
        found += page["rollouts"]
        after = page["next"]
        if after is None:
            return found
        assert page["searched"] > 0, "a page that did not look at anything would never end"
    raise AssertionError("the walk does not end")


def call(db: Connection, function: str, *arguments: Any) -> Any:
    places = ", ".join(["%s"] * len(arguments))
    answer = db.execute(f"select public.{function}({places}) as answer", arguments).fetchone()
    assert answer is not None
    return answer["answer"]


# Finding -------------------------------------------------------------------------------------------------------------


class World:
    """Rollouts of two runs, known to the test as they were written, all with a mark of their own."""

    def __init__(self, db: Connection) -> None:
        chance = random.Random(7)
        self.environment = f"environment {new_id()}"
        self.runs = [new_run(db), new_run(db)]
        self.group = new_group(db, self.runs[0])
        self.task = new_id()
        write(db, {"tasks": [{"id": self.task, "description": "find it"}]})
        self.places = {
            "run 0": self.runs[0],
            "run 1": self.runs[1],
            "group": self.group,
            "task": self.task,
            "environment": self.environment,
        }
        self.rollouts = [self._rollout(chance, number) for number in range(60)]
        self.turns = [self._turn(chance, rollout, step) for rollout in self.rollouts for step in range(3)]
        records = [{name: value for name, value in r.items() if name != "turns"} for r in self.rollouts]
        write(db, {"rollouts": records, "agent_states": self.turns})
        db.execute(
            "update public.rollouts set rewound_at = now() where id = any (%s)", [[r["id"] for r in records[::9]]]
        )
        for rollout in self.rollouts[::9]:
            rollout["rewound"] = True

    def _rollout(self, chance: random.Random, number: int) -> Record:
        run = chance.choice(self.runs)
        in_group = run == self.runs[0] and chance.random() < 0.4
        place = {"group_id": self.group} if in_group else {"training_run_id": run}
        return {
            "id": new_id(),
            **place,
            "environment": self.environment if chance.random() < 0.8 else self.environment + " b",
            "task_id": self.task if chance.random() < 0.5 else None,
            "task_description": chance.choice([None, *WORDS]),
            "error": chance.choice([None, None, *WORDS]),
            "status": chance.choice(STATUSES),
            "source": chance.choice(["training", "evaluation", "manual"]),
            "total_reward": chance.choice([None, "NaN", "Infinity", "-Infinity", 0, 0.5, 0.5, 1, -2.25]),
            "step_count": chance.choice([None, 1, 2, 5]),
            "step": None if in_group else chance.choice([None, 1, 2, 3]),
            "model": chance.choice(["small", "large", None]),
            # Few times, so that many share one.
            "created_at": (START + timedelta(seconds=number // 6)).isoformat(),
        }

    def _turn(self, chance: random.Random, rollout: Record, step: int) -> Record:
        calls = [
            {
                "tool_name": chance.choice(TOOLS),
                "tool_input": {"q": chance.choice(["red ball", "nil"])},
                "tool_output": chance.choice([None, *WORDS]),
                "success": chance.choice([True, True, False, None]),
            }
            for _ in range(chance.choice([0, 0, 1, 2]))
        ]
        turn = {"id": new_id(), "rollout_id": rollout["id"], "step_number": step, "tool_calls": calls}
        turn |= {name: chance.choice([None, None, *WORDS]) for name in ("observation", "action", "thought")}
        rollout.setdefault("turns", []).append(turn)
        return turn


@pytest.fixture(scope="module")
def world(database: Any) -> World:
    with database.connect() as db:
        return World(db)


def reward_of(rollout: Record) -> float | None:
    return None if rollout["total_reward"] is None else float(rollout["total_reward"])


def has_text(rollout: Record, text: str) -> bool:
    texts = [rollout["task_description"], rollout["error"]]
    for turn in rollout["turns"]:
        texts += [turn["observation"], turn["action"], turn["thought"]]
        for made in turn["tool_calls"]:
            texts += [f'{{"q": "{made["tool_input"]["q"]}"}}', made["tool_output"]]
    return any(text.lower() in found.lower() for found in texts if found is not None)


def tool_fits(rollout: Record, tool: str | None, failed: bool | None) -> bool:
    calls = [made for turn in rollout["turns"] for made in turn["tool_calls"] if tool in (None, made["tool_name"])]
    if failed is None:
        return bool(calls)
    return any(made["success"] is False for made in calls) == failed and (failed or tool is None or bool(calls))


def in_range(value: float | None, low: float | None, high: float | None) -> bool:
    if value is None or math.isnan(value):
        return False
    return (low is None or value >= low) and (high is None or value <= high)


def fits(world: World, rollout: Record, filters: Record) -> bool:
    """Say of a rollout, as it was written, whether it is to be found."""
    f = filters

    def one_of(name: str) -> bool:
        return name not in f or rollout[name] in ([f[name]] if isinstance(f[name], str) else f[name])

    run = world.runs[0] if "group_id" in rollout else rollout["training_run_id"]
    ranges = {
        "reward": reward_of(rollout),
        "turns": rollout["step_count"],
        "step": rollout["step"],
        "created": datetime.fromisoformat(rollout["created_at"]).timestamp(),
    }
    for name, value in ranges.items():
        bounds = [f.get(f"{name}_{end}") for end in ("from", "to")]
        low, high = (datetime.fromisoformat(b).timestamp() if isinstance(b, str) else b for b in bounds)
        if (low, high) != (None, None) and not in_range(value, low, high):
            return False
    return (
        f.get("training_run_id", run) == run
        and f.get("group_id", rollout.get("group_id")) == rollout.get("group_id")
        and all(f.get(name, rollout[name]) == rollout[name] for name in ("task_id", "environment", "model"))
        and one_of("status")
        and one_of("source")
        and (("tool" not in f and "tool_failed" not in f) or tool_fits(rollout, f.get("tool"), f.get("tool_failed")))
        and ("text" not in f or has_text(rollout, f["text"]))
        and (f.get("include_rewound", False) or "rewound" not in rollout)
    )


def in_order(rollouts: list[Record], sort: str) -> list[str]:
    """Sort as the database is to: by age, or by reward with what is not a number at the end."""
    by_id = sorted(rollouts, key=lambda r: str(r["id"]), reverse=sort in ("oldest", "reward_high"))
    if sort in ("newest", "oldest"):
        by_id.sort(key=lambda r: str(r["created_at"]), reverse=sort == "newest")
    else:
        sign = -1 if sort == "reward_high" else 1
        ranked = {r["id"]: reward_of(r) for r in by_id}

        def rank(rollout: Record) -> tuple[int, float]:
            reward = ranked[rollout["id"]]
            return (2, 0) if reward is None else (1, 0) if math.isnan(reward) else (0, sign * reward)

        by_id.sort(key=rank)
    return [str(r["id"]) for r in by_id]


ITS_DAYS = {
    "created_from": (START - timedelta(days=1)).isoformat(),
    "created_to": (START + timedelta(days=1)).isoformat(),
}

# A place of the world stands for its id.
FILTERS: dict[str, Record] = {
    "none": {},
    "run": {"training_run_id": "run 1"},
    "group": {"group_id": "group"},
    "task": {"task_id": "task"},
    "run and environment": {"training_run_id": "run 0", "environment": "environment"},
    "status": {"status": "error"},
    # Walked by age, of which other tests have more: within the world's own days.
    "statuses": {"status": ["error", "success"], **ITS_DAYS},
    "run and status": {"training_run_id": "run 0", "status": ["failed"]},
    "source": {"source": "manual"},
    "sources": {"source": ["manual", "evaluation"]},
    "step": {"training_run_id": "run 1", "step_from": 2, "step_to": 2},
    "steps with the rewound": {"training_run_id": "run 1", "step_from": 2, "include_rewound": True},
    "reward from": {"reward_from": 0.5},
    "reward to": {"reward_to": 0.5},
    "reward between": {"training_run_id": "run 1", "reward_from": -2.25, "reward_to": 0.5},
    "turns": {"turns_from": 2, "turns_to": 4},
    "model": {"model": "large"},
    "tool": {"tool": "click"},
    "tool that failed": {"tool": "click", "tool_failed": True},
    "tool that did not fail": {"tool": "click", "tool_failed": False},
    "any tool that failed": {"tool_failed": True},
    "no tool that failed": {"tool_failed": False},
    "created": {
        "created_from": (START + timedelta(seconds=2)).isoformat(),
        "created_to": "2026-01-01T00:00:06Z",
    },
    "rewound": {"include_rewound": True},
    "text and tool": {"text": "ball", "tool": "search", "status": ["success", "failed"], **ITS_DAYS},
    "nothing there": {"text": "not to be found"},
} | {f"text {word}": {"text": word} for word in ["rEd bALL", "%", "_", "'", '"', "ärger", "\\", ".*", "é"]}


@pytest.mark.parametrize("sort", ["newest", "oldest", "reward_high", "reward_low"])
@pytest.mark.parametrize("name", FILTERS)
def test_what_is_found_is_what_fits_however_the_walk_is_cut(db: Connection, world: World, name: str, sort: str) -> None:
    filters = {key: world.places.get(str(value), value) for key, value in FILTERS[name].items()}
    if "group_id" not in filters and "task_id" not in filters:
        # The database is shared: only the world's own are looked for.
        filters = {"environment": world.environment} | filters
    if sort.startswith("reward"):
        filters = {"training_run_id": world.runs[0]} | filters
    expected = in_order([r for r in world.rollouts if fits(world, r, filters)], sort)
    assert expected or name in ("nothing there", "text é"), "this would prove nothing"
    asked = filters | {"sort": sort}
    cuts: list[dict[str, int]] = [
        {},
        {"page_size": 1, "budget_ms": 0},
        {"page_size": 7, "budget_ms": 1},
        {"page_size": 3},
    ]
    for options in cuts:
        assert [r["id"] for r in walk(db, asked, **options)] == expected, options


def test_a_cut_walk_says_how_far_it_got(db: Connection, world: World) -> None:
    filters = {"training_run_id": world.runs[0], "text": "not to be found"}
    page = find(db, filters, budget_ms=0)
    assert (page["rollouts"], page["searched"]) == ([], 1)
    assert page["next"]["created_at"] == page["searched_to"]

    whole = find(db, filters)
    assert whole["next"] is None
    assert (
        whole["searched"]
        == find(db, {"training_run_id": world.runs[0], "include_rewound": True}, page_size=1000)["searched"]
    )


def test_a_full_last_page_is_the_end(db: Connection) -> None:
    run_id = new_run(db)
    for _ in range(3):
        new_rollout(db, run_id)
    assert find(db, {"training_run_id": run_id}, page_size=3)["next"] is None
    assert find(db, {"training_run_id": run_id}, page_size=2)["next"] is not None


def test_a_walk_over_many_of_the_same_moment_ends_and_repeats_nothing(db: Connection) -> None:
    run_id = new_run(db)
    moment = START.isoformat()
    ids = [new_id() for _ in range(500)]
    write(
        db, {"rollouts": [{"id": i, "training_run_id": run_id, "environment": "a", "created_at": moment} for i in ids]}
    )
    assert [r["id"] for r in walk(db, {"training_run_id": run_id}, page_size=7)] == sorted(ids)


def test_a_row_says_what_the_list_shows(db: Connection) -> None:
    records = one_of_each(name="my run")
    records["rollouts"] |= {"task_description": "d" * 1000, "error": "e" * 1000}
    write(db, {kind: [record] for kind, record in records.items()})
    rollout = records["rollouts"]
    [found] = find(db, {"training_run_id": rollout["training_run_id"]})["rollouts"]
    kept = row(db, "rollouts", rollout["id"])
    same = set(found) - {"run_name", "overridden", "match", "task_description", "error"}
    assert {name: found[name] for name in same} == {name: kept[name] for name in same}
    assert (found["run_name"], found["overridden"], found["match"]) == ("my run", False, None)
    assert (found["task_description"], found["error"]) == ("d" * 300, "e" * 300)


@pytest.mark.parametrize(
    ("turn", "field"),
    [
        ({"observation": "x" * 500 + "A Needle" + "y" * 500}, "observation"),
        ({"thought": "needle"}, "thought"),
        ({"action": "NEEDLE!"}, "action"),
        ({"memory_summary": "of a needle"}, "memory_summary"),
        ({"tool_calls": [{"tool_name": "t", "tool_input": {"a": "needle"}}]}, "tool_input"),
        ({"tool_calls": [{"tool_name": "t"}, {"tool_name": "t", "tool_output": "a needle"}]}, "tool_output"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_match_names_the_first_turn_and_field(db: Connection, turn: Record, field: str) -> None:
    run_id = new_run(db)
    rollout_id = new_rollout(db, run_id)
    turns: list[Record] = [
        {"observation": "hay nee", "thought": "dle"},
        {"action": "hay"},
        turn,
        {"observation": "needle"},
    ]
    write(db, {"agent_states": [{"rollout_id": rollout_id, "step_number": n, **t} for n, t in enumerate(turns)]})
    [found] = find(db, {"training_run_id": run_id, "text": "needle"})["rollouts"]
    assert (found["match"]["step_number"], found["match"]["field"]) == (2, field)
    assert "needle" in found["match"]["snippet"].lower()
    assert len(found["match"]["snippet"]) <= 160


def test_text_across_two_fields_is_not_found_but_a_later_one_is(db: Connection) -> None:
    run_id = new_run(db)
    rollout_id = new_rollout(db, run_id)
    turns = [{"observation": "one", "thought": "two"}, {"action": "One\nTwo"}]
    write(db, {"agent_states": [{"rollout_id": rollout_id, "step_number": n, **t} for n, t in enumerate(turns)]})
    [found] = find(db, {"training_run_id": run_id, "text": "one\ntwo"})["rollouts"]
    assert (found["match"]["step_number"], found["match"]["field"]) == (1, "action")
    assert [m["step_number"] for m in call(db, "search_rollout", rollout_id, "one\ntwo")["matches"]] == [1]


BAD_FILTERS: list[tuple[Any, str]] = [
    ({"colour": "red"}, "colour"),
    ({"training_run_id": "seven"}, "training_run_id"),
    ({"group_id": 7}, "group_id"),
    ({"task_id": []}, "task_id"),
    ({"environment": 1}, "environment"),
    ({"status": []}, "status"),
    ({"status": ["failed", 1]}, "status"),
    ({"source": {"a": 1}}, "source"),
    ({"step_from": 1.5}, "step_from"),
    ({"step_to": "2"}, "step_to"),
    ({"step_to": 1e30}, "step_to"),
    ({"reward_from": "NaN"}, "reward_from"),
    ({"reward_to": True}, "reward_to"),
    ({"turns_from": [1]}, "turns_from"),
    ({"turns_to": "many"}, "turns_to"),
    ({"model": False}, "model"),
    ({"tool": ["a"]}, "tool"),
    ({"tool_failed": "yes"}, "tool_failed"),
    ({"text": 1}, "text"),
    ({"text": "x" * 1001}, "text"),
    ({"created_from": "yesteryear"}, "created_from"),
    ({"created_to": 5}, "created_to"),
    ({"include_rewound": 1}, "include_rewound"),
    ({"sort": "best"}, "sort"),
    ({"sort": "reward_high"}, "sort"),
    ([1], "filters"),
]


@pytest.mark.parametrize(("filters", "name"), BAD_FILTERS, ids=[str(bad)[:40] for bad, _ in BAD_FILTERS])
def test_a_bad_filter_is_named(db: Connection, filters: Any, name: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        db.execute("select public.find_rollouts(%s)", [Jsonb(filters)])
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", name)
    assert str(caught.value.diag.message_primary).startswith(f"{name}: ")


@pytest.mark.parametrize(
    "after",
    [
        {"id": new_id()},
        {"created_at": "2026-01-01"},
        {"created_at": None, "id": new_id()},
        {"reward": 1, "id": new_id()},
        {"created_at": "soon", "id": new_id()},
        {"created_at": "2026-01-01", "id": "7"},
        {"created_at": "2026-01-01", "id": None},
    ],
    ids=range(7),
)
def test_a_bad_cursor_is_refused(db: Connection, after: Record) -> None:
    with pytest.raises(psycopg.Error) as caught:
        find(db, after=after)
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", "after")


@pytest.mark.parametrize(
    ("option", "value"), [("page_size", 0), ("page_size", 1001), ("budget_ms", -1), ("page_size", None)]
)
def test_a_bad_option_is_named(db: Connection, option: str, value: int | None) -> None:
    with pytest.raises(psycopg.Error) as caught:
        find(db, **{option: value})
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", option)


def test_filters_that_are_null_or_empty_filter_nothing(db: Connection) -> None:
    run_id = new_run(db)
    rollout_id = new_rollout(db, run_id)
    filters = {"training_run_id": run_id, "text": "", "tool": None, "status": None, "task_id": ""}
    assert [r["id"] for r in find(db, filters)["rollouts"]] == [rollout_id]


# Reading -------------------------------------------------------------------------------------------------------------


def test_an_outline_has_every_turn_in_columns(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db))
    calls = [{"tool_name": "a", "success": False}, {"tool_name": "b"}, {"tool_name": "a", "success": True}]
    rewards = [{"reward_type": "x", "reward": 0.5}, {"reward_type": "y", "reward": 1}]
    turns = [
        {"step_number": 4, "observation": "four", "duration_ms": 2.5, "tool_calls": calls},
        {"step_number": 1, "action": "é", "thought": "hm", "rewards": rewards},
    ]
    write(db, {"agent_states": [{"rollout_id": rollout_id, **turn} for turn in turns]})
    assert call(db, "rollout_outline", rollout_id) == {
        "turns": 2,
        "step_numbers": [1, 4],
        "rewards": [1.5, None],
        "tools": [0, 3],
        "tool_errors": [0, 1],
        "durations_ms": [None, 2.5],
        "chars": [4, 4],
        "tool_names": {"a": 2, "b": 1},
    }
    empty = call(db, "rollout_outline", new_rollout(db, None))
    assert (empty["turns"], empty["step_numbers"], empty["tool_names"]) == (0, [], {})


def test_turns_come_with_all_that_belongs_to_them(db: Connection) -> None:
    records = one_of_each()
    write(db, {kind: [record] for kind, record in records.items()})
    [turn] = call(db, "rollout_turns", records["rollouts"]["id"])

    def same(kind: str, found: Record, *names: str) -> None:
        assert {name: found[name] for name in names} == {name: records[kind][name] for name in names}

    same(
        "agent_states",
        turn,
        "id",
        "step_number",
        "created_at",
        "duration_ms",
        "observation",
        "action",
        "thought",
        "info",
    )
    assert (turn["action_chars"], turn["memory_summary_chars"]) == (2, 1)
    assert (turn["has_messages"], turn["has_model_response"]) == (True, True)
    [made], [sight], [medium], [reward, own], [generation] = (
        turn[kind] for kind in ("tool_calls", "observations", "media", "rewards", "generations")
    )
    same("tool_calls", made, "id", "position", "tool_name", "tool_input", "tool_output", "success", "execution_time_ms")
    assert (made["tool_input_chars"], made["tool_output_chars"]) == (13, 1)
    same("observations", sight, "position", "kind", "text", "media_path")
    same("media", medium, "id", "kind", "bucket", "path", "content_type", "width", "height", "duration_ms")
    same("rewards", reward, "reward_type", "reward", "details")
    assert own == {"reward_type": "step", "reward": records["agent_states"]["reward"], "details": None}
    same("generations", generation, "id", "position", "model", "policy_version", "finish_reason")
    assert (generation["completion_tokens"], generation["prompt_tokens"]) == (2, 3)
    assert (generation["mean_logprob"], generation["mean_advantage"], generation["has_logprobs"]) == (-0.375, 0.5, True)


def test_turns_are_read_by_stretches_and_cut(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db))
    calls = [{"tool_name": "t", "tool_input": {"q": "x" * 100}, "tool_output": "é" * 2_000_000}]
    turn = {"rollout_id": rollout_id, "observation": "ab" * 50, "info": {"i": "y" * 100}, "tool_calls": calls}
    write(db, {"agent_states": [{**turn, "step_number": step} for step in (0, 2, 4, 6)]})
    turns = call(db, "rollout_turns", rollout_id, 1, 2, 10)
    assert [t["step_number"] for t in turns] == [2, 4]
    assert (turns[0]["observation"], turns[0]["observation_chars"]) == ("ababababab", 100)
    assert (turns[0]["info"], turns[0]["info_cut"]) == ('{"i": "yyy', True)
    [made] = turns[0]["tool_calls"]
    assert (made["tool_input"], made["tool_input_cut"], made["tool_input_chars"]) == ('{"q": "xxx', True, 109)
    assert (made["tool_output"], made["tool_output_chars"]) == ("é" * 10, 2_000_000)
    with pytest.raises(psycopg.Error, match="turn_count is 201: 1 to 200 are possible"):
        call(db, "rollout_turns", rollout_id, 0, 201)


@pytest.mark.parametrize("path", [["choices", 0, "logprobs"], ["logprobs"]], ids=["chat", "bare"])
def test_tokens_have_their_texts_where_the_answer_had_them(db: Connection, path: list[str | int]) -> None:
    rollout_id = new_rollout(db, new_run(db))
    response: Any = {"content": [{"token": "Hel", "logprob": -1}, {"token": "lo", "logprob": -2}]}
    for key in reversed(path):
        response = [response] if key == 0 else {key: response}
    ids = [new_id(), new_id()]
    generations = [
        {"id": ids[0], "completion_ids": [5, 6], "logprobs": [-1, -2]},
        {"id": ids[1], "completion_ids": [5, 6, 7]},
    ]
    write(
        db,
        {
            "agent_states": [
                {"rollout_id": rollout_id, "step_number": 0, "model_response": response, "generations": generations}
            ]
        },
    )
    assert call(db, "turn_generation", ids[0]) == {
        "completion_ids": [5, 6],
        "logprobs": [-1, -2],
        "mask": None,
        "advantages": None,
        "tokens": ["Hel", "lo"],
    }
    assert call(db, "turn_generation", ids[1])["tokens"] is None


def test_search_in_a_rollout_finds_every_place(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db))
    calls = [{"tool_name": "t", "tool_input": {"q": "A%b"}, "tool_output": "a%B a%b"}]
    turns: list[Record] = [
        {"observation": "axb", "action": "A%B", "memory_summary": "a%b"},
        {"thought": "." * 200 + "a%b", "tool_calls": calls},
    ]
    write(db, {"agent_states": [{"rollout_id": rollout_id, "step_number": n, **t} for n, t in enumerate(turns)]})
    answer = call(db, "search_rollout", rollout_id, "a%b")
    assert [(m["step_number"], m["field"], m["at"]) for m in answer["matches"]] == [
        (0, "action", 0),
        (0, "memory_summary", 0),
        (1, "thought", 200),
        (1, "tool_input", 7),
        (1, "tool_output", 0),
        (1, "tool_output", 4),
    ]
    assert answer["more"] is False
    assert all("a%b" in m["snippet"].lower() and len(m["snippet"]) <= 160 for m in answer["matches"])

    cut = call(db, "search_rollout", rollout_id, "a%b", 5)
    assert (cut["matches"], cut["more"]) == (answer["matches"][:5], True)
    assert call(db, "search_rollout", rollout_id, "a%b", 6)["more"] is False
    assert call(db, "search_rollout", rollout_id, "nowhere") == {"matches": [], "more": False}
    with pytest.raises(psycopg.Error, match="text: something to look for"):
        call(db, "search_rollout", rollout_id, "")
    with pytest.raises(psycopg.Error, match="text: a text of at most 1000 characters is expected"):
        call(db, "search_rollout", rollout_id, "x" * 1001)
    assert call(db, "search_rollout", rollout_id, "é" * 1000)["matches"] == []


# Groups --------------------------------------------------------------------------------------------------------------


def group_of(db: Connection, ways: list[list[str]], **fields: list[Any]) -> tuple[str, list[str]]:
    """Make a group whose rollouts take those actions; return its id and theirs, in the order of their ids."""
    group_id = new_group(db, new_run(db))
    ids = sorted(new_id() for _ in ways)
    rollouts: list[Record] = [
        {"id": i, "group_id": group_id, "status": "failed", **{name: values[n] for name, values in fields.items()}}
        for n, i in enumerate(ids)
    ]
    turns = [
        {"rollout_id": i, "step_number": step, "observation": "seen", "action": action}
        for i, way in zip(ids, ways, strict=True)
        for step, action in enumerate(way)
    ]
    write(db, {"rollouts": rollouts, "agent_states": turns})
    return group_id, ids


@pytest.mark.parametrize(
    ("ways", "parts_at"),
    [
        ([["a", "b"], ["a", "b"]], None),
        ([["a", "b"], ["a", "c"], ["a", "b"]], 1),
        ([["a"], ["b"]], 0),
        ([["a", "b"], ["a"]], 1),
        ([["a", "b"]], None),
        ([["a"], []], None),
    ],
    ids=["same", "second turn", "first turn", "one ended", "alone", "one without turns"],
)
def test_rollouts_of_a_group_part_at_the_first_difference(
    db: Connection, ways: list[list[str]], parts_at: int | None
) -> None:
    group_id, ids = group_of(db, ways)
    answer = call(db, "group_comparison", group_id)
    assert answer["parts_at"] == parts_at
    assert [r["id"] for r in answer["rollouts"]] == ids
    if parts_at is not None:
        shown = [r["at_parting"] and r["at_parting"]["action"] for r in answer["rollouts"]]
        assert shown == [way[parts_at] if len(way) > parts_at else None for way in ways]


def test_who_is_still_on_the_way_has_not_parted(db: Connection) -> None:
    group_id, _ = group_of(db, [["a", "b"], ["a"]], status=["failed", "running"])
    assert call(db, "group_comparison", group_id)["parts_at"] is None


def test_a_group_shows_advantages_and_whether_rewards_vary(db: Connection) -> None:
    group_id, ids = group_of(db, [["a"], ["b"], ["c"]], total_reward=[1, 3, None])
    turn = db.execute("select id from public.agent_states where rollout_id = %s", [ids[0]]).fetchone()
    assert turn is not None
    generations = [{"agent_state_id": str(turn["id"]), "completion_ids": [1, 2], "advantages": [0.25, 0.75]}]
    write(db, {"generations": generations})
    answer = call(db, "group_comparison", group_id)
    assert (answer["no_variance"], answer["group"]["reward_mean"], answer["group"]["reward_std"]) == (False, 2, 1)
    assert [r["advantage"] for r in answer["rollouts"]] == [0.5, None, None]
    assert [r["computed_advantage"] for r in answer["rollouts"]] == [-1, 1, None]

    flat, _ = group_of(db, [["a"], ["b"]], total_reward=[1, 1])
    answer = call(db, "group_comparison", flat)
    assert (answer["no_variance"], answer["rollouts"][0]["computed_advantage"]) == (True, None)
    unknown, _ = group_of(db, [["a"], ["b"]])
    assert call(db, "group_comparison", unknown)["no_variance"] is None


# Who sees what -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("visibility", ["public", "private"])
def test_anybody_reads_public_runs_and_nobody_else_does(db: Connection, visibility: str) -> None:
    records = one_of_each(visibility=visibility)
    write(db, {kind: [record] for kind, record in records.items()})
    rollout_id = records["rollouts"]["id"]
    calls = [
        ("rollout_outline", [rollout_id]),
        ("rollout_turns", [rollout_id]),
        ("turn_generation", [records["generations"]["id"]]),
        ("search_rollout", [rollout_id, "go"]),
        ("group_comparison", [records["rollout_groups"]["id"]]),
    ]
    expected = {name: call(db, name, *arguments) for name, arguments in calls}
    filters = {"training_run_id": records["training_runs"]["id"], "text": "go", "tool": "search"}
    with acting_as(db, role="anon"):
        assert len(find(db, filters)["rollouts"]) == (1 if visibility == "public" else 0)
    for name, arguments in calls:
        with acting_as(db, role="anon"):
            if visibility == "public":
                assert call(db, name, *arguments) == expected[name]
            else:
                with pytest.raises(psycopg.Error) as caught, db.transaction():
                    call(db, name, *arguments)
                assert caught.value.sqlstate == "OM404"
    with acting_as(db, user_id=new_member(db, "viewer")):
        assert len(find(db, filters)["rollouts"]) == 1
    stranger = new_member(db, None)
    with acting_as(db, user_id=stranger):
        assert find(db, filters)["rollouts"] == []
