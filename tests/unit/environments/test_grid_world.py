"""Grid worlds as Gymnasium environments."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env as check_for_sb3
from stable_baselines3.common.evaluation import evaluate_policy

from openmanus_rl.environments import build, parse_spec, preview
from openmanus_rl.errors import InvalidInput

UP, RIGHT, DOWN, LEFT = range(4)

torch.set_num_threads(1)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw any grid: walls, objects of each kind at drawn and random places, others, rewards, senses, actions."""
    width, height = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    cells = draw(st.permutations([[x, y] for x in range(width) for y in range(height)]))
    numbers = st.floats(-10, 10)
    taken = iter(cells)

    def some(limit: int) -> list[list[int]]:
        return [cell for _, cell in zip(range(draw(st.integers(0, limit))), taken, strict=False)]

    objects = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(["goal", "item", "trap", "block"]), max_size=4))):
        places = some(2)
        count = draw(st.integers(0 if places else 1, 2))
        objects.append({"name": f"{kind}-{number}", "kind": kind, "positions": places, "random": count})
    agents: list[dict[str, Any]] = [{"name": "hero", "start": (some(1) or [None])[0]}]
    for number in range(draw(st.integers(0, 2))):
        moves = draw(st.sampled_from(["random", "still"]))
        agents.append({"name": f"other{number}", "moves": moves, "reward": draw(numbers), "ends": draw(st.booleans())})
    return {
        "kind": "grid",
        "size": {"width": width, "height": height},
        "walls": some(width * height // 3),
        "objects": objects,
        "agents": agents,
        "rewards": {name: draw(numbers) for name in ("step", "bump", "goal", "item", "trap")},
        "ends": {"goal": draw(st.booleans()), "trap": draw(st.booleans()), "max_steps": draw(st.integers(1, 60))},
        "observation": draw(
            st.sampled_from([{"kind": "grid"}, {"kind": "window", "radius": 1}, {"kind": "coordinates"}])
        ),
        "actions": {
            "directions": draw(st.sampled_from([4, 8])),
            "pick": draw(st.booleans()),
            "noop": draw(st.booleans()),
        },
    }


def is_valid(spec: dict[str, Any]) -> bool:
    try:
        parse_spec(spec)
    except InvalidInput:
        return False
    return True


any_grid = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


@any_grid
@given(specs().filter(is_valid))
def test_any_valid_grid_passes_the_checkers_without_a_warning(spec: dict[str, Any]) -> None:
    environment = build(spec, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment.unwrapped)
        check_for_sb3(environment)


def played(spec: dict[str, Any], seed: int, actions: list[int]) -> list[Any]:
    environment = build(spec, render_mode="ansi")
    seen: list[Any] = [environment.reset(seed=seed)[0].tolist(), environment.render()]
    for action in actions:
        observation, reward, terminated, truncated, info = environment.step(action % int(environment.action_space.n))
        seen += [observation.tolist(), reward, terminated, truncated, info, environment.render()]
        if terminated or truncated:
            environment.reset()
    return seen


@any_grid
@given(specs().filter(is_valid), st.integers(0, 2**31), st.lists(st.integers(0, 9), max_size=30))
def test_the_same_seed_and_actions_give_the_same_episodes(spec: dict[str, Any], seed: int, actions: list[int]) -> None:
    assert played(spec, seed, actions) == played(spec, seed, actions)


def reaches_goal_from(environment: Any) -> bool:
    """Return whether some goal of the state after reset can be reached, by trying every action in every state."""
    world, layout = environment.unwrapped.world, environment.unwrapped._layout
    things = {each.cell: world.objects[each.number] for each in layout.things if each.cell is not None}
    found, waiting = {layout.agent}, [layout.agent]
    while waiting:
        x, y = waiting.pop()
        for dx, dy in world.directions:
            cell = (x + dx, y + dy)
            kind = things[cell].kind if cell in things else None
            inside = 0 <= cell[0] < world.size.width and 0 <= cell[1] < world.size.height
            if not inside or cell in world.walls or kind == "block" or cell in found:
                continue
            if kind == "goal":
                return True
            if kind != "trap":
                found.add(cell)
                waiting.append(cell)
    return False


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 12), st.integers(0, 12))
def test_random_traps_and_blocks_never_cut_off_the_goal(seed: int, traps: int, blocks: int) -> None:
    environment = build(
        {
            "kind": "grid",
            "size": {"width": 6, "height": 5},
            "walls": [[2, 1], [2, 2], [2, 3]],
            "objects": [
                {"name": "trap", "kind": "trap", "random": traps or 1},
                {"name": "block", "kind": "block", "random": blocks or 1},
                {"name": "goal", "kind": "goal", "random": 1},
            ],
        }
    )
    environment.reset(seed=seed)

    assert reaches_goal_from(environment)


def steps(spec: dict[str, Any], *actions: int) -> list[tuple[float, bool, bool]]:
    environment = build(spec)
    environment.reset(seed=0)
    return [(float(result[1]), bool(result[2]), bool(result[3])) for result in map(environment.step, actions)]


def test_rewards_and_ends_are_those_of_the_spec() -> None:
    spec: dict[str, Any] = {
        "kind": "grid",
        "map": ["Ao.TG"],
        "rewards": {"step": -0.25, "bump": -0.5, "item": 2, "trap": -4, "goal": 8},
        "ends": {"trap": False},
    }
    walk = steps(spec, UP, RIGHT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT)

    assert [reward for reward, *_ in walk] == [-0.75, 1.75, -0.25, -0.25, -0.25, -4.25, 7.75]
    assert [ended for _, ended, _ in walk] == [False] * 6 + [True]
    assert steps({"kind": "grid", "map": ["AT", ".G"]}, RIGHT) == [(-1.0, True, False)]


def test_an_episode_ends_with_the_last_item_or_the_last_step() -> None:
    spec = {"kind": "grid", "map": ["oAo.."], "ends": {"all_items": True, "max_steps": 4}}

    assert [ended for _, ended, _ in steps(spec, LEFT, RIGHT, RIGHT)] == [False, False, True]
    assert steps(spec, LEFT, LEFT, LEFT, LEFT)[-1] == (0.0, False, True)


def test_items_are_picked_up_where_there_is_an_action_for_it() -> None:
    spec = {"kind": "grid", "map": ["Ao."], "actions": {"pick": True, "noop": True}}
    pick, noop = 4, 5

    assert [reward for reward, *_ in steps(spec, pick, RIGHT, noop, pick, pick)] == [0, 0, 0, 1, 0]


def test_a_goal_that_does_not_end_the_episode_is_reached_once() -> None:
    spec = {"kind": "grid", "map": ["AG"], "ends": {"goal": False}}

    assert steps(spec, RIGHT, LEFT, RIGHT) == [(1.0, False, False), (0.0, False, False), (0.0, False, False)]


def test_meeting_another_agent_counts_in_its_cell_and_when_changing_places() -> None:
    still = {"name": "wolf", "moves": "still", "reward": -3, "ends": True}
    spec = {"kind": "grid", "map": ["A.w"], "legend": {"w": "wolf"}, "agents": [{"name": "agent"}, still]}
    assert steps(spec, RIGHT, RIGHT) == [(0.0, False, False), (-3.0, True, False)]

    # In two cells, a wolf that moves at random meets whoever comes: in the cell, or on the way.
    moving = {**spec, "map": ["Aw"], "agents": [{"name": "agent"}, {**still, "moves": "random"}]}
    for seed in range(30):
        environment = build(moving)
        environment.reset(seed=seed)
        *_, reward, terminated, _, _ = environment.step(RIGHT)
        assert (reward, terminated) == (-3.0, True)


def test_senses_show_what_the_spec_says() -> None:
    spec: dict[str, Any] = {"kind": "grid", "map": ["A#", ".G"]}
    whole, _ = build(spec).reset(seed=0)
    window, _ = build(spec | {"observation": {"kind": "window", "radius": 1}}).reset(seed=0)
    places, _ = build(spec | {"observation": {"kind": "coordinates"}}).reset(seed=0)

    assert whole.reshape(3, 2, 2).tolist() == [[[0, 1], [0, 0]], [[1, 0], [0, 0]], [[0, 0], [0, 1]]]
    walls, agent, goal = window.reshape(3, 3, 3).tolist()
    assert walls == [[1, 1, 1], [1, 0, 1], [1, 0, 0]]
    assert agent == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert goal == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert places.tolist() == [0, 0, 1, 1, 1]


def test_the_text_is_a_map_with_its_legend() -> None:
    environment = build({"kind": "grid", "map": ["#A.", ".TG"]}, render_mode="ansi")
    environment.reset(seed=0)
    environment.step(RIGHT)

    assert environment.render() == ("#.A\n.TG\nA you, at column 2, row 0, # wall, T trap, G goal")


def test_pictures_show_every_thing_at_its_cell() -> None:
    spec: dict[str, Any] = {
        "kind": "grid",
        "map": ["AGoT.w", "#B...."],
        "legend": {"w": "wolf"},
        "agents": [{"name": "agent"}, {"name": "wolf", "moves": "still"}],
        "ends": {"goal": False, "trap": False},
    }
    picture = np.asarray(Image.open(io.BytesIO(preview(spec))))

    assert picture.shape == (64, 192, 3)
    cells = {(x, y): picture[y * 32 : y * 32 + 32, x * 32 : x * 32 + 32] for x in range(6) for y in range(2)}
    floor = cells[2, 1]
    assert np.array_equal(floor[1:, 1:], cells[3, 1][1:, 1:])
    shown = [
        cell.tobytes() for place, cell in cells.items() if place in {(0, 0), (1, 0), (2, 0), (3, 0), (5, 0), (1, 1)}
    ]
    assert len({*shown, floor.tobytes(), cells[0, 1].tobytes()}) == 8
    assert preview(spec) == preview(spec)


def test_the_agent_looks_where_it_goes() -> None:
    environment = build({"kind": "grid", "map": ["...", ".A.", "..."]}, render_mode="rgb_array")
    blue = {}
    for action in (UP, RIGHT, DOWN, LEFT):
        environment.reset(seed=0)
        environment.step(action)
        x, y = environment.unwrapped.get_wrapper_attr("_layout").agent
        cell = np.asarray(environment.render())[y * 32 : y * 32 + 32, x * 32 : x * 32 + 32].astype(int)
        rows, columns = np.nonzero(cell[..., 2] - cell[..., 0] > 40)
        # A triangle is wide behind: its middle is away from where it points.
        blue[action] = (columns.mean() - 15.5, rows.mean() - 15.5)

    assert blue[UP][1] > 0.5
    assert blue[DOWN][1] < -0.5
    assert blue[LEFT][0] > 0.5
    assert blue[RIGHT][0] < -0.5


def test_a_large_world_has_a_picture_of_bounded_size() -> None:
    picture = Image.open(io.BytesIO(preview({"kind": "grid", "size": {"width": 64, "height": 10}})))

    assert picture.size == (1024, 160)


def test_wrappers_apply_to_grids() -> None:
    wrappers = [{"name": "ReshapeObservation", "arguments": {"shape": [3, 1, 3]}}]

    assert build({"kind": "grid", "map": ["A.G"], "wrappers": wrappers}).observation_space.shape == (3, 1, 3)


def test_ppo_learns_a_grid() -> None:
    spec = {"kind": "grid", "map": ["A..", ".#.", "..G"], "rewards": {"step": -0.02}, "ends": {"max_steps": 30}}
    model = PPO(
        "MlpPolicy",
        build(spec),
        n_steps=256,
        batch_size=128,
        n_epochs=8,
        learning_rate=1e-3,
        ent_coef=0.01,
        seed=1,
        device="cpu",
    )
    before, _ = evaluate_policy(model, build(spec), 5, warn=False)
    model.learn(2560)
    after, _ = evaluate_policy(model, build(spec), 5, warn=False)

    assert before < 0.5
    assert after == pytest.approx(1 - 4 * 0.02, abs=1e-6)
