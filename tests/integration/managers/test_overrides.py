"""A person's word on a rollout, through the manager."""

from __future__ import annotations

import pytest

from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import RolloutManager, ValidationManager

from .conftest import LossyTransport


@pytest.fixture
def validations(client: Client) -> type[ValidationManager]:
    return ValidationManager.using(client)


@pytest.fixture
def failed(rollouts: type[RolloutManager], rollout: Row) -> Row:
    return rollouts.update_status(rollout["id"], "failed")


def test_a_rollout_is_judged_anew_and_the_word_withdrawn(validations: type[ValidationManager], failed: Row) -> None:
    said = validations.log_validation(failed["id"], "fail")
    assert validations.override(failed["id"], "pass", "it did", validation_id=said["id"])["status"] == "success"
    assert validations.override(failed["id"], None, "it did not")["status"] == "failed"

    page = validations.list_overrides(failed["id"], count=True)
    assert [(row["verdict"], row["reason"], row["validation_id"]) for row in page.rows] == [
        (None, "it did not", None),
        ("pass", "it did", said["id"]),
    ]
    assert validations.get_validation(said["id"])["verdict"] == "fail"


def test_a_word_whose_answer_was_lost_is_said_once(
    validations: type[ValidationManager], failed: Row, transport: LossyTransport
) -> None:
    for verdict in ("pass", None):
        transport.answers_to_lose = 1
        validations.override(failed["id"], verdict, "seen")
    assert [row["verdict"] for row in validations.list_overrides(failed["id"]).rows] == [None, "pass"]


def test_errors_say_what_is_wrong(validations: type[ValidationManager], rollout: Row, failed: Row) -> None:
    with pytest.raises(InvalidInput, match="say why"):
        validations.override(failed["id"], "pass", " ")
    with pytest.raises(NotFoundError, match="unknown id"):
        validations.override(new_id(), "pass", "seen")
    with pytest.raises(ConflictError, match="no override to withdraw"):
        validations.override(rollout["id"], None, "seen")
