"""The dashboard checks specs while they are typed: by the same words, and against the same fields, as this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.environments import parse_spec
from openmanus_rl.environments.grid_spec import COLORS
from openmanus_rl.environments.gymnasium_spec import WRAPPERS
from openmanus_rl.errors import InvalidInput

PAGE = Path(__file__).parents[3] / "dashboard" / "src" / "pages" / "environment"


def test_the_dashboard_knows_the_same_colours_and_wrappers() -> None:
    terms = json.loads((PAGE / "terms.json").read_text())
    assert terms["colors"] == COLORS
    assert {name: set(arguments) for name, arguments in terms["wrappers"].items()} == WRAPPERS


@pytest.mark.parametrize("case", json.loads((PAGE / "wrong_grids.json").read_text()), ids=lambda case: str(case)[:80])
def test_a_grid_is_refused_for_the_field_that_the_dashboard_names(case: dict[str, Any]) -> None:
    spec = {"kind": "grid", **case["spec"]} if isinstance(case["spec"], dict) else case["spec"]
    with pytest.raises(InvalidInput) as refused:
        parse_spec(spec)
    # A cell that is wrong is named here, its coordinate there.
    assert any(f"{refused.value.field}.".startswith(f"{field}.") for field in case["fields"])
