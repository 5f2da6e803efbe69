"""The launched workers: what was launched from here, what SkyPilot says of it, and its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openmanus_rl._private import make_private
from openmanus_rl.errors import ConflictError, LaunchError
from openmanus_rl.skypilot.sdk import SkyPilot
from openmanus_rl.skypilot.task import PREFIX, Kind
from openmanus_rl.workers.launching.task import Launch

__all__ = ["Fleet", "Machine", "machine_of"]


@dataclass(frozen=True)
class Machine:
    """A job or cluster that was launched for one worker. `state` is SkyPilot's; None: SkyPilot has ended it."""

    name: str
    launch: str
    infra: str
    kind: Kind
    state: str | None = None
    job_id: int | None = None


class Fleet:
    """Starts workers through SkyPilot, and finds and ends them.

    What was launched is written down first, so that a launch that was interrupted can be found and ended.
    """

    def __init__(self, home: Path, *, connect: Callable[[], SkyPilot] = SkyPilot) -> None:
        self._folder = home / "launches"
        self._connect = connect
        self._skypilot: SkyPilot | None = None

    def launch(self, launch: Launch, *, url: str, secrets: Mapping[str, str]) -> dict[str, str]:
        """Start the workers and return why some could not be started, by name; what failed is removed again."""
        tasks = {name: launch.task(name, url=url, secrets=list(secrets)) for name in launch.names}
        machines = [Machine(name, launch.name, launch.infra, launch.kind) for name in launch.names]
        skypilot = self._sky()
        skypilot.check(next(iter(tasks.values())))
        if skypilot.find(launch.kind, launch.names, refresh=True):
            raise ConflictError(
                f"{launch.name}: workers of this name are launched already",
                field="name",
                hint=f"end them with `openmanus-rl workers stop --launched {launch.name}`, or choose another name",
            )
        self._write(launch.name, machines, is_complete=False)
        failures = skypilot.launch(launch.kind, tasks, secrets)
        # SkyPilot keeps a cluster that could not be set up, and its machine is paid for.
        if failures:
            skypilot.end(launch.kind, list(failures))
        if len(failures) == launch.count:
            self._path(launch.name).unlink()
            raise LaunchError(next(iter(failures.values())))
        self._write(launch.name, [machine for machine in machines if machine.name not in failures], is_complete=True)
        return failures

    def find(self, workers: Iterable[Mapping[str, Any]]) -> list[Machine]:
        """Return the machines of these workers and of what was launched from here, without asking SkyPilot."""
        launched = [machine for machines, _ in self._read().values() for machine in machines]
        joined = [found for worker in workers if (found := machine_of(worker)) is not None]
        return list({machine.name: machine for machine in launched + joined}.values())

    def ask(self, machines: Sequence[Machine]) -> list[Machine]:
        """Return the machines with what SkyPilot says of them; launches that have ended as a whole are forgotten."""
        asked = []
        for kind, some in _by_kind(machines).items():
            found = self._sky().find(kind, [machine.name for machine in some], refresh=True)
            for machine in some:
                known = found.get(machine.name)
                now = {"state": known.state, "job_id": known.job_id} if known else {"state": None}
                asked.append(Machine(**{**asdict(machine), **now}))
        running = {machine.name for machine in asked if machine.state is not None}
        for name, (launched, is_complete) in self._read().items():
            if is_complete and not running & {machine.name for machine in launched}:
                self._path(name).unlink(missing_ok=True)
        return asked

    def end(self, machines: Sequence[Machine]) -> None:
        """End machines; those that have ended already are no error."""
        for kind, some in _by_kind(machines).items():
            self._sky().end(kind, [machine.name for machine in some])
        ended = {machine.name for machine in machines}
        for name, (launched, is_complete) in self._read().items():
            left = [machine for machine in launched if machine.name not in ended]
            if not left:
                self._path(name).unlink(missing_ok=True)
            elif len(left) < len(launched):
                self._write(name, left, is_complete=is_complete)

    def _sky(self) -> SkyPilot:
        if self._skypilot is None:
            self._skypilot = self._connect()
        return self._skypilot

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _write(self, name: str, machines: Sequence[Machine], *, is_complete: bool) -> None:
        make_private(self._folder)
        content = {"is_complete": is_complete, "machines": [asdict(machine) for machine in machines]}
        scratch = self._path(name).with_suffix(".new")
        scratch.write_text(json.dumps(content))
        scratch.replace(self._path(name))

    def _read(self) -> dict[str, tuple[list[Machine], bool]]:
        """Return the machines of each launch, and whether the launch was completed."""
        launches = {}
        for path in sorted(self._folder.glob("*.json")):
            content = json.loads(path.read_text())
            launches[path.stem] = ([Machine(**machine) for machine in content["machines"]], content["is_complete"])
        return launches


def machine_of(worker: Mapping[str, Any]) -> Machine | None:
    """Return the machine that a worker says it was launched on."""
    infra = worker["infra"]
    if (
        not isinstance(infra, dict)
        or infra.get("launcher") != "skypilot"
        or infra.get("kind") not in ("job", "cluster")
    ):
        return None
    name, launch, where = (str(infra.get(field) or "") for field in ("name", "launch", "infra"))
    return Machine(name, launch, where, infra["kind"]) if name.startswith(PREFIX) else None


def _by_kind(machines: Sequence[Machine]) -> dict[Kind, list[Machine]]:
    kinds: dict[Kind, list[Machine]] = {}
    for machine in machines:
        kinds.setdefault(machine.kind, []).append(machine)
    return kinds
