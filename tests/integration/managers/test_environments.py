"""Environments, their versions and pictures."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.environments import preview
from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError
from openmanus_rl.transport.client import Client
from openmanus_rl.utils.supabase_db import EnvironmentManager, TrainingRunManager

SPEC = {"map": ["A..G"]}


@pytest.fixture
def environments(client: Client) -> type[EnvironmentManager]:
    return EnvironmentManager.using(client)


@pytest.fixture
def name() -> str:
    return f"grid {uuid4()}"


def test_every_change_of_a_spec_is_kept_as_a_version(environments: type[EnvironmentManager], name: str) -> None:
    first = environments.save_environment(name, kind="grid", spec=SPEC)
    environments.save_environment(name, description="no change of what it is")
    second = environments.save_environment(name, spec={"map": ["A.G"]})
    third = environments.update(first["id"], spec=SPEC)

    assert [row["version"] for row in (first, second, third)] == [1, 2, 3]
    listed = environments.list_versions(name)
    assert [(row["version"], row["spec"]) for row in listed.rows] == [(3, SPEC), (2, {"map": ["A.G"]}), (1, SPEC)]
    assert environments.list_versions(name, limit=1).next_offset == 1
    assert environments.get_version(name, 2)["spec"] == {"map": ["A.G"]}
    for version in (0, 4):
        with pytest.raises(NotFoundError):
            environments.get_version(name, version)


def test_a_spec_that_is_wrong_is_not_saved(environments: type[EnvironmentManager], name: str) -> None:
    wrong = {"map": ["A#G"]}
    with pytest.raises(InvalidInput) as caught:
        environments.save_environment(name, kind="grid", spec=wrong)
    assert caught.value.field == "objects.0.positions.0"
    assert environments.find_environment(name) is None

    row = environments.save_environment(name, kind="grid", spec=SPEC)
    changes: list[dict[str, Any]] = [{"spec": wrong}, {"kind": "gymnasium"}, {"spec": {"id": "X"}}, {"spec": []}]
    for change in changes:
        with pytest.raises(InvalidInput):
            environments.update(row["id"], **change)
        with pytest.raises(InvalidInput):
            environments.save_environment(name, **({"spec": SPEC} | change))
    assert environments.get_environment(name)["version"] == 1
    assert environments.update(row["id"], kind="gymnasium", spec={"id": "CartPole-v1"})["version"] == 2


def test_recent_environments_are_listed_by_their_last_change(environments: type[EnvironmentManager], name: str) -> None:
    names = [f"{name} {number}" for number in range(3)]
    for each in names:
        environments.save_environment(each, kind=name, spec={})
    environments.save_environment(names[0], description="changed")

    assert [row["name"] for row in environments.list_recent(kind=name)] == [names[0], names[2], names[1]]


def test_a_draft_is_confirmed_only_when_its_spec_is_right(
    environments: type[EnvironmentManager], client: Client, name: str
) -> None:
    row = environments.save_environment(name, kind="grid", spec=SPEC, is_draft=True)
    assert row["is_draft"]
    # Whoever writes without the managers may save what cannot be built.
    batch = {"environments": [{"id": row["id"], "spec": {"map": ["A#G"]}}]}
    client.rpc("ingest", {"batch": batch, "all_or_nothing": True})
    with pytest.raises(InvalidInput, match="cannot be reached"):
        environments.confirm_environment(name)
    environments.save_environment(name, spec=SPEC)
    assert [row["name"] for row in environments.list_environments(is_draft=True, name_contains=name)] == [name]

    confirmed = environments.confirm_environment(name)

    assert not confirmed["is_draft"]
    assert confirmed["version"] == 3
    assert environments.list_environments(is_draft=True, name_contains=name).rows == []


def test_a_picture_belongs_to_its_version(environments: type[EnvironmentManager], name: str) -> None:
    environments.save_environment(name, kind="grid", spec=SPEC)
    environments.save_environment(name, spec={"map": ["AG"]})

    environments.save_preview(name, version=1, picture=preview({"kind": "grid", **SPEC}))
    environments.save_preview(name, version=2, error="no display")

    first, second = environments.get_version(name, 1), environments.get_version(name, 2)
    assert str(first["preview"]).startswith("data:image/png;base64,iVBOR")
    assert first["preview_error"] is None
    assert (second["preview"], second["preview_error"]) == (None, "no display")
    with pytest.raises(NotFoundError):
        environments.save_preview(name, version=3, error="no display")
    with pytest.raises(InvalidInput):
        environments.save_preview(name, version=1)
    with pytest.raises(InvalidInput):
        environments.save_preview(name, version=1, picture=b"x" * 400_000)


def test_an_environment_that_a_run_trained_on_is_kept(
    environments: type[EnvironmentManager], client: Client, name: str
) -> None:
    row = environments.save_environment(name, kind="grid", spec=SPEC)
    runs = TrainingRunManager.using(client)
    run = runs.create_run(name="trained", environment=name)
    record = {"id": run["id"], "environment_version": 1}
    client.rpc("ingest", {"batch": {"training_runs": [record]}, "all_or_nothing": True})

    with pytest.raises(ConflictError):
        environments.delete_environment(row["id"])
    runs.delete_run(run["id"])
    environments.delete_environment(row["id"])
