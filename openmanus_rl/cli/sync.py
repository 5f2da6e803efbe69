"""`openmanus-rl sync`: deliver what recording processes have left behind."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from openmanus_rl.cli.console import messages, output, print_facts, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.recorder.courier import Courier
from openmanus_rl.recorder.destination import connect, spool_root
from openmanus_rl.recorder.spools import Spool, find_spools, resend_refused
from openmanus_rl.settings import load_settings


def sync(
    refused: Annotated[bool, typer.Option("--refused", help="Send again what the database refused before.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Deliver what processes recorded and could not deliver, as after a crash or without a network.

    Each record arrives once, however often this is run, and also while training goes on beside it.

      openmanus-rl sync             deliver what waits
      openmanus-rl sync --refused   and try again what was refused, once the cause is mended
    """
    settings = load_settings()
    root = spool_root(settings)
    courier = Courier(root, connect=lambda: connect(settings))
    delivered = _deliver(courier, list(find_spools(root)))
    resent = resend_refused(root, courier.load_from) if refused else 0
    report = _report(list(find_spools(root)), delivered=delivered, resent=resent)
    if as_json:
        print_json(report)
    else:
        _show(report)
    if report["refused"] or report["queued_bytes"]:
        raise typer.Exit(1)


def _deliver(courier: Courier, spools: list[Spool]) -> int:
    total = sum(spool.unread_bytes() for spool in spools)
    columns = (TextColumn("Delivering"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("", total=total or None)

        def moved(_spool: Spool, _lines: int) -> None:
            progress.update(task, completed=total - sum(spool.unread_bytes() for spool in spools))

        return courier.deliver(on_progress=moved)


def _report(spools: list[Spool], *, delivered: int, resent: int) -> dict[str, Any]:
    refused = [entry for spool in spools for entry in spool.refused()]
    return {
        "delivered": delivered,
        "resent": resent,
        "queued_bytes": sum(max(0, spool.unread_bytes()) for spool in spools),
        "refused": len(refused),
        "reasons": sorted({entry["message"] for entry in refused})[:20],
    }


def _show(report: dict[str, Any]) -> None:
    if not report["delivered"] and not report["resent"] and not report["refused"] and not report["queued_bytes"]:
        output.print("Nothing waits: everything that was recorded is in the database.")
        return
    print_facts(
        {
            "Delivered": f"{report['delivered']:,} records",
            "Sent again": f"{report['resent']:,} records that had been refused",
            "Still waiting": f"{report['queued_bytes']:,} bytes, which another process delivers",
            "Refused": f"{report['refused']:,} records, kept; `openmanus-rl sync --refused` sends them again",
        }
    )
    for reason in report["reasons"]:
        output.print(f"  [red]{reason}[/]", markup=True)
