#!/usr/bin/env python3
"""Write docs/cli.md from the commands themselves: every command, argument and option, as `--help` describes them.

scripts/generate_cli_page.py [FILE]     FILE defaults to docs/cli.md of this checkout
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from openmanus_rl.cli.app import app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = """<!-- Written by scripts/generate_cli_page.py. Do not edit. -->

# Command line

There is one program, `openmanus-rl`. `--help` (or `-h`) after a command prints its description. An error is one message
on stderr and exit code 1; with `--json` it is printed to stdout as `{"error": {"code", "message", "details"}}`. A wrong
argument or option is exit code 2.

| command | |
|---|---|
"""


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command that can be run, with its full name."""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for part in command.list_commands(None):
        yield from commands(command.get_command(None, part), f"{name} {part}")


def page() -> str:
    """Return the whole page."""
    root = typer.main.get_command(app)
    found = list(commands(root, "openmanus-rl"))
    index = [f"| [`{name}`](#{_anchor(name)}) | {_summary(command)} |" for name, command in found]
    index.append("| [`openmanus-rl`](#global-options) | Options of the program itself |")
    sections = [_section(name, command) for name, command in found]
    options = _table("option", [one for one in root.params if one.param_type_name == "option"])
    return HEAD + "\n".join(index) + "\n\n" + "\n".join(sections) + "\n## Global options\n\n" + options


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join([name, *(_metavar(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    parts = [f"## {name}", "", f"`{usage}`", ""]
    for paragraph in _paragraphs(command):
        is_example = paragraph.startswith("\b\n")
        parts += ["```text", paragraph.removeprefix("\b\n"), "```", ""] if is_example else [_escaped(paragraph), ""]
    for title, params in (("argument", arguments), ("option", options)):
        if params:
            parts.append(_table(title, params))
    return "\n".join(parts)


def _summary(command: Any) -> str:
    return _escaped(_paragraphs(command)[0].partition(". ")[0].rstrip("."))


def _paragraphs(command: Any) -> list[str]:
    return [paragraph.rstrip() for paragraph in str(command.help).split("\n\n")]


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    many = "" if argument.nargs == 1 or "..." in name else "..."
    return f"{name}{many}" if argument.required else f"[{name}{many}]"


def _table(title: str, params: list[Any]) -> str:
    rows = [f"| {title} | default | |", "|---|---|---|"]
    for param in params:
        rows.append(f"| {_names(param)} | {_default(param)} | {_escaped(param.help or '')} |")
    return "\n".join(rows) + "\n"


def _names(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{param.metavar or param.name.upper()}`"
    names = sorted(param.opts, key=lambda option: not option.startswith("--"))
    value = "" if param.is_flag else f" {param.metavar or names[0].strip('-').upper()}"
    return ", ".join([f"`{names[0]}{value}`", *(f"`{name}`" for name in names[1:])]).replace("|", "\\|")


def _default(param: Any) -> str:
    default = None if callable(param.default) else param.default
    return "" if default in (None, False, "", ()) and not (default == 0 and default is not False) else f"`{default}`"


def _escaped(text: str) -> str:
    """Return text whose `<placeholders>` outside of code Markdown shows as they are."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|") for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(page())
