"""The demo's world: what can be done in it and what comes of it."""

from __future__ import annotations

import pytest

from openmanus_rl.demo.house import TURN_LIMIT, House, Result, Task, make_tasks


def find_task(hiding: str, *, starts_in_cellar: bool = False) -> Task:
    """Find a task in whose house the map works everywhere, or not where the agent starts."""
    tasks = [task for task in make_tasks("train", 0) if task.hiding == hiding]
    return next(
        task
        for task in tasks
        if (House(task).room == "cellar" if starts_in_cellar else "cellar" not in House(task).rooms)
    )


def walk(house: House, route: str) -> None:
    for direction in route.split(", "):
        house.step(f"go {direction}")


def route_in(result: Result) -> str:
    return result.text.rpartition("Route: ")[2].rstrip(".")


def fetch_from_container(house: House) -> Result:
    walk(house, route_in(house.step(f"search_map {house.task.target}")))
    for command in [command for command in house.commands() if command.startswith("open ")]:
        house.step(command)
    return house.step(f"take {house.task.target}")


def test_the_same_task_builds_the_same_house_and_another_task_another() -> None:
    first, again, other = (House(make_tasks("train", 0)[number]) for number in (0, 0, 1))
    assert (first.room, first.rooms, first.places) == (again.room, again.rooms, again.places)
    assert first.places != other.places


def test_every_room_can_be_reached_and_the_target_is_never_where_one_starts() -> None:
    for task in [*make_tasks("train", 1), *make_tasks("test", 1)]:
        house = House(task)
        for room in house.rooms:
            walker = House(task)
            for direction in walker.route(room):
                walker.room = walker.exits()[direction]
            assert walker.room == room
        assert house.place_of(task.target).room != house.room


def test_held_out_tasks_ask_for_things_that_training_never_asks_for() -> None:
    trained = {task.target.split()[1] for task in make_tasks("train", 0)}
    examined = {task.target.split()[1] for task in make_tasks("test", 0)}
    assert trained
    assert examined
    assert not trained & examined


def test_a_map_a_walk_and_an_open_container_lead_to_success() -> None:
    house = House(find_task("container"))
    result = fetch_from_container(house)
    assert house.outcome == "success"
    assert result.rewards["success"] == 1.0
    assert result.rewards["efficiency"] > 0


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
    house.step(f"open {name}")
    house.step(f"take {target}")
    assert house.outcome == "success"


def test_what_lies_on_the_floor_is_on_no_map_and_is_seen_by_looking() -> None:
    house = House(find_task("floor"))
    call = house.step(f"search_map {house.task.target}").tool_calls[0]
    assert not call["success"]
    assert call["error_message"] == f"the {house.task.target} is not on the map"
    walk(house, ", ".join(house.route(house.place_of(house.task.target).room)))
    assert house.task.target not in house.observe()
    house.step("look")
    assert house.task.target in house.observe()
    house.step(f"take {house.task.target}")
    assert house.outcome == "success"


def test_a_failed_tool_says_why_and_costs_more_than_one_that_worked() -> None:
    house = House(find_task("container", starts_in_cellar=True))
    failed = house.step(f"search_map {house.task.target}")
    worked = house.step("look")
    assert failed.tool_calls[0]["error_message"] == "no signal in the cellar"
    assert "tool_output" not in failed.tool_calls[0]
    assert worked.tool_calls[0]["success"]
    assert sum(failed.rewards.values()) < sum(worked.rewards.values())


def test_taking_the_wrong_thing_ends_the_episode_as_failed() -> None:
    houses = [House(task) for task in make_tasks("train", 0)]
    house = next(house for house in houses if "Something lies" in house.observe())
    house.step("look")
    wrong = next(
        command for command in house.commands() if command.startswith("take ") and not command.endswith(" key")
    )
    assert house.step(wrong).rewards["wrong_thing"] < 0
    assert house.outcome == "failed"
    with pytest.raises(ValueError, match="over"):
        house.step("look")


def test_an_episode_that_gets_nowhere_is_truncated_at_the_limit() -> None:
    house = House(find_task("container"))
    outcomes = []
    for _ in range(TURN_LIMIT):
        house.step("look")
        outcomes.append(house.outcome)
    assert outcomes == [None] * (TURN_LIMIT - 1) + ["truncated"]
