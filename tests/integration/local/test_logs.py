"""The stack's logs hold no values, and are readable by their owner only."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest


def test_what_was_refused_is_not_in_the_logs(stack: Any) -> None:
    secret = f"secret-{uuid4().hex}"
    statements = {
        "an integer": "select public.ingest(jsonb_build_object('rollouts', jsonb_build_array("
        "jsonb_build_object('seed', %s))), true)",
        "a check": "insert into public.rollouts (environment, status) values ('a', %s)",
        "a cast": "select %s::integer",
        "a missing value": "insert into public.rollouts (task_description) values (%s)",
    }  # fmt: skip
    with psycopg.connect(stack.env["DATABASE_URL"], autocommit=True) as connection:
        for name, statement in statements.items():
            with pytest.raises(psycopg.Error):
                connection.execute(statement, [secret])
            logs = sorted(Path(stack.home, "logs").iterdir())
            assert [path.name for path in logs if secret.encode() in path.read_bytes()] == [], name


def test_logs_are_for_their_owner(stack: Any) -> None:
    folder = Path(stack.home, "logs")
    assert folder.stat().st_mode & 0o077 == 0
    logs = [path for path in folder.iterdir() if path.suffix == ".log"]
    assert len(logs) == 3
    assert [path.name for path in logs if path.stat().st_mode & 0o077] == []
