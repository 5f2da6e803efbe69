"""`environments`: where rollouts run."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from openmanus_rl.cli.console import output, print_facts, print_json
from openmanus_rl.cli.options import JsonOption, LimitOption
from openmanus_rl.cli.rendering import ago, new_table, print_table, shortened
from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.managers.environments import EnvironmentManager

app = typer.Typer(no_args_is_help=True, help="Save and show the environments that rollouts run in.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The environment's name.")]


@app.command()
def save(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its spec, as JSON or TOML.")],
    description: Annotated[str | None, typer.Option("--description", help="What it is.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Save an environment from a file, or replace the spec of the one with this name.

    The spec has a `kind` (none, process, docker, openenv, gymnasium or grid) and what this kind needs; an error names the
    field. Rollouts that were asked for before and have not begun use the new spec.

    \b
    openmanus-rl environments save shop shop.toml
    """
    from openmanus_rl.sandboxes.spec import parse_spec

    spec = _read(file)
    parse_spec(spec)
    kind = spec.pop("kind")
    saved = EnvironmentManager.save_environment(name, kind=kind, spec=spec, description=description)
    if as_json:
        print_json(saved)
        return
    output.print(f"Environment {escape(name)} saved, version {saved['version']}")


@app.command("list")
def list_environments(
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List environments by name.

    \b
    openmanus-rl environments list
    """
    rows = EnvironmentManager.list_environments(limit=limit).rows
    if as_json:
        print_json({"environments": rows})
        return
    if not rows:
        output.print("No environments; save one with `openmanus-rl environments save NAME FILE`")
        return
    table = new_table("name", "kind", "version", "changed", "description", right=("version",))
    for row in rows:
        table.add_row(
            escape(row["name"]),
            escape(row["kind"] or "–"),
            str(row["version"]),
            ago(row["updated_at"]),
            escape(shortened(row["description"], 60)),
        )
    print_table(table)


@app.command()
def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Show an environment with its spec.

    \b
    openmanus-rl environments show shop
    """
    row = EnvironmentManager.get_environment(name)
    if as_json:
        print_json(row)
        return
    facts = {"Name": row["name"], "Kind": row["kind"] or "–", "Version": str(row["version"])}
    if row["description"]:
        facts["Description"] = row["description"]
    print_facts(facts)
    output.print(escape(json.dumps(row["spec"], indent=2, ensure_ascii=False)))


@app.command()
def delete(name: NameArgument, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Delete an environment; its tasks and rollouts stay.

    \b
    openmanus-rl environments delete shop --yes
    """
    row = EnvironmentManager.get_environment(name)
    if not yes:
        typer.confirm(f"Delete environment {name}?", abort=True, err=True)
    EnvironmentManager.delete_environment(row["id"])
    output.print(f"Environment {escape(name)} deleted")


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LocalFileError(f"{file}: it can't be read: {error}", path=str(file)) from error
    try:
        found = tomllib.loads(text) if file.suffix.lower() == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file}: it is not JSON or TOML: {error}", field="file") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{file}: an object with a kind is expected", field="file")
    return found
