"""`workers launch`: start workers on clouds, Kubernetes or Slurm through SkyPilot."""

from __future__ import annotations

from typing import Annotated

import typer

from openmanus_rl.cli.console import messages, output, phases, print_error, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.settings import load_settings
from openmanus_rl.skypilot.package import find_package
from openmanus_rl.skypilot.sdk import SkyPilot
from openmanus_rl.skypilot.secrets import find_secrets
from openmanus_rl.skypilot.task import as_yaml
from openmanus_rl.workers.launching.fleet import Fleet
from openmanus_rl.workers.launching.task import Launch, new_name

__all__ = ["launch"]


def launch(
    infra: Annotated[
        str, typer.Option("--infra", help="Where: slurm, k8s, aws, aws/us-east-1, …, as SkyPilot names it.")
    ],
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="Number of workers.")] = 1,
    max_workers: Annotated[
        int | None,
        typer.Option(
            "--max-workers", "-n", min=1, max=1000, help="Rollouts at once of each; by default MAX_WORKERS, or 4."
        ),
    ] = None,
    cpus: Annotated[str | None, typer.Option("--cpus", help="CPUs of each machine, such as 4 or 4+.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="Memory of each machine in GB, such as 8+.")] = None,
    accelerators: Annotated[
        str | None, typer.Option("--accelerators", help="GPUs of each machine, such as A10:1.")
    ] = None,
    use_spot: Annotated[bool, typer.Option("--use-spot", help="Use spot instances.")] = False,
    idle_minutes: Annotated[
        int, typer.Option("--idle-minutes", min=1, max=10080, help="A worker ends after so long without work.")
    ] = 10,
    image: Annotated[str | None, typer.Option("--image", help="Machine image, or docker:NAME for a container.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the launch, for `workers stop --launched`.")
    ] = None,
    setup: Annotated[
        str | None, typer.Option("--setup", help="Shell command for each machine, after the package is installed.")
    ] = None,
    extras: Annotated[
        str | None, typer.Option("--extras", help="Extras of the package to install, such as browser,docker.")
    ] = None,
    package: Annotated[
        str | None,
        typer.Option("--package", help="Requirement, URL or wheel to install; by default the version that runs here."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option("--secret", metavar="NAME", help="Variable to pass on as a secret, such as OPENAI_API_KEY."),
    ] = None,
    allow_loopback: Annotated[
        bool, typer.Option("--allow-loopback", help="The workers run on this machine, and reach its own Supabase.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the YAML of the first worker, without secrets, and start nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start workers on a cloud, Kubernetes or Slurm through SkyPilot.

    They end when the queue has had no work for them for --idle-minutes, and their machines with them. `workers list`
    shows them, `workers stop` ends them earlier. Install SkyPilot with `pip install "openmanus-rl[skypilot]"`;
    `sky check` tells which infrastructure it can use.

    \b
    openmanus-rl workers launch --count 20 --infra k8s --cpus 4+ --memory 8+
    openmanus-rl workers launch --count 4 --infra aws/us-east-1 --use-spot --secret OPENAI_API_KEY
    openmanus-rl workers launch --infra slurm --dry-run
    """
    settings = load_settings()
    url, secrets = find_secrets(settings, names=secret or [], allow_loopback=allow_loopback)
    asked = Launch(
        name=name or new_name(),
        infra=infra,
        count=count,
        package=find_package(package, extras=extras),
        max_workers=max_workers or settings.max_workers,
        idle_minutes=idle_minutes,
        cpus=cpus,
        memory=memory,
        accelerators=accelerators,
        use_spot=use_spot,
        image=image,
        setup=setup,
    )
    if dry_run:
        task = asked.task(asked.names[0], url=url, secrets=list(secrets))
        SkyPilot().check(task)
        print_json(task) if as_json else typer.echo(as_yaml(task), nl=False)
        return
    with phases(f"Starting {count} workers, {asked.names[0]} to {asked.names[-1]}"):
        try:
            failures = Fleet(settings.home).launch(asked, url=url, secrets=secrets)
        except KeyboardInterrupt:
            messages.print(
                f"SkyPilot goes on; `openmanus-rl workers stop --launched {asked.name}` ends what was started"
            )
            raise
    _report(asked, failures, as_json=as_json)


def _report(asked: Launch, failures: dict[str, str], *, as_json: bool) -> None:
    started = [name for name in asked.names if name not in failures]
    if as_json:
        print_json({"name": asked.name, "kind": asked.kind, "started": started, "failed": failures})
    else:
        output.print(f"Started {len(started)} of {asked.count} workers as {asked.name}")
        for name, reason in failures.items():
            print_error(f"{name}: {reason}")
        output.print("[dim]`openmanus-rl workers list` shows them; they end when there is no work for them[/]")
    if failures:
        raise typer.Exit(1)
