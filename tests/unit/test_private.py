"""What is recorded, and what logs say, is readable by its owner only."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmanus_rl._private import append_private, make_private
from openmanus_rl.local.home import Home
from openmanus_rl.local.logs import configure_logging, rotate_if_large
from openmanus_rl.spool.spools import Spool


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_and_what_is_missing_above_it_are_private(tmp_path: Path) -> None:
    make_private(tmp_path / "home" / "spool" / "one")
    assert {mode_of(tmp_path / part) for part in ("home", "home/spool", "home/spool/one")} == {0o700}


def test_a_folder_that_was_open_is_closed_and_those_above_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shared" / "spool").mkdir(parents=True)
    make_private(tmp_path / "shared" / "spool")
    assert (mode_of(tmp_path / "shared"), mode_of(tmp_path / "shared" / "spool")) == (0o777, 0o700)


def test_a_log_is_private_also_where_it_was_not(tmp_path: Path) -> None:
    for name in ("new.log", "old.log"):
        if name == "old.log":
            (tmp_path / name).write_bytes(b"before\n")
        with append_private(tmp_path / name) as log:
            log.write(b"after\n")
        assert mode_of(tmp_path / name) == 0o600
    assert (tmp_path / "old.log").read_bytes() == b"before\nafter\n"


def test_the_log_of_a_supervisor_and_what_is_cut_from_others_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.prepare()
    logger = logging.getLogger("openmanus_rl.local")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr("openmanus_rl.local.logs._LIMIT_BYTES", 100)
    configure_logging(home)
    for number in range(10):
        logger.info("something %d happened", number)
    logger.handlers[0].close()
    home.gateway_log.write_bytes(b"x" * 50 + b"y" * 100)
    rotate_if_large(home.gateway_log)
    kept = [home.supervisor_log, *home.logs.glob("*.1")]
    assert len(kept) == 3
    assert {mode_of(path) for path in kept} == {0o600}
    assert (home.logs / "gateway.log.1").read_bytes() == b"y" * 100
    assert "something 9 happened" in home.supervisor_log.read_text()


def test_the_folders_of_a_stack_are_private_also_where_they_were_not(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for folder in (home.root, home.logs, home.storage, home.cache):
        folder.mkdir(exist_ok=True)
    home.prepare()
    assert {mode_of(folder) for folder in (home.root, home.logs, home.storage, home.cache)} == {0o700}


def test_refused_records_are_kept_for_their_owner(tmp_path: Path) -> None:
    Spool(tmp_path).add_refused([{"kind": "rollouts", "record": {"id": "1"}, "code": "OM400", "message": "no"}])
    assert mode_of(tmp_path / "refused.jsonl") == 0o600
