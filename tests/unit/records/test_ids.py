"""Ids: new ones sort by time, derived ones are always the same."""

from __future__ import annotations

import time
from uuid import UUID, uuid4

import pytest

from openmanus_rl.errors import InvalidInput
from openmanus_rl.records import ids

RUN = "0197a1e2-0000-7000-8000-000000000001"


def test_a_new_id_is_a_uuid_of_version_7_and_of_now() -> None:
    made = UUID(ids.new_id())

    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert abs((made.int >> 80) - time.time() * 1000) < 60_000


def test_new_ids_are_unique_and_sort_by_the_time_they_were_made() -> None:
    made = []
    for _ in range(5):
        made.append(ids.new_id())
        time.sleep(0.001)

    assert made == sorted(made)
    assert len({ids.new_id() for _ in range(10_000)}) == 10_000


# Other programs derive the same ids: these must never change.
@pytest.mark.parametrize(
    ("derived", "expected"),
    [
        (ids.step_id(RUN, 10), "da647cfd-6e0f-5ade-93a4-aad0554eb47a"),
        (ids.task_id("alfworld", "7"), "bd396f8e-8321-5eb7-aa6b-7e84943f8009"),
        (ids.task_id(None, "7"), "d50ba43b-599e-5719-a74b-81ac79a55112"),
        (ids.environment_id("alfworld"), "0e17517e-7426-5621-85bc-7b5a2bc666b2"),
        (ids.validator_id(RUN, "default"), "cce17bf9-3caf-594e-b19b-c9497c5a67c2"),
        (ids.checkpoint_id(RUN, 1), "5b4348d5-7f6b-551b-b9e9-05de6b4de568"),
        (ids.group_id(RUN, 0), "615e4a67-1e93-5d41-a180-9cf11e1e135d"),
        (ids.creation_change_id(RUN), "dff62d4f-cd06-588c-a9e6-e66d7aaabe0a"),
    ],
)
def test_a_derived_id_never_changes(derived: str, expected: str) -> None:
    assert derived == expected


def test_derived_ids_differ_where_their_keys_do() -> None:
    derived = [
        ids.validation_id(RUN, None, "a"),
        ids.validation_id(RUN, RUN, "a"),
        ids.validation_id(RUN, None, "b"),
        ids.evaluation_result_id(RUN, "a", None, None),
        ids.evaluation_result_id(RUN, "a", RUN, None),
        ids.evaluation_result_id(RUN, "a", None, RUN),
        ids.evaluation_result_id(RUN, "b", None, None),
    ]

    assert len(set(derived)) == len(derived)


def test_an_id_may_be_given_as_text_or_uuid() -> None:
    value = uuid4()

    assert ids.as_id(value, field="x") == ids.as_id(str(value).upper(), field="x") == str(value)


@pytest.mark.parametrize("value", ["", "7", "run-1", None, 7])
def test_what_is_no_id_is_refused_by_its_field(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        ids.as_id(value, field="rollout_id")  # type: ignore[arg-type]

    assert caught.value.field == "rollout_id"
