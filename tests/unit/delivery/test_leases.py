"""Records of workers are loaded under the leases of their own attempts."""

from __future__ import annotations

from typing import Any

from openmanus_rl.delivery.batches import Batch, load_under_leases

Loaded = tuple[Batch, list[str]]


def load(batch: Batch, *, refused: dict[str, set[str]] | None = None) -> tuple[list[Loaded], list[dict[str, Any]]]:
    """Return what is loaded at once, and what is refused: `refused` has ids of records by kind."""
    loaded: list[Loaded] = []

    def take(part: Batch, leases: list[str]) -> list[dict[str, Any]]:
        loaded.append((part, leases))
        return [
            {"kind": kind, "index": index}
            for kind, records in part.items()
            for index, record in enumerate(records)
            if record["id"] in (refused or {}).get(kind, ())
        ]

    return loaded, load_under_leases(batch, take)


def test_records_without_leases_are_loaded_as_they_are() -> None:
    batch: Batch = {"rollouts": [{"id": "r"}]}

    assert load(batch)[0] == [(batch, [])]


def test_leases_of_several_rollouts_go_together() -> None:
    batch: Batch = {"rollouts": [{"id": "r", "_lease": "1"}, {"id": "s", "_lease": "2"}], "rewards": []}

    assert load(batch)[0] == [({"rollouts": [{"id": "r"}, {"id": "s"}], "rewards": []}, ["1", "2"])]


def test_leases_of_one_rollout_go_one_after_the_other_and_refusals_name_the_record() -> None:
    batch: Batch = {
        "rollouts": [{"id": "r", "_lease": "2"}, {"id": "s", "_lease": "3"}, {"id": "r", "_lease": "1"}],
        "agent_states": [{"id": "b", "rollout_id": "r", "_lease": "1"}, {"id": "a", "rollout_id": "r", "_lease": "2"}],
        "tool_calls": [{"id": "t", "agent_state_id": "b", "_lease": "1"}],
    }

    loaded, refused = load(batch, refused={"agent_states": {"b"}, "tool_calls": {"t"}})

    assert loaded == [
        ({"rollouts": [{"id": "r"}, {"id": "s"}], "agent_states": [{"id": "a", "rollout_id": "r"}]}, ["2", "3"]),
        (
            {
                "rollouts": [{"id": "r"}],
                "agent_states": [{"id": "b", "rollout_id": "r"}],
                "tool_calls": [{"id": "t", "agent_state_id": "b"}],
            },
            ["1"],
        ),
    ]
    assert refused == [{"kind": "agent_states", "index": 0}, {"kind": "tool_calls", "index": 0}]
