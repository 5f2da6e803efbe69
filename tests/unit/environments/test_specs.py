"""Specs of environments to train in: what is accepted, and how each mistake is named."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium.wrappers
import pytest

from openmanus_rl.environments import GridSpec, GymnasiumSpec, parse_spec
from openmanus_rl.environments.gymnasium_spec import WRAPPERS
from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes import spec as rollout_specs


def grid(**fields: Any) -> dict[str, Any]:
    return {"kind": "grid", "size": {"width": 4, "height": 3}, **fields}


def thing(kind: str = "goal", **fields: Any) -> dict[str, Any]:
    return {"name": kind, "kind": kind, **fields}


def wrong(spec: Any) -> tuple[str | None, str]:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(spec)
    return caught.value.field, caught.value.message


def test_rollouts_and_training_share_one_definition() -> None:
    assert rollout_specs.GymnasiumSpec is GymnasiumSpec
    assert rollout_specs.parse_spec({"kind": "grid", "map": ["A.G"]}) == parse_spec({"kind": "grid", "map": ["A.G"]})


def test_a_map_is_the_same_as_its_lists() -> None:
    of_map = parse_spec(
        {
            "kind": "grid",
            "map": ["A.#", "k.G", "oT "],
            "legend": {"k": "key"},
            "objects": [{"name": "key", "kind": "item", "reward": 2}],
        }
    )
    of_lists = parse_spec(
        {
            "kind": "grid",
            "size": {"width": 3, "height": 3},
            "walls": [[2, 0]],
            "objects": [
                {"name": "key", "kind": "item", "reward": 2, "positions": [[0, 1]], "symbol": "k"},
                {"name": "goal", "kind": "goal", "positions": [[2, 1]], "symbol": "G"},
                {"name": "item", "kind": "item", "positions": [[0, 2]], "symbol": "o"},
                {"name": "trap", "kind": "trap", "positions": [[1, 2]], "symbol": "T"},
            ],
            "agents": [{"name": "agent", "start": [0, 0], "symbol": "A"}],
        }
    )
    assert of_map == of_lists


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ([], "spec"),
        ({"kind": "maze"}, "kind"),
        ({"kind": ["grid"]}, "kind"),
        ({"kind": "grid"}, "size"),
        (grid(colour="red"), "colour"),
        (grid(size={"width": 65, "height": 3}), "size.width"),
        (grid(size={"width": True, "height": 3}), "size.width"),
        (grid(walls=[[0, 0], [4, 0]]), "walls.1"),
        (grid(walls=[[0, 0], [0, -1]]), "walls.1"),
        (grid(walls=[[0, 0], [0.5, 1]]), "walls.1.0"),
        (grid(walls=[[0, 0], [0, 0]]), "walls.1"),
        (grid(objects=[thing()]), "objects.0.positions"),
        (grid(objects=[thing(positions=[[9, 9]])]), "objects.0.positions.0"),
        (grid(walls=[[1, 1]], objects=[thing(positions=[[0, 0], [1, 1]])]), "objects.0.positions.1"),
        (grid(objects=[thing(random=1), thing("item", random=1, color="mauve")]), "objects.1.color"),
        (grid(objects=[thing(random=1), thing(random=1)]), "objects.1.name"),
        (grid(objects=[thing(random=1, name="wall")]), "objects.0.name"),
        (grid(objects=[thing(random=1, symbol="#")]), "objects.0.symbol"),
        (grid(objects=[thing("block", random=1, reward=1)]), "objects.0.reward"),
        (grid(objects=[thing("item", random=12)]), "objects"),
        (grid(agents=[]), "agents"),
        (grid(agents=[{"name": "a"}, {"name": "b"}]), "agents"),
        (grid(agents=[{"name": "a", "start": [4, 0]}]), "agents.0.start"),
        (grid(agents=[{"name": "a", "reward": 1}]), "agents.0.reward"),
        (grid(rewards={"step": float("nan")}), "rewards.step"),
        (grid(rewards={"goal": float("inf")}), "rewards.goal"),
        (grid(rewards={"gaol": 1}), "rewards.gaol"),
        (grid(ends={"max_steps": 0}), "ends.max_steps"),
        (grid(ends={"all_items": True}), "ends.all_items"),
        (grid(observation={"kind": "grid", "radius": 2}), "observation.radius"),
        (grid(actions={"directions": 6}), "actions.directions"),
        (grid(map=["A.G"]), "size"),
        (grid(legend={"K": "key"}), "legend"),
        ({"kind": "grid", "map": []}, "map"),
        ({"kind": "grid", "map": ["A.G", "A."]}, "map.1"),
        ({"kind": "grid", "map": ["A.?"]}, "map.0"),
        ({"kind": "grid", "map": ["A.A"]}, "map"),
        ({"kind": "grid", "map": ["A" + "." * 64]}, "map"),
        ({"kind": "grid", "map": ["A.K"], "legend": {"K": "key"}}, "legend"),
        ({"kind": "grid", "map": ["A.G"], "legend": {"KK": "key"}}, "legend"),
        ({"kind": "grid", "map": ["A.G"], "legend": {"#": "key"}}, "legend"),
        ({"kind": "grid", "map": ["A.G"], "objects": [thing(positions=[[2, 0]])]}, "objects.0.positions.1"),
        ({"kind": "gymnasium"}, "spec"),
        ({"kind": "gymnasium", "id": "A", "entry_point": "a:b"}, "spec"),
        ({"kind": "gymnasium", "entry_point": "os.system"}, "entry_point"),
        ({"kind": "gymnasium", "id": "A", "wrappers": [{"name": "RecordVideo"}]}, "wrappers.0.name"),
        (
            {"kind": "gymnasium", "id": "A", "wrappers": [{"name": "TimeLimit", "arguments": {"steps": 1}}]},
            "wrappers.0.arguments",
        ),
    ],
)
def test_a_mistake_is_named_by_its_field(spec: Any, field: str) -> None:
    named, message = wrong(spec)

    assert named == field
    assert field == "spec" or message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        (["A#G"], "objects.0.positions.0"),
        (["AG.o"], "objects.1.positions.0"),
        (["ATG"], "objects.1.positions.0"),
        (["AB.G"], "objects.1.positions.0"),
        (["A#", "#G"], "objects.0.positions.0"),
        (["G#o"], "agents"),
        (["###"], "agents"),
    ],
)
def test_what_cannot_be_reached_is_named(rows: list[str], field: str) -> None:
    assert wrong({"kind": "grid", "map": rows})[0] == field


def test_diagonal_moves_and_harmless_traps_open_ways() -> None:
    assert isinstance(parse_spec({"kind": "grid", "map": ["A#", "#G"], "actions": {"directions": 8}}), GridSpec)
    assert isinstance(parse_spec({"kind": "grid", "map": ["ATG"], "ends": {"trap": False}}), GridSpec)


def test_every_wrong_field_is_named_at_once() -> None:
    _, message = wrong(grid(size={"width": 0, "height": 99}, rewards={"step": "much"}))

    assert [part.split(":")[0] for part in message.split("; ")] == ["size.width", "size.height", "rewards.step"]


def test_allowed_wrappers_have_the_arguments_that_the_table_says() -> None:
    for name, arguments in WRAPPERS.items():
        parameters = inspect.signature(getattr(gymnasium.wrappers, name).__init__).parameters
        assert arguments <= set(parameters) - {"self", "env"}, name
