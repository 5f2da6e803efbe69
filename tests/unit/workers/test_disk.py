"""A worker claims nothing while its disk is full."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from openmanus_rl.workers import disk

MIB = 1024 * 1024


def test_a_full_disk_is_told_once_and_again_when_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [100 * MIB]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free[0]))
    monkeypatch.setattr(disk, "_INTERVAL_SECONDS", 0.0)
    watch = disk.DiskWatch(tmp_path)

    assert (watch.look(), watch.is_full) == (None, False)
    free[0] = 3 * MIB
    assert "3 MiB are free" in str(watch.look())
    assert (watch.look(), watch.is_full) == (None, True)
    free[0] = 64 * MIB
    assert "claimed again" in str(watch.look())
    assert not watch.is_full
