"""The committed row types, statuses, kinds and codes are those of the migrations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from openmanus_rl.records.statuses import COMPLETED_ROLLOUT_STATUSES, NEXT_STATUSES

ROOT = Path(__file__).parents[3]
GENERATED = [
    "openmanus_rl/records/rows.py",
    "openmanus_rl/records/statuses.py",
    "openmanus_rl/records/kinds.py",
    "openmanus_rl/records/codes.py",
    "supabase/functions/_shared/database.types.ts",
    "supabase/functions/_shared/constants.ts",
]


@pytest.mark.usefixtures("supabase_cli")
def test_what_is_generated_is_what_the_migrated_database_says(stack: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "generate_types", tmp_path],
        env=stack.env | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    stale = [name for name in GENERATED if (tmp_path / name).read_text() != (ROOT / name).read_text()]
    assert stale == [], "run scripts/generate_types and commit what it writes"


def test_the_statuses_and_transitions_are_the_databases(stack: Any) -> None:
    with psycopg.connect(stack.database_url) as connection:
        for entity, transitions in NEXT_STATUSES.items():
            for status, following in transitions.items():
                row = connection.execute("select internal.next_statuses(%s, %s)", [entity, status]).fetchone()
                assert row is not None
                assert row[0] is not None, f"{entity} has no status {status}"
                assert set(row[0]) == following, f"{entity}: from {status}"
            allowed = connection.execute(
                """select pg_get_constraintdef(oid) from pg_constraint
                   where conrelid = ('public.' || %s)::regclass and conname = %s || '_status_check'""",
                [entity, entity],
            ).fetchone()
            assert allowed is not None
            assert {part.split("'")[0] for part in allowed[0].split("'")[1::2]} == set(transitions)


def test_the_statuses_that_count_as_completed_are_the_databases(stack: Any) -> None:
    with psycopg.connect(stack.database_url) as connection:
        completed = {
            status
            for status in NEXT_STATUSES["rollouts"]
            if connection.execute("select internal.is_completed(%s)", [status]).fetchone() == (True,)
        }

    assert completed == COMPLETED_ROLLOUT_STATUSES
