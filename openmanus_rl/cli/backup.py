"""`backup`, `restore` and `reset`: save, restore and delete the data of the stack of this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from openmanus_rl.cli.console import messages, output, phases, print_facts, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.stack import names_another
from openmanus_rl.errors import InvalidInput, StackError, UnsupportedError
from openmanus_rl.local import archive, launch
from openmanus_rl.local.admin import Admin, admin_of, external_admin
from openmanus_rl.local.backup import BackupProgress, take_backup
from openmanus_rl.local.embedded import ensure_stack
from openmanus_rl.local.home import Home, read_json, write_private_json
from openmanus_rl.local.places import home_of
from openmanus_rl.local.reset import count_records, reset_record
from openmanus_rl.local.restore import holds_records, require_readable, restore_backup, stored_versions
from openmanus_rl.local.stack_file import StackInfo
from openmanus_rl.settings import Settings, load_settings

_FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Path of the backup file.")]
_YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@dataclass(frozen=True)
class _LocalStack:
    """The running stack of this machine, with access to the whole database."""

    home: Home
    running: StackInfo
    admin: Admin

    @property
    def place(self) -> str:
        return self.running.external or str(self.home.root)


def backup(
    file: _FileArgument,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the database and stored files of the stack of this machine to one file, while the stack is running.

    The backup is a consistent snapshot; recording may continue meanwhile. The file is read back and verified before the
    command succeeds. It contains everything that was recorded, the users and their password hashes: keep it private.
    The keys of this installation are not included. With DATABASE_URL alone, the files of this machine are included.

    \b
    openmanus-rl backup monday.backup
    openmanus-rl restore monday.backup --check   verify the file
    openmanus-rl restore monday.backup           restore it, on this machine or another
    """
    stack = _local_stack(load_settings(), attempt="backup")
    target = file.absolute()
    with _bar() as progress:
        manifest = take_backup(stack.home, stack.admin, target, overwrite=force, progress=progress)
    report = _summary(target, manifest)
    if as_json:
        print_json(report)
    else:
        output.print(f"[bold green]Wrote {escape(str(file))}[/] and verified it")
        _show(report)


def restore(
    file: _FileArgument,
    check: Annotated[bool, typer.Option("--check", help="Verify the file without restoring it.")] = False,
    yes: _YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Replace the database and stored files of the embedded stack with those of a backup.

    The backup is verified, loaded next to the current data, compared and migrated to the installed version; only then
    it replaces the current data and the stack restarts. A failure before that changes nothing. If anything is recorded
    already, you must type `restore` to confirm. Users come from the backup; the keys of this installation are kept.
    Records that are waiting in this machine's spools are delivered to the restored database.

    \b
    openmanus-rl restore monday.backup --check
    openmanus-rl restore monday.backup
    """
    path = file.absolute()
    with _bar() as progress:
        progress.phase("Checking the file", path.stat().st_size if path.is_file() else None)
        manifest = archive.check_archive(path, moved=progress.moved)
    report = _summary(path, manifest) | {"restored": False}
    if not check:
        require_readable(path, manifest)
        stack = _local_stack(load_settings(), attempt="restore")
        if holds_records(stack.admin):
            _confirm(
                "restore", f"This replaces everything that is recorded in {stack.home.root} with {path.name}.", yes=yes
            )
        with _bar() as progress:
            restore_backup(stack.home, stack.admin, path, manifest, progress=progress)
        _restart(stack)
        report["restored"] = True
    if as_json:
        print_json(report)
        return
    output.print(f"[bold green]{'The file is intact' if check else 'Restored'}[/]")
    _show(report)


def reset(yes: _YesOption = False, as_json: JsonOption = False) -> None:
    """Delete every run, rollout, metric, task and stored file of the stack. Users, members and keys are kept.

    You must type `reset` to confirm. This cannot be undone except by restoring a backup. Records that are waiting in
    this machine's spools are not deleted; run `openmanus-rl sync` first to deliver them.

    \b
    openmanus-rl backup before.backup
    openmanus-rl reset
    """
    stack = _local_stack(load_settings(), attempt="reset")
    counts = count_records(stack.admin)
    what = f"{counts['runs']:,} runs, {counts['rollouts']:,} rollouts and {counts['files']:,} files"
    running = f" {counts['running']:,} runs are still running: what they record from now on will be refused."
    _confirm("reset", f"This deletes {what} from {stack.place}.{running if counts['running'] else ''}", yes=yes)
    reset_record(stack.home, stack.admin)
    if as_json:
        print_json({"removed": counts})
    else:
        output.print(f"Deleted {what}; users, members and keys are kept")


def _local_stack(settings: Settings, *, attempt: str) -> _LocalStack:
    """Return the running stack of this machine, started if necessary; refuse if the settings name another database."""
    home = home_of(settings)
    running = launch.find_running(home)
    if not settings.has_local_stack and (settings.url is None or names_another(settings, running)):
        raise UnsupportedError(
            f"`openmanus-rl {attempt}` works on a stack of this machine only, and the settings name another Supabase",
            hint='use `pg_dump --format=custom "$DATABASE_URL"` and `pg_restore` for that database, and '
            "`supabase storage cp --recursive` for its files; or unset SUPABASE_URL and DATABASE_URL",
        )
    if attempt == "restore" and (settings.is_external or (running is not None and running.external)):
        raise UnsupportedError(
            f"`openmanus-rl restore` replaces a whole database, which {settings.database_address} is not ours to be",
            hint="restore into an embedded stack (unset DATABASE_URL); or unpack the file with `tar -xf`, load "
            "`database.dump` into a new database with `pg_restore --no-owner`, and run `openmanus-rl migrate` on it",
        )
    if running is None:
        ensure_stack(settings)
        running = launch.find_running(home)
    if running is None:
        raise StackError(f"no stack runs in {home.root}; see `openmanus-rl status`")
    admin = external_admin(running.database_url) if running.external else admin_of(home, running.database_url)
    return _LocalStack(home=home, running=running, admin=admin)


def _confirm(word: str, consequence: str, *, yes: bool) -> None:
    """Continue only if the user types the word."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"{consequence} There is no terminal to ask for confirmation", hint="pass --yes to confirm")
    messages.print(escape(consequence))
    if typer.prompt(f"Type {word} to continue", err=True).strip() != word:
        raise typer.Abort


def _restart(stack: _LocalStack) -> None:
    """Restart the stack, so that it prepares the restored database."""
    state = read_json(stack.home.state) or {}
    write_private_json(stack.home.state, state | {"system_schema_of": None})
    with phases("Restarting the stack") as display:
        launch.stop(stack.home)
        launch.start_detached(stack.home, port=stack.running.port, progress=display)


def _summary(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    rows = manifest["rows"]
    return {
        "file": str(path),
        "size_bytes": path.stat().st_size,
        "made_at": manifest["made_at"],
        "version": manifest["version"],
        "migration": manifest["migration"],
        "runs": rows.get("public.training_runs", 0),
        "rollouts": rows.get("public.rollouts", 0),
        "rows": sum(rows.values()),
        "files": len(stored_versions(manifest)),
        "missing_files": manifest["missing"],
    }


def _show(report: dict[str, Any]) -> None:
    facts = {
        "File": f"{report['file']} ({report['size_bytes']:,} bytes)",
        "Made": f"{report['made_at']} by version {report['version']}",
        "Holds": f"{report['runs']:,} runs, {report['rollouts']:,} rollouts, {report['rows']:,} rows, "
        f"{report['files']:,} files",
    }
    if report["missing_files"]:
        facts["Missing"] = f"{len(report['missing_files']):,} files that the database refers to are not in storage"
    print_facts(facts)


class _BarProgress(BackupProgress):
    """Shows a progress bar on a terminal, and only the phases elsewhere."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def phase(self, text: str, total: int | None = None) -> None:
        if not messages.is_terminal:
            messages.print(f"{text} …")
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(text, total=total)

    def moved(self, size: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, size)


@contextmanager
def _bar() -> Iterator[BackupProgress]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        yield _BarProgress(progress)
