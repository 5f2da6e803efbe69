"""The command line application: one module per command, imported when the command is used."""

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

# Command -> module of openmanus_rl.cli and the function or Typer app in it, in the order of the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("stack", "up"),
    "down": ("stack", "down"),
    "status": ("stack", "status"),
    "serve": ("serve", "serve"),
    "dashboard": ("dashboard", "dashboard"),
    "demo": ("demo", "demo"),
    "train": ("train", "train"),
    "runs": ("runs", "app"),
    "tasks": ("tasks", "app"),
    "environments": ("environments", "app"),
    "rollouts": ("rollouts", "app"),
    "queue": ("queue", "queue"),
    "worker": ("worker", "worker"),
    "workers": ("workers", "app"),
    "jobs": ("jobs", "app"),
    "orchestrator": ("orchestrator", "orchestrator"),
    "sweeps": ("sweeps", "app"),
    "rescore": ("rescore", "rescore_command"),
    "datasets": ("datasets", "app"),
    "members": ("members", "app"),
    "keys": ("keys", "app"),
    "sync": ("sync", "sync"),
    "export": ("export", "export"),
    "import": ("importing", "import_"),
    "archive": ("archive", "app"),
    "migrate": ("migrate", "migrate"),
    "backup": ("backup", "backup"),
    "restore": ("backup", "restore"),
    "reset": ("backup", "reset"),
}


class LazyGroup(TyperGroup):
    """Imports a command when it is used, so that `status` does not wait for every database client."""

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
        _unwrap_help(loaded)
        return loaded


def _unwrap_help(command: Any) -> None:
    """Join the lines of each help paragraph, because Typer keeps the line breaks of the source."""
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(
        paragraph if paragraph.startswith("\b") else " ".join(paragraph.split()) for paragraph in paragraphs
    )
    for part in getattr(command, "commands", {}).values():
        _unwrap_help(part)


app = typer.Typer(
    name="openmanus-rl",
    cls=LazyGroup,
    help="Record RL training runs of agents, inspect them, and manage the database they are stored in.",
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
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Record RL training runs of agents, inspect them, and manage the database they are stored in."""


def main() -> None:
    """Run the command line; an error prints one message and exits with code 1."""
    sys.excepthook = print_uncaught
    try:
        app()
    except OpenManusError as error:
        if "--json" in sys.argv[1:]:
            print_json(error.as_dict())
        else:
            print_error(str(error))
        sys.exit(1)
