"""Ids: new ones sort by time, derived ones are always the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def test_ids_of_a_sequence_are_uuids_of_version_7_that_sort_in_their_order() -> None:
    sequence = ids.IdSequence()
    made = [sequence.next_id() for _ in range(1000)]

    assert made == sorted(set(made))
    assert {(UUID(one).version, str(UUID(one)) == one) for one in made} == {(7, True)}
    assert abs((UUID(made[0]).int >> 80) - time.time() * 1000) < 60_000


def test_sequences_share_no_ids_with_each_other() -> None:
    sequences = [ids.IdSequence() for _ in range(100)]
    made = [sequence.next_id() for sequence in sequences for _ in range(100)]

    assert len(set(made)) == len(made)


def test_threads_get_no_id_of_a_sequence_twice() -> None:
    sequence = ids.IdSequence()
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: sequence.next_id(), range(20_000)))

    assert len(set(made)) == len(made)


@pytest.mark.parametrize("make", [ids.new_id, ids.IdSequence().next_id], ids=["new_id", "sequence"])
def test_a_forked_child_makes_other_ids_than_its_parent(make: Callable[[], str]) -> None:
    make()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, " ".join(make() for _ in range(100)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read_end, 100_000).decode().split()
    os.close(read_end)
    os.close(write_end)

    assert len(theirs) == 100
    assert not set(theirs) & {make() for _ in range(1000)}


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


def test_a_sequence_that_has_counted_to_its_end_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_LAST_NUMBER", ids._FIRST_NUMBER + 2**18 + 5)
    sequence = ids.IdSequence()
    made = {sequence.next_id() for _ in range(2 * 2**18)}
    assert len(made) == 2 * 2**18
    assert {len(one) for one in made} == {36}
