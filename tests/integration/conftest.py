"""What tests of several parts share: the command in this process, and a look into the session's database."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from openmanus_rl.cli import main
from openmanus_rl.connections import forget_clients

from .docker_engine import debian_image, docker_engine  # noqa: F401
from .slurm import slurm  # noqa: F401

Row = dict[str, Any]
Query = Callable[..., list[Row]]


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    printed: bytes
    err: str

    @property
    def out(self) -> str:
        """What it printed, as text."""
        return self.printed.decode()

    @property
    def json(self) -> Any:
        """What it printed for programs."""
        return json.loads(self.printed)

    @property
    def message(self) -> str:
        """What it said beside that, on one line."""
        return " ".join(self.err.replace("│", " ").split())


Command = Callable[..., Done]


@pytest.fixture(scope="session")
def _connections() -> Iterator[None]:
    yield
    forget_clients()


@pytest.fixture
def _stack_settings(stack: Any, _connections: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the managers and commands of this process find the session's stack, from a folder without settings."""
    for name, value in stack.env.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(
    _stack_settings: None, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Command:
    """Run `openmanus-rl` in this process."""

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
        return Done(code, printed.out, printed.err.decode())

    return run


@pytest.fixture
def query(stack: Any) -> Iterator[Query]:
    """Return the rows of a query on the session's database."""
    with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as connection:

        def run(statement: str, *values: Any) -> list[Row]:
            return connection.execute(statement, values).fetchall()

        yield run
