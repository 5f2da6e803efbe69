"""The commands, assembled: one file a noun, named here and loaded when it is used."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from openmanus_rl import __version__
from openmanus_rl.cli.console import print_error, print_json, print_uncaught
from openmanus_rl.errors import OpenManusError

# What is typed -> the module of openmanus_rl.cli and the function, or Typer app, in it; in the order of the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("stack", "up"),
    "down": ("stack", "down"),
    "status": ("stack", "status"),
    "dashboard": ("dashboard", "dashboard"),
    "demo": ("demo", "demo"),
    "runs": ("runs", "app"),
    "rollouts": ("rollouts", "app"),
    "datasets": ("datasets", "app"),
    "members": ("members", "app"),
    "sync": ("sync", "sync"),
    "export": ("export", "export"),
    "import": ("importing", "import_"),
    "migrate": ("migrate", "migrate"),
    "backup": ("backup", "backup"),
    "restore": ("backup", "restore"),
    "reset": ("backup", "reset"),
}


class LazyGroup(TyperGroup):
    """Loads a command when it is asked for: `status` need not wait for every database client."""

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(f"openmanus_rl.cli.{module}"), name)
        if not isinstance(found, typer.Typer):
            command, found = found, typer.Typer(add_completion=False)
            found.command(cmd_name)(command)
        loaded = typer.main.get_command(found)
        loaded.name = cmd_name
        return loaded


app = typer.Typer(
    name="openmanus-rl",
    cls=LazyGroup,
    help="Record, see and steer agentic RL training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    sys.excepthook = print_uncaught
    try:
        app()
    except OpenManusError as error:
        if "--json" in sys.argv[1:]:
            print_json(error.as_dict())
        else:
            print_error(str(error))
        sys.exit(1)
