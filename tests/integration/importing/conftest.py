"""The command that imports, and files to import."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from openmanus_rl.cli import main
from openmanus_rl.gateway import forget_gateways

Row = dict[str, Any]
Query = Callable[..., list[Row]]


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """What it printed for programs."""
        return json.loads(self.out)

    @property
    def message(self) -> str:
        """What it said beside that, on one line."""
        return " ".join(self.err.replace("│", " ").split())


Command = Callable[..., Done]


@pytest.fixture(scope="session")
def _connections() -> Iterator[None]:
    yield
    forget_gateways()


@pytest.fixture
def command(
    stack: Any,
    _connections: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Command:
    """Run `openmanus-rl` in this process, from a folder without settings."""
    for name, value in stack.env.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["openmanus-rl", *arguments])
        capfdbinary.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        printed = capfdbinary.readouterr()
        return Done(code, printed.out.decode(), printed.err.decode())

    return run


@pytest.fixture
def run_name() -> str:
    return f"imported-{uuid4().hex}"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes lines, objects as JSON and texts as they are, and returns the file's name."""

    def write_lines(lines: Iterable[Any], name: str = "some.jsonl") -> str:
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
        return name

    return write_lines


@pytest.fixture
def query(stack: Any) -> Iterator[Query]:
    """Return the rows of a query on the session's database."""
    with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as connection:

        def run(statement: str, *values: Any) -> list[Row]:
            return connection.execute(statement, values).fetchall()

        yield run


@pytest.fixture
def rollouts(query: Query) -> Callable[[str], list[Row]]:
    """Return a function that reads a run's rollouts with their turns, in the order of the file."""

    def read(run_name: str) -> list[Row]:
        found = query(
            "select o.* from rollouts o join training_runs r on r.id = o.training_run_id where r.run_name = %s"
            " order by o.episode_number, o.id",
            run_name,
        )
        for rollout in found:
            rollout["turns"] = query(
                "select a.*, public.turn_chat(a.id) as whole_chat,"
                "  (select jsonb_agg(c order by c.position) from tool_calls c where c.agent_state_id = a.id) as calls,"
                "  (select reward from rewards w where w.rollout_id = a.rollout_id and w.step_number = a.step_number)"
                " from agent_states a where a.rollout_id = %s order by a.step_number",
                rollout["id"],
            )
        return found

    return read
