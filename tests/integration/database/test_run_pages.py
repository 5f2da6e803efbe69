"""What the pages of runs read: the list, its filters, progress, health and the comparison of evaluations."""

from __future__ import annotations

import math
import random
import statistics
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from .writing import Connection, Record, acting_as, new_id, new_member, new_rollout, new_run, row, write

COMPLETED = {"success", "failed", "completed", "truncated", "timeout", "error"}
STATUSES = [*sorted(COMPLETED), "running", "pending", "cancelled"]
REWARDS = [0.0, 1.0, 0.5, -2.25, 1e-3, None, "NaN", "Infinity", "-Infinity"]
AT = datetime(2026, 1, 1, tzinfo=UTC)


def call(db: Connection, function: str, **arguments: Any) -> Any:
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    found = db.execute(f"select public.{function}({named}) as answer", arguments).fetchone()
    assert found is not None
    return found["answer"]


def listed(db: Connection, run_id: str) -> Record:
    found = db.execute("select * from public.run_list where id = %s", [run_id]).fetchone()
    assert found is not None
    return dict(found)


def is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def quantile(values: list[float], share: float) -> float:
    at = (len(values) - 1) * share
    low = values[math.floor(at)]
    return low + (values[math.ceil(at)] - low) * (at - math.floor(at))


def is_like(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and found is not None:
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == expected)


class Sample:
    """A run with rollouts of all sorts, kept here too, to compute from what the database should answer."""

    def __init__(self, db: Connection, *, seed: int, steps: int, rollouts: int) -> None:
        chance = random.Random(seed)
        self.run_id, self.rollouts = new_run(db), list[Record]()
        batch: dict[str, list[Record]] = {
            "training_steps": [], "rollout_groups": [], "rollouts": self.rollouts, "agent_states": [], "tool_calls": [],
        }  # fmt: skip
        self.groups = batch["rollout_groups"]
        self.calls_of: dict[str, list[Record]] = {}
        self.step_of_group: dict[str, int] = {}
        numbers = chance.sample(range(steps * 3), steps)
        for step in numbers:
            step_id = new_id()
            batch["training_steps"].append({"id": step_id, "training_run_id": self.run_id, "step": step})
            for number in range(3):
                group_id = new_id()
                self.groups.append({"id": group_id, "training_step_id": step_id, "number": number})
                self.step_of_group[group_id] = step
        for number in range(rollouts):
            self._add(chance, batch, number, numbers)
        write(db, batch)

    def _add(self, chance: random.Random, batch: dict[str, list[Record]], number: int, steps: list[int]) -> None:
        rollout: Record = {
            "id": new_id(), "training_run_id": self.run_id, "environment": "e",
            "status": chance.choice(STATUSES), "total_reward": chance.choice(REWARDS),
            "step_count": chance.choice([None, 0, 3, 12]), "policy_version": chance.choice([None, 1, 5]),
            "source": chance.choice(["training"] * 5 + ["manual"]),
            "created_at": (AT + timedelta(seconds=number)).isoformat(),
            "started_at": (AT + timedelta(seconds=number)).isoformat(),
            "finished_at": (AT + timedelta(seconds=number + chance.randrange(100))).isoformat(),
        }  # fmt: skip
        match chance.randrange(3):
            case 0:
                rollout["group_id"] = chance.choice(self.groups)["id"]
                rollout["step"] = self.step_of_group[rollout["group_id"]]
            case 1:
                rollout["step"] = chance.choice(steps)
        batch["rollouts"].append(rollout)
        turn_id = new_id()
        batch["agent_states"].append({"id": turn_id, "rollout_id": rollout["id"], "step_number": 0})
        for position in range(chance.randrange(3)):
            made: Record = {"id": new_id(), "agent_state_id": turn_id, "position": position, "tool_name": "t"}
            made |= {"success": chance.choice([True, False, None]), "error_message": chance.choice([None, "no"])}
            batch["tool_calls"].append(made)
            self.calls_of.setdefault(rollout["id"], []).append(made)

    def counting(self) -> list[Record]:
        return [rollout for rollout in self.rollouts if not rollout.get("hidden")]


def outcome(rollouts: list[Record]) -> Record:
    statuses = [rollout["status"] for rollout in rollouts]
    return {
        "rollouts": len(rollouts),
        "completed": sum(status in COMPLETED for status in statuses),
        "solved": statuses.count("success"),
        "truncated": statuses.count("truncated") + statuses.count("timeout"),
        "errors": statuses.count("error"),
    }


def groups_among(rollouts: list[Record], groups: set[str]) -> tuple[int, int]:
    """Return how many groups have two rewards, and in how many of them all are the same."""
    rewards: dict[str, list[float]] = {}
    for rollout in rollouts:
        if rollout.get("group_id") in groups and is_finite(rollout["total_reward"]):
            rewards.setdefault(rollout["group_id"], []).append(rollout["total_reward"])
    compared = [found for found in rewards.values() if len(found) >= 2]
    return len(compared), sum(len(set(found)) == 1 for found in compared)


def expected_bucket(sample: Sample, low: int, high: int) -> Record | None:
    within = [rollout for rollout in sample.counting() if rollout.get("step") is not None]
    within = [rollout for rollout in within if low <= rollout["step"] <= high and rollout["source"] == "training"]
    if not within:
        return None
    done = [rollout for rollout in within if rollout["status"] in COMPLETED]
    rewards = sorted(rollout["total_reward"] for rollout in done if is_finite(rollout["total_reward"]))
    turns = [rollout["step_count"] for rollout in done if rollout["step_count"] is not None]
    groups = {group_id for group_id, step in sample.step_of_group.items() if low <= step <= high}
    compared, flat = groups_among(sample.counting(), groups)
    shares = {"min": 0, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "max": 1}
    return {
        **outcome(within),
        **{f"reward_{name}": quantile(rewards, share) if rewards else None for name, share in shares.items()},
        "reward_mean": statistics.fmean(rewards) if rewards else None,
        "mean_turns": statistics.fmean(turns) if turns else None,
        "groups": compared,
        "flat_groups": flat,
        "from_step": low,
        "to_step": high,
    }


def check_progress(db: Connection, sample: Sample, buckets: int) -> None:
    answer = call(db, "run_progress", training_run_id=sample.run_id, buckets=buckets)
    training = [rollout for rollout in sample.counting() if rollout["source"] == "training"]
    steps = [rollout["step"] for rollout in training if rollout.get("step") is not None]
    assert answer["without_step"] == len(training) - len(steps)
    assert 0 < len(answer["buckets"]) <= buckets
    assert sum(bucket["rollouts"] for bucket in answer["buckets"]) == len(steps)
    assert (answer["buckets"][0]["from_step"], answer["buckets"][-1]["to_step"]) == (min(steps), max(steps))
    last = -1
    for bucket in answer["buckets"]:
        assert bucket["from_step"] > last
        last = bucket["to_step"]
        expected = expected_bucket(sample, bucket["from_step"], bucket["to_step"])
        assert expected is not None
        assert bucket.keys() == expected.keys()
        assert [name for name in expected if not is_like(bucket[name], expected[name])] == [], (bucket, expected)
    if len(set(steps)) and max(steps) - min(steps) < buckets:
        assert [bucket["from_step"] for bucket in answer["buckets"]] == sorted(set(steps))


@pytest.mark.parametrize("buckets", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_progress_is_what_the_rollouts_say(db: Connection, seed: int, buckets: int) -> None:
    check_progress(db, Sample(db, seed=seed, steps=20, rollouts=300), buckets)


@pytest.mark.parametrize("seed", range(2))
def test_progress_and_health_leave_out_what_a_rewind_hid(db: Connection, seed: int) -> None:
    sample = Sample(db, seed=seed, steps=20, rollouts=200)
    kept = sorted(set(sample.step_of_group.values()))[10]
    call(db, "resume_run", run_id=sample.run_id, change_id=new_id(), rewind_to_step=kept)
    rewound = "select id::text from public.rollouts where training_run_id = %s and rewound_at is not null"
    hidden = {found["id"] for found in db.execute(rewound, [sample.run_id])}
    for rollout in sample.rollouts:
        rollout["hidden"] = rollout["id"] in hidden
        if rollout["status"] == "running":
            rollout["status"] = "interrupted"
    assert 0 < len(hidden) < 200
    sample.step_of_group = {group: step for group, step in sample.step_of_group.items() if step <= kept}
    check_progress(db, sample, 7)
    assert call(db, "run_health", training_run_id=sample.run_id)["rollouts"] == 200 - len(hidden)


def test_a_run_of_few_rollouts_or_none_has_progress_too(db: Connection) -> None:
    run_id = new_run(db)
    assert call(db, "run_progress", training_run_id=run_id) == {"buckets": [], "without_step": 0}
    new_rollout(db, run_id)
    assert call(db, "run_progress", training_run_id=run_id) == {"buckets": [], "without_step": 1}
    new_rollout(db, run_id, step=2**63 - 1, status="success")
    new_rollout(db, run_id, step=0, status="running", total_reward=1)
    answer = call(db, "run_progress", training_run_id=run_id)
    assert [(bucket["rollouts"], bucket["solved"]) for bucket in answer["buckets"]] == [(1, 0), (1, 1)]
    assert answer["buckets"][0]["reward_mean"] is None, "it is not completed yet"
    assert answer["buckets"][1]["to_step"] == 2**63 - 1


@pytest.mark.parametrize(
    ("rewards", "mean"),
    [([1.7e308] * 3, 1.7e308), ([1e200, -1e200], 0.0), ([5e-324, 0.0], 0.0), ([1e308, 1.0], 5e307)],
    ids=["huge", "huge and opposite", "tiny", "huge and plain"],
)
def test_extreme_rewards_have_a_mean(db: Connection, rewards: list[float], mean: float) -> None:
    run_id = new_run(db)
    for reward in rewards:
        new_rollout(db, run_id, step=1, status="success", total_reward=reward)
    (bucket,) = call(db, "run_progress", training_run_id=run_id)["buckets"]
    assert is_like(bucket["reward_mean"], mean)


@pytest.mark.parametrize("sample_size", [1, 50, 500])
@pytest.mark.parametrize("seed", range(2))
def test_health_is_what_the_newest_rollouts_say(db: Connection, seed: int, sample_size: int) -> None:
    sample = Sample(db, seed=seed, steps=10, rollouts=200)
    answer = call(db, "run_health", training_run_id=sample.run_id, sample=sample_size)
    newest = sample.rollouts[-sample_size:]
    assert {name: answer[name] for name in outcome(newest)} == outcome(newest)
    calls = [found for rollout in newest for found in sample.calls_of.get(rollout["id"], [])]
    failed = [c for c in calls if c["success"] is False or (c["success"] is None and c["error_message"])]
    assert (answer["tool_calls"], answer["tool_errors"]) == (len(calls), len(failed))
    behind = [r["step"] - r["policy_version"] for r in newest if r.get("step") is not None and r["policy_version"]]
    assert is_like(answer["mean_staleness"], statistics.fmean(behind) if behind else None)
    assert answer["max_staleness"] == max(behind, default=None)
    groups = sorted(sample.groups, key=lambda group: (-sample.step_of_group[group["id"]], group["number"]))[
        :sample_size
    ]
    compared = groups_among(sample.rollouts, {group["id"] for group in groups})
    assert (answer["groups"], answer["flat_groups"]) == compared


def test_health_tells_how_fast_rollouts_turns_steps_and_tokens_come(db: Connection) -> None:
    run_id = new_run(db)

    def at(seconds: float) -> str:
        return (AT + timedelta(seconds=seconds)).isoformat()

    for number in range(6):
        times = {"created_at": at(number * 10), "started_at": at(number * 10), "finished_at": at(number * 10 + 70)}
        new_rollout(db, run_id, status="success" if number else "running", step_count=4, **times)
    steps: list[Record] = [
        {"step": 0, "tokens": 600, "started_at": at(0), "finished_at": at(20)},
        {"step": 1, "tokens": None, "started_at": at(20), "finished_at": at(60)},
        {"step": 2, "tokens": 900, "started_at": at(60), "finished_at": at(70)},
    ]
    records = [{"id": new_id(), "training_run_id": run_id, "status": "completed", **step} for step in steps]
    write(db, {"training_steps": [*records, {"id": new_id(), "training_run_id": run_id, "step": 3, "tokens": 7}]})
    answer = call(db, "run_health", training_run_id=run_id)
    assert (answer["window_from"], answer["window_to"]) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:02:00+00:00")
    assert (answer["rollouts_per_minute"], answer["turns_per_minute"]) == (2.5, 10)
    assert (answer["tokens_per_second"], answer["seconds_per_step"]) == (50, pytest.approx(70 / 3))


def test_the_health_of_a_run_without_anything_is_unknown(db: Connection) -> None:
    answer = call(db, "run_health", training_run_id=new_run(db))
    counted = {"rollouts", "completed", "solved", "truncated", "errors", "groups", "flat_groups", "tool_calls"}
    assert {name for name, value in answer.items() if value == 0} == counted | {"tool_errors"}
    assert {value for value in answer.values() if value != 0} == {None}


# Lists -----------------------------------------------------------------------------------------------------------


def test_the_list_shows_a_run_with_its_counts_and_its_owners_name(db: Connection) -> None:
    owner = new_member(db, "editor")
    db.execute("update public.members set display_name = 'Ada' where user_id = %s", [owner])
    run_id = new_run(db, owner_id=owner, visibility="public", tags=["a"])
    for environment, status, reward in (("e", "success", 1), ("f", "failed", 0), ("e", "running", 9)):
        new_rollout(db, run_id, environment=environment, status=status, total_reward=reward, step_count=3)
    found = listed(db, run_id)
    counts = ("rollout_count", "completed_count", "success_count", "success_rate", "average_reward", "average_turns")
    assert [found[name] for name in counts] == [3, 2, 1, 0.5, 0.5, 3]
    assert (found["owner_name"], found["shown_status"], found["tags"]) == ("Ada", "running", ["a"])
    assert {"config", "summary", "metadata"}.isdisjoint(found)
    with acting_as(db, role="anon"):
        assert listed(db, run_id)["owner_name"] is None
    with acting_as(db, user_id=new_member(db, "viewer")):
        assert listed(db, run_id)["owner_name"] == "Ada"


def test_rates_of_a_run_where_nothing_completed_are_unknown(db: Connection) -> None:
    run_id = new_run(db)
    found = listed(db, run_id)
    assert (found["rollout_count"], found["success_rate"], found["average_reward"]) == (0, None, None)
    new_rollout(db, run_id, status="running")
    found = listed(db, run_id)
    assert (found["rollout_count"], found["completed_count"], found["average_turns"]) == (1, 0, None)


def test_a_run_is_as_far_as_it_says_or_as_its_steps_are(db: Connection) -> None:
    for unknown in ({"total_steps": 10}, {"current_step": 7}, {"current_step": 7, "total_steps": 0}):
        assert listed(db, new_run(db, **unknown))["progress"] is None
    run_id = new_run(db, current_step=7, total_steps=10)
    assert (listed(db, run_id)["current_step"], listed(db, run_id)["progress"]) == (7, 0.7)
    write(db, {"training_steps": [{"id": new_id(), "training_run_id": run_id, "step": step} for step in (3, 12)]})
    assert how_far(db, run_id) == (12, 11, 1), "a step that has begun is where the run is, and not done yet"
    db.execute("select public.resume_run(%s, %s, rewind_to_step => 5)", [run_id, new_id()])
    assert listed(db, run_id)["current_step"] == 5


def how_far(db: Connection, run_id: str) -> tuple[Any, ...]:
    """Return current_step, steps_done and progress, which the list and the overview must agree on."""
    names = ("current_step", "steps_done", "progress")
    found, overview = listed(db, run_id), row(db, "run_overview", run_id)
    assert [found[name] for name in names] == [overview[name] for name in names]
    return tuple(found[name] for name in names)


def log_points(db: Connection, run_id: str, steps: list[int], *, name: str = "loss") -> None:
    points = {"steps": steps, "values": [0.5] * len(steps), "times": ["2026-01-01T00:00:00Z"] * len(steps)}
    write(db, {"metric_chunks": [{"id": new_id(), "training_run_id": run_id, "name": name} | points]})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [([0], (0, 1, 0.5)), ([0, 1], (1, 2, 1)), ([1], (1, 1, 0.5)), ([1, 2], (2, 2, 1)), ([0, 1, 2], (2, 3, 1))],
)
def test_a_run_that_only_logs_or_only_records_steps_is_as_far_as_they_are(
    db: Connection, steps: list[int], expected: tuple[Any, ...]
) -> None:
    logging, recording = new_run(db, total_steps=2), new_run(db, total_steps=2)
    for step in steps:
        log_points(db, logging, [step])
        write(db, {"training_steps": [{"training_run_id": recording, "step": step, "status": "completed"}]})
    assert how_far(db, logging) == how_far(db, recording) == expected


def test_a_step_that_still_runs_is_not_done(db: Connection) -> None:
    run_id = new_run(db, total_steps=4)
    steps = [{"id": new_id(), "training_run_id": run_id, "step": step, "status": "running"} for step in (0, 1)]
    write(db, {"training_steps": [steps[0]]})
    assert how_far(db, run_id) == (0, 0, 0)
    write(db, {"training_steps": [steps[0] | {"status": "completed"}, steps[1]]})
    assert how_far(db, run_id) == (1, 1, 0.25)


def test_steps_of_metrics_tell_only_where_nothing_else_does(db: Connection) -> None:
    run_id = new_run(db, total_steps=10)
    log_points(db, run_id, [0, 5000])
    write(db, {"training_steps": [{"training_run_id": run_id, "step": 2, "status": "completed"}]})
    assert how_far(db, run_id) == (2, 2, 0.2)
    run_id = new_run(db, total_steps=10)
    # An evaluation before the first step does not make the steps begin at 0.
    log_points(db, run_id, [0], name="evaluation/reward")
    log_points(db, run_id, [1, 2, 3])
    assert how_far(db, run_id) == (3, 3, 0.3)
    assert how_far(db, new_run(db, total_steps=10)) == (None, None, None)


def test_a_run_that_was_rewound_is_as_far_as_what_was_left(db: Connection) -> None:
    run_id = new_run(db, total_steps=10)
    log_points(db, run_id, [0, 1, 2, 3, 4, 5])
    db.execute("select public.resume_run(%s, %s, rewind_to_step => 2)", [run_id, new_id()])
    assert how_far(db, run_id) == (2, 3, 0.3)
    log_points(db, run_id, [3])
    assert how_far(db, run_id) == (3, 4, 0.4)


def test_the_list_and_the_overview_agree_on_which_run_is_stalled(db: Connection) -> None:
    run_id = new_run(db, heartbeat_timeout_seconds=1)
    db.execute("update public.training_runs set heartbeat_at = now() - interval '1 hour' where id = %s", [run_id])
    assert listed(db, run_id)["shown_status"] == row(db, "run_overview", run_id)["shown_status"] == "stalled"


def test_facets_are_what_the_visible_runs_have(db: Connection) -> None:
    owner = new_member(db, "editor")
    mark = new_id()
    new_run(db, algorithm=f"b{mark}", environment=f"e{mark}", tags=[f"y{mark}", f"x{mark}"], owner_id=owner)
    new_run(db, algorithm=f"a{mark}", environment=f"e{mark}", tags=[f"x{mark}"], visibility="public")
    new_run(db, algorithm=None, environment=None)

    def facets() -> Record:
        found = call(db, "run_facets")
        return {name: [value for value in values if mark in str(value)] for name, values in found.items()} | {
            "owners": [entry for entry in found["owners"] if entry["id"] == owner]
        }

    everything = {
        "algorithms": [f"a{mark}", f"b{mark}"],
        "environments": [f"e{mark}"],
        "statuses": [],
        "owners": [{"id": owner, "name": None}],
        "tags": [f"x{mark}", f"y{mark}"],
    }
    assert facets() == everything
    assert "running" in call(db, "run_facets")["statuses"]
    with acting_as(db, role="anon"):
        assert facets() == everything | {"algorithms": [f"a{mark}"], "tags": [f"x{mark}"], "owners": []}


# Baselines and comparisons ---------------------------------------------------------------------------------------


def new_evaluation(db: Connection, run_id: str | None = None, **fields: Any) -> str:
    evaluation = {"id": new_id(), "training_run_id": run_id, "status": "running", "environment": "e"} | fields
    write(db, {"evaluations": [evaluation]})
    return str(evaluation["id"])


def test_a_pinned_baseline_is_read_changed_and_unpinned(db: Connection) -> None:
    run_id = new_run(db)
    own, foreign = new_evaluation(db, run_id), new_evaluation(db)
    write(db, {"training_runs": [{"id": run_id, "baseline_id": own}]})
    assert row(db, "run_overview", run_id)["baseline_id"] == own
    db.execute("update public.training_runs set baseline_id = %s where id = %s", [foreign, run_id])
    assert str(listed(db, run_id)["baseline_id"]) == foreign
    db.execute("delete from public.evaluations where id = %s", [foreign])
    assert row(db, "training_runs", run_id)["baseline_id"] is None


def test_a_run_goes_with_the_evaluation_that_it_pinned(db: Connection) -> None:
    run_id, other = new_run(db), new_run(db)
    own = new_evaluation(db, run_id)
    db.execute("update public.training_runs set baseline_id = %s where id = any(%s::uuid[])", [own, [run_id, other]])
    db.execute("delete from public.training_runs where id = %s", [run_id])
    assert db.execute("select 1 from public.evaluations where id = %s", [own]).fetchall() == []
    assert row(db, "training_runs", other)["baseline_id"] is None


def add_rollouts(db: Connection, evaluation_id: str, outcomes: dict[str, list[str]], *, by: str) -> None:
    """Add a group for each task, with rollouts of these statuses; `by` names the column that holds the task."""
    for number, (task, statuses) in enumerate(outcomes.items()):
        group_id = new_id()
        group = {"id": group_id, "evaluation_id": evaluation_id, "number": number, by: task}
        rollouts = [{"id": new_id(), "group_id": group_id, "status": status} for status in statuses]
        write(db, {"rollout_groups": [group], "rollouts": rollouts})


def test_a_comparison_names_what_is_newly_solved_and_newly_broken(db: Connection) -> None:
    run_id = new_run(db)
    before, after = new_evaluation(db, kind="baseline", name="b"), new_evaluation(db, run_id, name="n", step=3)
    win, loss = "success", "failed"
    add_rollouts(
        db, before, {"fixed": [loss], "lost": [win, loss], "kept": [win], "gone": [win]}, by="task_description"
    )
    add_rollouts(
        db,
        after,
        {"fixed": [win, "timeout"], "lost": [win, loss, "error"], "kept": [win, "running"], "fresh": [loss],
         "unjudged": ["completed"]},
        by="task_description",
    )  # fmt: skip
    answer = call(db, "compare_evaluations", evaluation_id=after, baseline_id=before)
    assert (answer["evaluation"]["id"], answer["baseline"]["name"]) == (after, "b")
    assert (answer["evaluation"]["step"], answer["newly_solved"], answer["newly_broken"]) == (3, 1, 1)
    names = ("task", "change", "baseline_rate", "rate", "baseline_rollouts", "rollouts")
    assert [tuple(task[name] for name in names) for task in answer["tasks"]] == [
        ("lost", "broken", 0.5, pytest.approx(1 / 3), 2, 3),
        ("fixed", "solved", 0, 0.5, 1, 2),
        ("fresh", "new", None, 0, 0, 1),
        ("gone", "missing", 1, None, 1, 0),
        ("kept", "same", 1, 1, 1, 1),
        ("unjudged", "new", None, None, 0, 1),
    ]


def test_tasks_are_compared_by_their_ids_and_by_recorded_results(db: Connection) -> None:
    run_id, checkpoint_id = new_run(db, visibility="public"), new_id()
    tasks = [{"id": new_id(), "name": f"task {number}", "description": "d" * 300} for number in range(2)]
    write(db, {"tasks": [*tasks, {"id": (unnamed := new_id()), "description": "z" * 300}]})
    checkpoint = {"id": checkpoint_id, "training_run_id": run_id, "checkpoint_number": 1}
    write(db, {"model_checkpoints": [checkpoint]})
    before, after = new_evaluation(db, run_id), new_evaluation(db, run_id, checkpoint_id=checkpoint_id)
    ids = [str(task["id"]) for task in tasks]
    add_rollouts(db, before, {ids[0]: ["success"], ids[1]: ["failed"], unnamed: ["failed"]}, by="task_id")
    add_rollouts(db, after, {ids[1]: ["success"]}, by="task_id")
    result = {"checkpoint_id": checkpoint_id, "evaluation_id": after, "environment": "e"}
    results = [
        {"id": new_id(), "task_id": ids[0], "success_rate": 0.25, "episode_count": 4, **result},
        # Of this task there are rollouts, which say more.
        {"id": new_id(), "task_id": ids[1], "success_rate": 0.0, "episode_count": 4, **result},
        {"id": new_id(), "success_rate": 1.0, **result},
    ]
    write(db, {"evaluation_results": results})
    answer = call(db, "compare_evaluations", evaluation_id=after, baseline_id=before)
    assert [(task["task_id"], task["change"], task["rate"], task["rollouts"]) for task in answer["tasks"]] == [
        (ids[0], "broken", 0.25, 4),
        (ids[1], "solved", 1, 1),
        (unnamed, "missing", None, 0),
    ]
    assert [task["task"] for task in answer["tasks"]] == ["task 0", "task 1", "z" * 200]
    with acting_as(db, role="anon"):
        seen = call(db, "compare_evaluations", evaluation_id=after, baseline_id=before)
    assert [task["task_id"] for task in seen["tasks"]] == [ids[0], ids[1], unnamed]
    assert {task["task"] for task in seen["tasks"]} == {None}, "tasks are the members' to read"


def test_a_rewound_evaluation_can_still_be_compared(db: Connection) -> None:
    run_id = new_run(db)
    early, late = new_evaluation(db, run_id, step=1), new_evaluation(db, run_id, step=9)
    for evaluation_id in (early, late):
        add_rollouts(db, evaluation_id, {"t": ["success"]}, by="task_description")
    call(db, "resume_run", run_id=run_id, change_id=new_id(), rewind_to_step=5)
    answer = call(db, "compare_evaluations", evaluation_id=late, baseline_id=early)
    assert [task["change"] for task in answer["tasks"]] == ["same"]


# Who may ask, and for what ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["run_progress", "run_health"])
def test_a_visitor_asks_of_public_runs_only(db: Connection, function: str) -> None:
    private, public = new_run(db), new_run(db, visibility="public")
    for run_id in (private, public):
        new_rollout(db, run_id, step=1, status="success")
    with acting_as(db, role="anon"):
        answer = call(db, function, training_run_id=public)
    assert answer == call(db, function, training_run_id=public)
    for actor in ({"role": "anon"}, {"user_id": new_member(db, None)}):
        unknown = f"training run {private}: unknown id"
        with pytest.raises(psycopg.Error, match=unknown) as refused, acting_as(db, **actor):
            call(db, function, training_run_id=private)
        assert refused.value.sqlstate == "OM404"


def test_a_visitor_compares_evaluations_of_public_runs_only(db: Connection) -> None:
    shown, hidden = new_evaluation(db, new_run(db, visibility="public")), new_evaluation(db, new_run(db))
    with acting_as(db, role="anon"):
        assert call(db, "compare_evaluations", evaluation_id=shown, baseline_id=shown)["tasks"] == []
    for pair in ((shown, hidden), (hidden, shown)):
        unknown = f"evaluation {hidden}: unknown id"
        with pytest.raises(psycopg.Error, match=unknown) as refused, acting_as(db, role="anon"):
            call(db, "compare_evaluations", evaluation_id=pair[0], baseline_id=pair[1])
        assert refused.value.sqlstate == "OM404"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("run_progress", {"buckets": 0}, "buckets is 0: 1 to 1000 are possible"),
        ("run_progress", {"buckets": None}, "buckets is null"),
        ("run_health", {"sample": 0}, "sample is 0: 1 to 10000 are possible"),
        ("run_health", {"sample": 10_001}, "sample is 10001"),
    ],
    ids=["no buckets", "unknown buckets", "no sample", "too large a sample"],
)
def test_what_cannot_be_answered_is_refused_with_what_can(
    db: Connection, function: str, arguments: Record, message: str
) -> None:
    with pytest.raises(psycopg.Error, match=message) as refused:
        call(db, function, training_run_id=new_run(db), **arguments)
    assert refused.value.sqlstate == "OM400"
