"""`environments`: where rollouts run, and what is trained in."""

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

app = typer.Typer(no_args_is_help=True, help="Save, show and draw the environments of rollouts and training.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The environment's name.")]
VersionOption = Annotated[int | None, typer.Option("--version", min=1, help="This version instead of the current.")]


@app.command()
def save(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its spec, as JSON or TOML.")],
    description: Annotated[str | None, typer.Option("--description", help="What it is.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Save an environment from a file, or replace the spec of the one with this name.

    The spec has a `kind` (none, process, docker, openenv, gymnasium or grid) and what this kind needs; an error names
    the field. Rollouts that were asked for before and have not begun use the new spec.

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
    recent: Annotated[bool, typer.Option("--recent", help="The latest changes first.")] = False,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List environments by name, or the latest changes first.

    \b
    openmanus-rl environments list
    openmanus-rl environments list --recent --limit 5
    """
    order = "-updated_at" if recent else "name"
    rows = EnvironmentManager.list_environments(order_by=order, limit=limit).rows
    if as_json:
        print_json({"environments": rows})
        return
    if not rows:
        output.print("No environments; save one with `openmanus-rl environments save NAME FILE`")
        return
    table = new_table("name", "kind", "version", "changed", "description", right=("version",))
    for row in rows:
        description = ("draft: " if row["is_draft"] else "") + (row["description"] or "")
        table.add_row(
            escape(row["name"]),
            escape(row["kind"] or "–"),
            str(row["version"]),
            ago(row["updated_at"]),
            escape(shortened(description or None, 60)),
        )
    print_table(table)


@app.command()
def show(name: NameArgument, version: VersionOption = None, as_json: JsonOption = False) -> None:
    """Show an environment with its spec, as it is or as it was in a version.

    \b
    openmanus-rl environments show shop
    openmanus-rl environments show shop --version 2
    """
    row = EnvironmentManager.get_environment(name)
    shown = row if version is None else EnvironmentManager.get_version(name, version)
    if as_json:
        print_json(shown)
        return
    facts = {"Name": row["name"], "Kind": shown["kind"] or "–", "Version": str(shown["version"])}
    if row["is_draft"]:
        facts["Draft"] = f"imported; check it, then run `openmanus-rl environments confirm {name}`"
    if row["source"]:
        facts["Source"] = row["source"]
    if row["description"]:
        facts["Description"] = row["description"]
    print_facts(facts)
    output.print(escape(json.dumps(shown["spec"], indent=2, ensure_ascii=False)))


@app.command()
def versions(name: NameArgument, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List the versions of an environment, the newest first.

    \b
    openmanus-rl environments versions shop
    """
    rows = EnvironmentManager.list_versions(name, limit=limit).rows
    if as_json:
        print_json({"versions": rows})
        return
    table = new_table("version", "kind", "saved", "spec", right=("version",))
    for row in rows:
        spec = json.dumps(row["spec"], ensure_ascii=False)
        table.add_row(
            str(row["version"]), escape(row["kind"] or "–"), ago(row["created_at"]), escape(shortened(spec, 80))
        )
    print_table(table)


@app.command()
def preview(
    name: NameArgument,
    version: VersionOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the PNG to this file.")] = None,
    upload: Annotated[bool, typer.Option("--upload", help="Keep it with the version, for the dashboard.")] = False,
) -> None:
    """Draw the first state of an environment to train in.

    It is built on this machine, from the libraries that are installed here.

    \b
    openmanus-rl environments preview maze --out maze.png
    openmanus-rl environments preview maze --upload
    """
    from openmanus_rl.environments import preview as draw

    if out is None and not upload:
        raise typer.BadParameter("give --out FILE, --upload, or both", param_hint="--out")
    row = EnvironmentManager.get_environment(name)
    shown = row if version is None else EnvironmentManager.get_version(name, version)
    try:
        picture = draw({**shown["spec"], "kind": shown["kind"]})
    except InvalidInput as error:
        if upload:
            EnvironmentManager.save_preview(name, version=shown["version"], error=error.message)
        raise
    if out is not None:
        _write(out, picture)
        output.print(f"Wrote {escape(str(out))}")
    if upload:
        EnvironmentManager.save_preview(name, version=shown["version"], picture=picture)
        output.print(f"Kept with version {shown['version']} of environment {escape(name)}")


@app.command()
def confirm(name: NameArgument) -> None:
    """Confirm an environment that was imported as a draft.

    \b
    openmanus-rl environments confirm maze
    """
    EnvironmentManager.confirm_environment(name)
    output.print(f"Environment {escape(name)} confirmed")


@app.command()
def delete(name: NameArgument, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Delete an environment; its tasks and rollouts stay. One that a run trained on is kept.

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


def _write(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
    except OSError as error:
        raise LocalFileError(f"{file}: it can't be written: {error}", path=str(file)) from error
