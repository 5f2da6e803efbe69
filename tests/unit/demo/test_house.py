"""The demo's world: what can be done in it and what comes of it."""

from __future__ import annotations

from collections import Counter

import pytest

from openmanus_rl.demo.blueprint import lay_out
from openmanus_rl.demo.house import TURN_LIMIT, House, StepResult
from openmanus_rl.demo.tasks import Hiding, HouseTask, held_out_tasks, training_tasks


def find_task(hiding: Hiding, *, starts_outside_cellar: bool = True) -> HouseTask:
    tasks = [task for task in training_tasks(0) if task.hiding == hiding]
    return next(task for task in tasks if (lay_out(task).start != "cellar") == starts_outside_cellar)


def walk(house: House, route: str) -> None:
    for direction in route.split(", "):
        house.step(f"go {direction}")


def route_in(result: StepResult) -> str:
    return result.text.rpartition("Route: ")[2].rstrip(".")


def fetch_from_container(house: House) -> StepResult:
    walk(house, route_in(house.step(f"search_map {house.task.target}")))
    for command in [command for command in house.commands() if command.startswith("open ")]:
        house.step(command)
    return house.step(f"take {house.task.target}")


def test_the_same_task_builds_the_same_house_and_another_task_another() -> None:
    first, second = training_tasks(0)[:2]
    assert lay_out(first) == lay_out(first)
    assert lay_out(first) != lay_out(second)


def test_every_room_can_be_reached_and_the_target_is_never_where_one_starts() -> None:
    for task in [*training_tasks(1), *held_out_tasks(1)]:
        plan = lay_out(task)
        assert all(len(plan.route(plan.start, room)) < len(plan.exits) for room in plan.exits)
        assert plan.room_of(task.target) not in (None, plan.start)


def test_held_out_tasks_ask_for_things_that_training_never_asks_for() -> None:
    trained = {task.target.split()[1] for task in training_tasks(0)}
    examined = {task.target.split()[1] for task in held_out_tasks(0)}
    assert trained
    assert examined
    assert not trained & examined


def test_a_map_a_walk_and_an_open_container_lead_to_success() -> None:
    house = House(find_task("container"))
    result = fetch_from_container(house)
    assert result.outcome == "success"
    assert house.final_rewards()["success"] == 1.0
    assert house.final_rewards()["efficiency"] > 0


def test_a_locked_container_opens_with_the_key_that_inspecting_it_names() -> None:
    house = House(find_task("locked"))
    target = house.task.target
    walk(house, route_in(house.step(f"search_map {target}")))
    name = next(
        command.split()[1] for command in house.commands() if f"locked {command.split()[-1]}" in house.observe()
    )
    assert house.step(f"open {name}").text == f"The {name} is locked."
    key = house.step(f"inspect {name}").text.partition(" takes the ")[2].rstrip(".")
    found = house.step(f"search_map {key}")
    if "you are there" not in found.text:
        walk(house, route_in(found))
    house.step(f"take {key}")
    back = house.step(f"search_map {target}")
    if "you are there" not in back.text:
        walk(house, route_in(back))
    house.step(f"unlock {name} with {key}")
    assert house.step(f"take {target}").outcome == "success"


def test_what_lies_on_the_floor_is_on_no_map_and_is_seen_by_looking() -> None:
    house = House(find_task("floor"))
    call = house.step(f"search_map {house.task.target}").tool_calls[0]
    assert not call.success
    assert call.error_message == f"the {house.task.target} is not on the map"
    plan = lay_out(house.task)
    walk(house, ", ".join(plan.route(plan.start, plan.room_of(house.task.target) or "")))
    assert house.task.target not in house.observe()
    house.step("look")
    assert house.task.target in house.observe()
    assert house.step(f"take {house.task.target}").outcome == "success"


def test_a_failed_tool_says_why_and_costs_more_than_one_that_worked() -> None:
    house = House(find_task("container", starts_outside_cellar=False))
    failed = house.step(f"search_map {house.task.target}")
    worked = house.step("look")
    assert failed.tool_calls[0].error_message == "no signal in the cellar"
    assert failed.tool_calls[0].tool_output is None
    assert worked.tool_calls[0].success
    assert failed.reward < worked.reward
    assert failed.reward == pytest.approx(sum(failed.reward_parts.values()))


def test_taking_the_wrong_thing_ends_the_episode_as_failed() -> None:
    house = House(find_task("container"))
    for command in house.commands():
        if command.startswith("open "):
            house.step(command)
    house.step("look")
    wrong = next(
        command for command in house.commands() if command.startswith("take ") and not command.endswith(" key")
    )
    assert house.step(wrong).outcome == "failed"
    assert house.final_rewards()["wrong_thing"] < 0
    with pytest.raises(ValueError, match="over"):
        house.step("look")


def test_an_episode_that_gets_nowhere_is_truncated_at_the_limit() -> None:
    house = House(find_task("container"))
    outcomes = Counter(house.step("look").outcome for _ in range(TURN_LIMIT))
    assert outcomes == {None: TURN_LIMIT - 1, "truncated": 1}
