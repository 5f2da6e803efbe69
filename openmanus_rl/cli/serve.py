"""`serve`: the stack as a team's server, behind a proxy that speaks TLS."""

from __future__ import annotations

from typing import Annotated

import typer

from openmanus_rl import __version__
from openmanus_rl.cli.console import output, phases, print_facts
from openmanus_rl.cli.stack import dashboard_fact, print_stopped
from openmanus_rl.errors import StackError
from openmanus_rl.local.external.database import database_of
from openmanus_rl.local.home import Home
from openmanus_rl.local.places import home_of
from openmanus_rl.local.ports import DEFAULT_PORT
from openmanus_rl.local.serving import Serving
from openmanus_rl.local.stack_file import StackInfo
from openmanus_rl.settings import load_settings


def serve(
    public_url: Annotated[
        str,
        typer.Option("--public-url", help="What people and other machines call this server: https://rl.example.org."),
    ],
    host: Annotated[
        str,
        typer.Option(help="Address to listen on: 127.0.0.1 for a proxy on this machine, 0.0.0.0 for every interface."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port that the proxy passes requests to.")] = DEFAULT_PORT,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="A proxy on another machine or in a container network, such as 172.16.0.0/12, whose X-Forwarded-For "
            "is believed; can be repeated. Proxies on this machine always are.",
        ),
    ] = None,
    migrate: Annotated[
        bool,
        typer.Option("--migrate", help="With DATABASE_URL: set the database up, or bring it to this version, first."),
    ] = False,
) -> None:
    """Serve a team: the stack, reached under its public URL through a proxy that speaks TLS.

    Runs until Ctrl-C or SIGTERM, as service managers want it. Invite people with `openmanus-rl members invite`.
    """
    # Imported here because the supervisor loads every database client.
    from openmanus_rl.local.foreground import run_in_foreground

    serving = Serving.checked(public_url, host=host, trusted_proxies=trusted_proxy or [])
    settings = load_settings()
    home, database = home_of(settings), database_of(settings, migrate=migrate)
    with phases("Starting the server") as display:
        if not serving.is_encrypted:
            display.note(
                f"{serving.public_url} is not encrypted: passwords and keys can be read on their way; use https"
            )

        def on_ready(ready: StackInfo) -> None:
            display.stop()
            _announce(home, ready, serving, port)

        other = run_in_foreground(
            home,
            port=port,
            version=__version__,
            progress=display,
            on_ready=on_ready,
            database=database,
            serving=serving,
        )
        display.stop()
    if other is not None:
        raise StackError(
            f"a stack already runs in {home.root} (process {other.pid}, {other.public_url or other.url})",
            hint="stop it with `openmanus-rl down`, or serve from another OPENMANUS_RL_HOME",
        )
    print_stopped(settings, home)


def _announce(home: Home, info: StackInfo, serving: Serving, port: int) -> None:
    output.print("[bold green]The server is running[/]")
    print_facts(
        {
            "URL": serving.public_url,
            "Proxy to": f"http://{serving.host if serving.host not in ('0.0.0.0', '::') else '127.0.0.1'}:{port}",
            # No link that signs in: what a service prints is kept in logs.
            **dashboard_fact(info.dashboard_url),
            "Sign in": "openmanus-rl dashboard",
            "Invite": "openmanus-rl members invite someone@example.org",
            **({"Database": info.external} if info.external else {}),
            "Files" if info.external else "Data": str(home.root),
            "Stop": "Ctrl-C, or openmanus-rl down",
        }
    )
