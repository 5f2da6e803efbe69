"""Postgres runs under whoever owns the data, never under root."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmanus_rl.errors import StackError
from openmanus_rl.local import account as accounts
from openmanus_rl.local.account import Account, account_for, allow_traversal, change_owner

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root switches accounts")


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that only its owner may enter, in one that anyone may."""
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-test-") as base:
        folder = Path(base) / "a folder"
        folder.mkdir(mode=0o700)
        (folder / "data").mkdir()
        yield folder


def test_an_ordinary_user_is_the_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = pwd.getpwnam("nobody").pw_uid
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    chosen = account_for(tmp_path / "postgres")
    assert chosen.name == "nobody"
    assert chosen.popen_options == {}


def test_another_users_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StackError, match="OPENMANUS_RL_HOME"):
        account_for(tmp_path)


def test_a_user_without_a_name_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999)
    with pytest.raises(StackError, match="3999999 has no entry"):
        account_for(tmp_path / "postgres")


@as_root
def test_root_takes_an_unprivileged_account_for_new_data(tmp_path: Path) -> None:
    assert account_for(tmp_path / "postgres").uid != 0


@as_root
def test_root_keeps_the_owner_of_existing_data(tmp_path: Path) -> None:
    owner = pwd.getpwnam("nobody")
    change_owner(tmp_path, Account(name="nobody", uid=owner.pw_uid, gid=owner.pw_gid))
    assert account_for(tmp_path).uid == owner.pw_uid


@as_root
@pytest.mark.parametrize("access_lists", [True, False])
def test_the_account_may_pass_but_not_look(closed: Path, monkeypatch: pytest.MonkeyPatch, access_lists: bool) -> None:
    if not access_lists:
        monkeypatch.delattr(os, "setxattr")
        monkeypatch.delattr(os, "listxattr")
    entry = pwd.getpwnam("nobody")
    nobody = Account(name="nobody", uid=entry.pw_uid, gid=entry.pw_gid)
    os.chmod(closed.parent, 0o700)

    def may(*command: str) -> bool:
        done = subprocess.run(command, cwd="/", capture_output=True, check=False, **nobody.popen_options)  # type: ignore[call-overload]
        return bool(done.returncode == 0)

    assert not may("stat", str(closed / "data"))
    allow_traversal(closed / "data", nobody)
    allow_traversal(closed / "data", nobody)  # Twice does no harm.
    assert may("stat", str(closed / "data"))
    assert not may("ls", str(closed))
    if access_lists:
        assert not stat.S_IMODE(closed.stat().st_mode) & 0o007, "nobody else gains anything"


def test_where_nobody_can_run_postgres_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(accounts.pwd, "getpwnam", unknown)
    monkeypatch.setattr(accounts.shutil, "which", lambda *_, **__: None)
    with pytest.raises(StackError, match="useradd --system"):
        accounts._service_account()
