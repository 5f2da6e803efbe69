"""The codes of our own SQL: each has a meaning, and nobody knows another."""

from __future__ import annotations

import re
from pathlib import Path

from openmanus_rl.records.codes import ERROR_CODES
from openmanus_rl.transport.sqlstate import OWN_CODES

ROOT = Path(__file__).parents[3]
SOURCES = [
    *ROOT.glob("openmanus_rl/**/*.py"),
    *ROOT.glob("supabase/functions/**/*.ts"),
    *ROOT.glob("supabase/local/**/*.ts"),
    *ROOT.glob("dashboard/src/**/*.ts*"),
]


def test_every_code_has_its_error() -> None:
    assert set(OWN_CODES) == set(ERROR_CODES)


def test_only_codes_that_the_database_raises_are_looked_for() -> None:
    found = {(source.name, code) for source in SOURCES for code in re.findall(r"\bOM\d{3}\b", source.read_text())}
    assert {code for _, code in found} == set(ERROR_CODES), sorted(found)
