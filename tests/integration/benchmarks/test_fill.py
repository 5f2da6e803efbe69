"""The script that fills a database for the dashboard's benchmark makes what it says and counts as triggers would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from benchmarks.dashboard.fill import make_sizes, write

Rows = list[tuple[Any, ...]]
Ask = Callable[..., Rows]

_MISCOUNTED_RUNS = """
with kept as (
  select training_run_id, environment, sum(rollout_count), sum(completed_count), sum(success_count), sum(reward_sum),
    sum(reward_count), sum(step_sum), sum(step_count)
  from public.rollout_stats group by 1, 2 having sum(rollout_count) > 0
), counted as (
  select training_run_id, environment, count(*), count(*) filter (where completed),
    count(*) filter (where status = 'success'),
    coalesce(sum(reward) filter (where completed), 0), count(reward) filter (where completed),
    coalesce(sum(step_count) filter (where completed), 0), count(step_count) filter (where completed)
  from (select *, internal.is_completed(status) as completed,
          case when internal.is_finite(total_reward) then total_reward::text::numeric end as reward
        from public.rollouts where rewound_at is null) r
  group by 1, 2)
(table kept except table counted) union all (table counted except table kept)
"""
_MISCOUNTED_GROUPS = """
select g.id from public.rollout_groups g left join public.rollouts r on r.group_id = g.id
group by g.id having (g.rollout_count, g.completed_count, g.success_count) is distinct from
  (count(r.id), count(*) filter (where internal.is_completed(r.status)), count(*) filter (where r.status = 'success'))
  or (g.reward_count, g.reward_sum) is distinct from
  (count(*) filter (where internal.is_finite(r.total_reward)),
   coalesce(sum(r.total_reward::text::numeric) filter (where internal.is_finite(r.total_reward)), 0))
"""
# Triggers and foreign keys were off: what the foreign keys would have refused.
_FOREIGN_KEYS = """
select format('select count(*) from %s c where c.%I is not null and not exists (select 1 from %s p where p.%I = c.%I)',
  c.conrelid::regclass, a.attname, c.confrelid::regclass, b.attname, a.attname)
from pg_catalog.pg_constraint c
join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
join pg_catalog.pg_attribute b on b.attrelid = c.confrelid and b.attnum = c.confkey[1]
where c.contype = 'f' and c.connamespace = 'public'::regnamespace
"""
_COUNTED = {
    "runs": "select count(*) from public.training_runs",
    "rollouts": "select count(*) from public.rollouts",
    "tasks": "select count(*) from public.tasks",
}
_SIZES = make_sizes(0.001, small=True)


@pytest.fixture(scope="module")
def filled(stack: Any) -> Iterator[tuple[Ask, dict[str, Any], dict[str, Any]]]:
    """A look into the session's database while it is filled, the landmarks, what was there before; nothing stays."""
    with psycopg.connect(stack.database_url) as connection:

        def ask(statement: str, *values: Any) -> Rows:
            return connection.execute(statement.encode() if not values else statement, values or None).fetchall()

        before = {name: ask(statement)[0][0] for name, statement in _COUNTED.items()}
        before |= {"miscounted": ask(_MISCOUNTED_RUNS), "miscounted groups": ask(_MISCOUNTED_GROUPS)}
        yield ask, write(connection, _SIZES), before
        connection.rollback()


Filled = tuple[Ask, dict[str, Any], dict[str, Any]]


@pytest.mark.parametrize("name", _COUNTED)
def test_it_adds_as_much_as_it_says(filled: Filled, name: str) -> None:
    ask, _, before = filled
    assert ask(_COUNTED[name])[0][0] - before[name] == _SIZES[name]


def test_runs_and_groups_count_what_they_have(filled: Filled) -> None:
    ask, _, before = filled
    assert ask(_MISCOUNTED_RUNS) == before["miscounted"]
    assert ask(_MISCOUNTED_GROUPS) == before["miscounted groups"]


def test_everything_hangs_on_something_that_is_there(filled: Filled) -> None:
    ask, _, _ = filled
    statements = [statement for (statement,) in ask(_FOREIGN_KEYS)]
    assert len(statements) > 20
    assert [statement for statement in statements if ask(statement) != [(0,)]] == []


def test_the_landmarks_are_what_they_are_called(filled: Filled) -> None:
    ask, landmarks, _ = filled
    assert [name for name, value in landmarks.items() if value is None] == []
    run = "select count(*) from public.rollouts where training_run_id = %s and source = 'training'"
    assert ask(run, landmarks["large_run"]) == [(_SIZES["large"],)]
    points = """select sum(cardinality(values)), bool_or('NaN' = any (values))
                from public.metric_chunks where training_run_id = %s"""
    assert ask(points, landmarks["metrics_run"]) == [(_SIZES["points"], True)]
    names = "select count(distinct name) from public.metric_chunks where training_run_id = %s"
    assert ask(names, landmarks["many_metrics_run"]) == [(_SIZES["metric_names"],)]
    turns = "select count(*) from public.agent_states where rollout_id = %s"
    assert ask(turns, landmarks["long_rollout"]) == [(_SIZES["long_turns"],)]
    output = """select max(length(c.tool_output)) from public.tool_calls c
                join public.agent_states a on a.id = c.agent_state_id where a.rollout_id = %s"""
    assert ask(output, landmarks["big_output_rollout"]) == [(_SIZES["output_bytes"],)]
    hostile = "select count(*) from public.agent_states where rollout_id = %s and observation like '<script>%%'"
    assert ask(hostile, landmarks["hostile_rollout"]) == [(1,)]
    deviation = "select reward_std = 0, rollout_count from public.rollout_groups where id = %s"
    assert ask(deviation, landmarks["group"]) == [(False, 8)]
    assert ask(deviation, landmarks["flat_group"]) == [(True, 8)]


def test_the_evaluation_solves_tasks_that_its_baseline_did_not(filled: Filled) -> None:
    ask, landmarks, _ = filled
    compared = ask("select public.compare_evaluations(%s, %s)", landmarks["evaluation"], landmarks["baseline"])[0][0]
    assert len(compared["tasks"]) == _SIZES["evaluated_tasks"]
    assert compared["newly_solved"] > 0
