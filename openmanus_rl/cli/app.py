"""The commands, assembled: one file a noun, registered here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from openmanus_rl import __version__
from openmanus_rl.cli import migrate, stack
from openmanus_rl.cli.console import print_error, print_json
from openmanus_rl.errors import OpenManusError

app = typer.Typer(
    name="openmanus-rl",
    help="Record, see and steer agentic RL training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(stack.up)
app.command("down")(stack.down)
app.command("status")(stack.status)
app.command("migrate")(migrate.migrate)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Record, see and steer agentic RL training."""


def main() -> None:
    """Run the command line; a failure is one message and exit code 1."""
    try:
        app()
    except OpenManusError as error:
        if "--json" in sys.argv[1:]:
            print_json(error.as_dict())
        else:
            print_error(str(error))
        sys.exit(1)
