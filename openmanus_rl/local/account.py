"""The account that Postgres runs under. Postgres refuses to run as root, so root uses an unprivileged account."""

from __future__ import annotations

import errno
import logging
import os
import pwd
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from openmanus_rl.errors import StackError

SERVICE_USER = "openmanus-rl"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """A user and group that a child process switches to."""

    name: str
    uid: int
    gid: int

    @property
    def popen_options(self) -> dict[str, object]:
        """Arguments of `subprocess.Popen` that start a process as this account."""
        if os.geteuid() == self.uid:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def account_for(data: Path) -> Account:
    """Choose the account that runs Postgres on a data directory, which may not exist yet."""
    euid = os.geteuid()
    owner = data.stat().st_uid if data.exists() else None
    if euid != 0:
        if owner not in (None, euid):
            raise StackError(
                f"{data} belongs to user {_name(owner)}; "
                "run as that user, or set OPENMANUS_RL_HOME to a folder of your own"
            )
        if _entry(euid) is None:
            raise StackError(
                f"user id {euid} has no entry in /etc/passwd, which Postgres requires; "
                "add one (in a container: `useradd --uid`), or run as a user that has one"
            )
        return Account(name=_name(euid), uid=euid, gid=os.getegid())
    if owner:
        entry = _entry(owner)
        return Account(name=_name(owner), uid=owner, gid=entry.pw_gid if entry else data.stat().st_gid)
    return _service_account()


def change_owner(folder: Path, account: Account) -> None:
    """Make the account the owner of a folder and everything in it, if we are root."""
    if os.geteuid() != 0:
        return
    os.chown(folder, account.uid, account.gid)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), account.uid, account.gid, follow_symlinks=False)


def allow_traversal(target: Path, account: Account) -> None:
    """If we are root, let the account traverse the folders above a path, without the right to list or read them."""
    if os.geteuid() != 0 or account.uid == 0:
        return
    for folder in reversed(target.resolve().parents):
        if not _can_traverse(folder, account):
            _logger.info("allowing user %s to traverse %s to reach %s", account.name, folder, target)
            _add_traversal(folder, account)


def _service_account() -> Account:
    for name in (SERVICE_USER, None, "nobody"):
        if name is None:
            _create_service_user()
            name = SERVICE_USER
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise StackError(
        "Postgres does not run as root, and there is no other user to run it as; "
        f"create one with `useradd --system {SERVICE_USER}`"
    )


def _create_service_user() -> None:
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if useradd is None:
        return
    command = [
        useradd,
        "--system",
        "--no-create-home",
        "--home-dir",
        "/nonexistent",
        "--shell",
        "/usr/sbin/nologin",
        SERVICE_USER,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:  # Another process created the user first, or /etc/passwd is read-only: `nobody` is used.
        _logger.info("useradd: %s", done.stderr.strip())


def _can_traverse(folder: Path, account: Account) -> bool:
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    if _has_acl(folder) and _traversal_entry(account) in os.getxattr(folder, _ACL_XATTR):
        return bool(status.st_mode & 0o010)  # With an ACL, the group bits are its mask, which limits every entry.
    return bool(status.st_mode & (0o010 if status.st_gid == account.gid else 0o001))


# The kernel's format of a POSIX ACL: a version, then (tag, permissions, id) for each entry in ascending order.
_ACL_XATTR = "system.posix_acl_access"
_ACL_VERSION = struct.pack("<I", 2)
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_EXECUTE = 1
_NO_ID = 0xFFFFFFFF


def _has_acl(folder: Path) -> bool:
    return hasattr(os, "listxattr") and _ACL_XATTR in os.listxattr(folder)


def _traversal_entry(account: Account) -> bytes:
    return struct.pack("<HHI", _USER, _EXECUTE, account.uid)


def _add_traversal(folder: Path, account: Account) -> None:
    mode = folder.stat().st_mode
    try:
        if not hasattr(os, "setxattr"):
            raise OSError(errno.ENOTSUP, "no ACLs on this system")
        if _has_acl(folder):
            entries = list(struct.iter_unpack("<HHI", os.getxattr(folder, _ACL_XATTR)[4:]))
        else:
            entries = [
                (_USER_OBJ, mode >> 6 & 7, _NO_ID),
                (_GROUP_OBJ, mode >> 3 & 7, _NO_ID),
                (_OTHER, mode & 7, _NO_ID),
            ]
        entries = [entry for entry in entries if entry[:1] != (_USER,) or entry[2] != account.uid]
        masks = [entry[1] for entry in entries if entry[0] == _MASK] or [mode >> 3 & 7]
        entries = [entry for entry in entries if entry[0] != _MASK]
        entries += [(_USER, _EXECUTE, account.uid), (_MASK, masks[0] | _EXECUTE, _NO_ID)]
        packed = b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
        os.setxattr(folder, _ACL_XATTR, _ACL_VERSION + packed)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.EINVAL):
            raise
        # This file system has no ACLs: allow everyone to traverse the folder, but not to list or read it.
        folder.chmod(mode | 0o001)


def _entry(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _name(uid: int | None) -> str:
    entry = _entry(uid) if uid is not None else None
    return entry.pw_name if entry else str(uid)
