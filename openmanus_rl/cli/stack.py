"""`up`, `down` and `status` of the stack of this machine, or of the Supabase in the settings."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.markup import escape

from openmanus_rl import __version__
from openmanus_rl.cli.connected import print_connected, read_connected
from openmanus_rl.cli.console import output, phases, print_error, print_facts, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.errors import StackError
from openmanus_rl.local import launch
from openmanus_rl.local.assets import find_assets
from openmanus_rl.local.external.database import database_of
from openmanus_rl.local.health import check_health
from openmanus_rl.local.home import Home, disk_bytes
from openmanus_rl.local.owner import sign_in_link
from openmanus_rl.local.places import home_of
from openmanus_rl.local.ports import DEFAULT_PORT, HOST
from openmanus_rl.local.stack_file import StackInfo
from openmanus_rl.local.watch import diagnose
from openmanus_rl.settings import Settings, load_settings

NOT_RUNNING = 3


def up(
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the API and the dashboard; 0 picks a free port. "
            f"Default: {DEFAULT_PORT}, or a free port if that one is in use."
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; return once the stack is ready.")
    ] = False,
    migrate: Annotated[
        bool,
        typer.Option("--migrate", help="With DATABASE_URL: set the database up, or bring it to this version, first."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --detach: print machine-readable JSON.")] = False,
) -> None:
    """Start the stack: Postgres, the Supabase API and the dashboard.

    With DATABASE_URL alone (or POSTGRES_HOST and its companions), the API and the dashboard are started on that
    database instead of an embedded Postgres.

    \b
    openmanus-rl up --detach
    DATABASE_URL=postgresql://lab:…@db.example.org/lab openmanus-rl up --migrate
    """
    settings = load_settings()
    home, database = home_of(settings), database_of(settings, migrate=migrate)
    with phases("Starting the stack") as display:
        if settings.url is not None and urlsplit(settings.url).hostname != HOST:
            display.note(
                f"SUPABASE_URL names {settings.url}: programs use that server, not this stack, until you unset it"
            )
        if detach:
            info, started = launch.start_detached(home, port=port, progress=display, database=database)
            display.stop()
            if as_json:
                print_json({"started": started, "notes": display.notes} | _local_report(settings, home, info))
            else:
                title = "The stack is running" if started else "The stack was already running"
                _announce(home, info, title, "openmanus-rl down")
            return
        if as_json:
            raise typer.BadParameter("needs --detach", param_hint="--json")

        # Imported here because the supervisor loads every database client, which `status` and `down` do not need.
        from openmanus_rl.local.foreground import run_in_foreground

        def on_ready(ready: StackInfo) -> None:
            display.stop()
            _announce(home, ready, "The stack is running", "Ctrl-C, or openmanus-rl down")

        other = run_in_foreground(
            home, port=port, version=__version__, progress=display, on_ready=on_ready, database=database
        )
        display.stop()
    if other is not None:
        _announce(home, other, "The stack was already running", "openmanus-rl down")
    else:
        print_stopped(settings, home)


def down() -> None:
    """Stop the stack of this machine and keep its data; an external database goes on."""
    settings = load_settings()
    home = home_of(settings)
    with phases("Stopping the stack"):
        stopped = launch.stop(home)
    if stopped:
        print_stopped(settings, home)
    else:
        output.print(f"Nothing is running in {escape(str(home.root))}")


def status(
    env: Annotated[
        bool, typer.Option("--env", help="Print the settings as NAME=value lines for .env.supabase.")
    ] = False,
    as_json: JsonOption = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Print the dashboard's URL as a sign-in link: valid once, for one day."),
    ] = False,
) -> None:
    """Show whether the stack is running and how to reach it; exit code 3 if it is not."""
    settings = load_settings()
    home = home_of(settings)
    running = launch.find_running(home)
    report = _hosted_report(settings) if names_another(settings, running) else _local_report(settings, home, running)
    if env and not as_json:
        _print_env(report)
    else:
        # Imported here because it loads every database client, which `up` and `down` do not need.
        from openmanus_rl.delivery.waiting import survey
        from openmanus_rl.spool.roots import spool_root
        from openmanus_rl.spool.spools import overview

        report["recording"] = overview(spool_root(settings))
        found = survey(settings.home, current=spool_root(settings))
        report["waiting_elsewhere"] = [asdict(one) for one in found if not one.is_current and one.holds_something]
        if link:
            _add_link(report, running)
        if running is not None and report["mode"] != "hosted":
            report["connected"] = read_connected(running)
        if as_json:
            print_json(report)
        else:
            _print_report(report)
            if report.get("connected"):
                print_connected(report["connected"])
            _print_recording(report["recording"])
            for one in report["waiting_elsewhere"]:
                text = f"{one['queued']:,} records for {one['address']}, which is not the destination in the settings"
                print_facts({"Waiting": text})
    if not report["running"]:
        raise typer.Exit(NOT_RUNNING)


def names_another(settings: Settings, running: StackInfo | None) -> bool:
    """Return whether the settings name a Supabase other than the stack of this machine that runs."""
    return settings.url is not None and (running is None or settings.url != running.url)


def dashboard_fact(url: str | None) -> dict[str, str]:
    """Return the line with the URL of the dashboard, if this installation has one."""
    return {"Dashboard": url} if url is not None and find_assets().dashboard is not None else {}


def dashboard_link(running: StackInfo) -> str:
    """Return a sign-in link to the dashboard, or its plain URL if none can be created."""
    try:
        return sign_in_link(running)
    except StackError:
        return running.dashboard_url


def dashboard_page(page: str) -> str | None:
    """Return a link that signs in and opens a page, such as `runs/ID`; None without a stack of this machine."""
    settings = load_settings()
    running = launch.find_running(home_of(settings))
    if running is None or settings.url not in (None, running.url):
        return None
    return dashboard_link(running).replace(running.dashboard_url, f"{running.dashboard_url}{page}", 1)


def print_stopped(settings: Settings, home: Home) -> None:
    """Say that the stack has ended, and where its data is."""
    where = f"{settings.database_address}, files in {home.root}" if settings.is_external else str(home.root)
    output.print(f"Stopped; the data is kept in {escape(where)}")


def _announce(home: Home, info: StackInfo, title: str, how_to_stop: str) -> None:
    output.print(f"[bold green]{title}[/]")
    if info.version != __version__:
        output.print(_outdated(info.version))
    print_facts(
        {
            "API": info.url,
            **dashboard_fact(dashboard_link(info)),
            **({"Database": info.external} if info.external else {}),
            "Files" if info.external else "Data": str(home.root),
            "Settings": "openmanus-rl status --env",
            "Stop": how_to_stop,
        }
    )


def _local_report(settings: Settings, home: Home, running: StackInfo | None) -> dict[str, Any]:
    external = running.external if running is not None else settings.database_address if settings.is_external else None
    report: dict[str, Any] = {
        "mode": "external" if external else "embedded",
        "running": False,
        "home": str(home.root),
        "version": __version__,
        **({"database": external} if external else {}),
    }
    if running is None:
        return report | {"health": _why_not_running(home)}
    health = check_health(running.url)
    uptime = datetime.now(UTC) - datetime.fromisoformat(running.started_at)
    return report | {
        "running": True,
        "healthy": health.ok,
        "health": health.detail if health.ok else f"{health.detail}: {_diagnose(running)}",
        "SUPABASE_URL": running.url,
        "SUPABASE_ANON_KEY": running.publishable_key,
        "SUPABASE_SERVICE_ROLE_KEY": running.secret_key,
        "DATABASE_URL": running.database_url,
        "public_url": running.public_url,
        "dashboard_url": running.dashboard_url,
        "pid": running.pid,
        "port": running.port,
        "version": running.version,
        "postgres_version": running.postgres_version,
        "uptime_seconds": int(uptime.total_seconds()),
        "disk_bytes": disk_bytes(home.root),
    }


def _diagnose(running: StackInfo) -> str:
    return diagnose(running.url, running.database_url, external=running.external)


def _why_not_running(home: Home) -> str:
    pid = launch.starting_pid(home)
    if pid is not None:
        return f"process {pid} is starting it (log: {home.supervisor_log})"
    crashed = launch.find_crashed(home)
    if crashed is not None:
        return (
            f"its supervisor, process {crashed.pid}, was killed; `openmanus-rl up`, or the next command that "
            "needs the stack, restarts it with all committed data"
        )
    return "nothing is running here; start it with `openmanus-rl up`"


def _add_link(report: dict[str, Any], running: StackInfo | None) -> None:
    """Replace the URL of the dashboard with a sign-in link, if the stack is healthy."""
    if running is not None and report["mode"] != "hosted" and report["healthy"]:
        report["dashboard_url"] = dashboard_link(running)


def _hosted_report(settings: Settings) -> dict[str, Any]:
    url = settings.require_url()
    health = check_health(url, timeout_seconds=settings.request_timeout_seconds)
    secrets = {
        "SUPABASE_ANON_KEY": settings.anon_key,
        "SUPABASE_SERVICE_ROLE_KEY": settings.service_role_key,
        "SUPABASE_KEY": settings.member_key,
        "DATABASE_URL": settings.database_url,
    }
    return {
        "mode": "hosted",
        "running": health.ok,
        "healthy": health.ok,
        "health": health.detail,
        "version": __version__,
        "SUPABASE_URL": url,
        **{name: secret.get_secret_value() for name, secret in secrets.items() if secret is not None},
        "dashboard_url": None,
    }


def _print_env(report: dict[str, Any]) -> None:
    if not report["running"]:
        print_error(report["health"])
        return
    for name in ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_KEY", "DATABASE_URL"):
        if name in report:
            typer.echo(f"{name}={report[name]}")


def _print_report(report: dict[str, Any]) -> None:
    if report["mode"] == "hosted":
        output.print(f"The settings point to the Supabase at {escape(report['SUPABASE_URL'])}")
        print_facts({"Health": report["health"], "Version": report["version"]})
        return
    external = report.get("database")
    name = f"The gateway of {external}" if external else "The embedded stack"
    if not report["running"]:
        output.print(f"[bold]{escape(name)} is not running[/]")
        facts = {"Files" if external else "Data": report["home"], "Start": "openmanus-rl up --detach"}
        print_facts(facts if report["health"].startswith("nothing is running") else {"Why": report["health"]} | facts)
        return
    output.print(
        f"[bold green]{escape(name)} is running[/]"
        if report["healthy"]
        else f"[bold red]{escape(name)} is unhealthy[/]"
    )
    if report["version"] != __version__:
        output.print(_outdated(report["version"]))
    print_facts(
        {
            "API": report["SUPABASE_URL"],
            **({"Public": report["public_url"]} if report["public_url"] else {}),
            **dashboard_fact(report["dashboard_url"]),
            "Health": report["health"],
            **({"Database": external} if external else {}),
            "Files" if external else "Data": f"{report['home']} ({report['disk_bytes'] / 2**20:.0f} MB)",
            "Version": f"{report['version']}, Postgres {report['postgres_version']}",
            "Process": f"{report['pid']}, up {_duration(report['uptime_seconds'])}",
            "Settings": "openmanus-rl status --env",
            "Stop": "openmanus-rl down",
        }
    )


def _print_recording(recording: dict[str, Any]) -> None:
    """Print how many records of this machine are not delivered, if any."""
    if not any(recording[name] for name in ("queued_bytes", "refused", "damaged")):
        return
    size = f"{recording['queued_bytes']:,} bytes"
    facts = {"Waiting": f"{recording['queued']:,} records ({size}) recorded on this machine are not delivered yet"}
    if recording["refused"]:
        facts["Refused"] = f"{recording['refused']:,} records, kept; `openmanus-rl sync` shows why"
    if recording["damaged"]:
        facts["Damaged"] = f"{recording['damaged']:,} records are lost; `openmanus-rl sync` shows why"
    if recording["error"] is not None:
        facts["Last failure"] = recording["error"]
    print_facts(facts)


def _outdated(version: str) -> str:
    return (
        f"The running stack is version {version}, but {__version__} is installed: "
        "restart it with `openmanus-rl down` and `openmanus-rl up`"
    )


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
