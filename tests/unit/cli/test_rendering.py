"""How rows look in a terminal."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from openmanus_rl.cli.rendering import status_text
from openmanus_rl.records.statuses import EvaluationStatus, RolloutStatus, RunStatus, StepStatus, Verdict


@pytest.mark.parametrize("words", [RunStatus, StepStatus, EvaluationStatus, RolloutStatus, Verdict])
def test_every_status_has_a_style_of_its_own(words: Any) -> None:
    assert [status for status in get_args(words) if not status_text(status).style] == []
