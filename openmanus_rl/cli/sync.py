"""`openmanus-rl sync`: deliver the records in local spools."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from openmanus_rl.cli.console import messages, output, print_facts, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.delivery.adopting import adopt, spools_in
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.destination import connect
from openmanus_rl.delivery.resending import resend_refused
from openmanus_rl.delivery.waiting import Refusals, Waiting, discard, find_refusals, survey
from openmanus_rl.errors import TransientError
from openmanus_rl.settings import Settings, load_settings
from openmanus_rl.spool.files import is_alive
from openmanus_rl.spool.roots import address_of, spool_root
from openmanus_rl.spool.spools import Spool, find_spools, hurry

_REASONS_SHOWN = 20
_PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.1
# A failure may pass: give up after some in a row that delivered nothing, with growing pauses between them.
_ATTEMPTS = 4
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0


def sync(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Also deliver the spools of a copied home or spool folder. DIR is not modified.",
        ),
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Send refused records again.")] = False,
    discard_refused: Annotated[
        bool, typer.Option("--discard", help="List refused and damaged records and delete them; delivers nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Deliver records that are still in local spools, for example after a crash or from a machine without a network.

    Each record is stored once, however often you run this, even while training is running and even if the machine that
    DIR was copied from delivers it too. Records for a destination other than the one in the settings are listed, not
    delivered.

    Exit code 0: everything for this destination was delivered. 1: some records are still waiting, refused or damaged.

    \b
    openmanus-rl sync              deliver everything that is waiting
    openmanus-rl sync --from DIR   also deliver a home that was copied from another machine
    openmanus-rl sync --refused    also retry refused records, once the cause is fixed
    openmanus-rl sync --discard    list refused records and delete them
    """
    settings = load_settings()
    if discard_refused:
        if refused or source is not None:
            raise typer.BadParameter("cannot be combined with --refused or --from", param_hint="--discard")
        _discard(settings, yes=yes, as_json=as_json)
        return
    root = spool_root(settings)
    report: dict[str, Any] = {"adopted": 0 if source is None else _adopt(source, root)}
    courier = Courier(root, connect=lambda: connect(settings))
    report["delivered"] = _deliver(courier, list(find_spools(root)))
    _wait_for_others(root)
    report["resent"] = resend_refused(root, courier.load_from) if refused else 0
    waiting = survey(settings.home, current=root)
    report |= _report(settings, waiting)
    if as_json:
        print_json(report)
    else:
        _show(report, waiting)
    if report["refused"] or report["queued_bytes"] or report["damaged"]:
        raise typer.Exit(1)


def _adopt(source: Path, root: Path) -> int:
    """Copy the spools of a folder to this home and return their number; a folder without spools is an error."""
    spools = spools_in(source)
    if not spools:
        raise typer.BadParameter(
            f"{source} holds no spools; give a home, its `spool` folder, or a folder inside that",
            param_hint="--from",
        )
    return sum(adopt(spool, root) for spool in spools)


def _deliver(courier: Courier, spools: list[Spool]) -> int:
    """Deliver pending records and return how many were stored, without refused and damaged ones."""
    total = sum(spool.unread_bytes() for spool in spools)
    before = {spool.folder: spool.progress.delivered for spool in spools}
    after = dict(before)
    columns = (TextColumn("Delivering"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("", total=total or None)

        def moved(spool: Spool, _lines: int) -> None:
            after[spool.folder] = spool.progress.delivered
            progress.update(task, completed=total - sum(spool.unread_bytes() for spool in spools))

        _deliver_patiently(courier, spools, moved)
    return sum(count - before.get(folder, 0) for folder, count in after.items())


def _deliver_patiently(courier: Courier, spools: list[Spool], on_progress: Callable[[Spool, int], None]) -> None:
    failures, pending = 0, sum(spool.unread_bytes() for spool in spools)
    while True:
        try:
            courier.deliver(on_progress=on_progress)
            return
        except TransientError as error:
            left = sum(spool.unread_bytes() for spool in spools)
            failures, pending = (1 if left < pending else failures + 1), left
            if failures >= _ATTEMPTS:
                raise
            messages.print(f"[yellow]trying again:[/] {escape(str(error))}")
            asked_seconds = min(error.retry_after_seconds or 0.0, _LONGEST_PAUSE_SECONDS)
            time.sleep(max(_PAUSE_SECONDS * failures, asked_seconds))


def _wait_for_others(root: Path) -> None:
    """Wait while another process delivers finished spools and makes progress."""
    last, deadline = -1, 0.0
    while left := sum(spool.unread_bytes() for spool in find_spools(root) if not is_alive(spool.folder)):
        if left != last:
            last, deadline = left, time.monotonic() + _PATIENCE_SECONDS
        if time.monotonic() >= deadline:
            return
        hurry(root)
        time.sleep(_LOOK_SECONDS)


def _report(settings: Settings, waiting: list[Waiting]) -> dict[str, Any]:
    """Return what is still in the spools, for the current destination and for each other one."""
    current = next((one for one in waiting if one.is_current), None)
    refusals, _ = find_refusals(settings.home)
    return {
        "destination": address_of(settings),
        "queued": current.queued if current else 0,
        "queued_bytes": current.queued_bytes if current else 0,
        "writing": current.writing if current else 0,
        "refused": current.refused if current else 0,
        "damaged": current.damaged if current else 0,
        "reasons": [_line(one) for one in refusals[:_REASONS_SHOWN]],
        "waiting": [{**asdict(one), "since": _time(one.since)} for one in waiting],
    }


def _show(report: dict[str, Any], waiting: list[Waiting]) -> None:
    left = ("queued_bytes", "refused", "damaged", "writing")
    others = [one for one in waiting if not one.is_current and one.holds_something]
    if not any(report[name] for name in ("delivered", "resent", *left)) and not others:
        output.print("Nothing to deliver: everything that was recorded in this home is in the database.")
        return
    facts = {
        "Delivered": f"{report['delivered']:,} records to {report['destination']}",
        "Sent again": f"{report['resent']:,} refused records",
        "Still waiting": f"{report['queued']:,} records ({report['queued_bytes']:,} bytes)",
        "Refused": f"{report['refused']:,} records, kept; `sync --refused` sends them again, `--discard` deletes them",
        "Damaged": f"{report['damaged']:,} records are lost, see below; `sync --discard` removes them from this list",
        "Recording": f"{report['writing']:,} process(es) are still recording to this home",
    }
    told = {"Sent again": "resent", "Still waiting": "queued_bytes", "Refused": "refused"}
    told |= {"Damaged": "damaged", "Recording": "writing"}
    print_facts({name: text for name, text in facts.items() if name not in told or report[told[name]]})
    for reason in report["reasons"]:
        output.print(f"  [red]{escape(reason)}[/]", markup=True)
    if not any(report[name] for name in left) and not others:
        output.print("Everything in this home is delivered.")
    for one in others:
        _show_other(one)


def _show_other(one: Waiting) -> None:
    """Print what is pending for a destination that is not in the settings."""
    output.print(f"[yellow]Not delivered, another destination:[/] {escape(one.address)}")
    facts = {
        "Waiting": f"{one.queued:,} records in {one.spools:,} spools",
        "Since": _time(one.since) or "",
        "Refused": f"{one.refused:,} records",
        "Damaged": f"{one.damaged:,} records are lost",
        "Last failure": one.error or "",
        "To deliver": "run `openmanus-rl sync` with that destination's settings, or deliver it here with `sync --from`",
    }
    told = {"Since": one.since, "Refused": one.refused, "Damaged": one.damaged, "Last failure": one.error}
    print_facts({name: text for name, text in facts.items() if told.get(name, True)})


def _discard(settings: Settings, *, yes: bool, as_json: bool) -> None:
    """List the refused records, ask for confirmation, and delete exactly those."""
    refusals, seen = find_refusals(settings.home)
    if refusals and not as_json:
        output.print(_table(refusals))
    if refusals and not yes:
        if as_json or not sys.stdin.isatty():
            raise typer.BadParameter(
                "there is no terminal to ask for confirmation; pass --yes to delete them", param_hint="--yes"
            )
        typer.confirm(
            f"Delete {sum(one.count for one in refusals):,} refused or damaged records permanently?", abort=True
        )
    dropped, kept = discard(seen)
    if as_json:
        print_json({"discarded": dropped, "kept": kept, "refusals": [asdict(one) for one in refusals]})
        return
    output.print(f"Deleted {dropped:,} records." if refusals else "Nothing was refused or damaged.")
    if kept:
        output.print(f"Kept {kept:,}: another process is delivering to their destination. Try again when it has ended.")


def _table(refusals: list[Refusals]) -> Table:
    table = Table("kind", "field", "reason", "count", box=None, pad_edge=False)
    table.columns[3].justify = "right"
    for one in refusals:
        table.add_row(one.kind, escape(one.field or ""), escape(one.reason), f"{one.count:,}")
    return table


def _line(one: Refusals) -> str:
    return f"{one.count:,} of {one.kind}{f'.{one.field}' if one.field else ''}: {one.reason}"


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
