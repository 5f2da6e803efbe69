"""Environments of containers: a network and containers for each rollout, on a Docker engine of this machine."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmanus_rl._private import make_private
from openmanus_rl.sandboxes._docker_commands import run_in
from openmanus_rl.sandboxes._docker_disk import DiskWatch, disk_options
from openmanus_rl.sandboxes._docker_engine import (
    OWNER_LABEL,
    ROLLOUT_LABEL,
    SANDBOX_LABEL,
    connect,
    connected,
    engine_errors,
    remove_labelled,
    sandbox_labels,
)
from openmanus_rl.sandboxes._docker_files import absolute, copy_in, copy_out
from openmanus_rl.sandboxes._docker_images import prepare_image
from openmanus_rl.sandboxes._docker_network import DNS_OPTIONS, connect_to, create_network
from openmanus_rl.sandboxes._forwarding import Forwarder
from openmanus_rl.sandboxes._services import (
    ServiceSandbox,
    check_rollout_id,
    raise_if_cancelled,
    read_source,
    tail,
)
from openmanus_rl.sandboxes.base import FILE_LIMIT_BYTES, OUTPUT_LIMIT_BYTES, CommandResult, SandboxError
from openmanus_rl.sandboxes.spec import ContainerService, DockerSpec, LoadStep, Source

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container
    from docker.models.networks import Network

__all__ = ["OWNER_LABEL", "ROLLOUT_LABEL", "DockerProvider", "DockerSandbox"]

_LOG_OPTIONS = {"max-size": "4m", "max-file": "2"}
_LOG_LINES = 5000
_KILLED = 137
_DEATH_SECONDS = 0.3
# What entry points need to prepare folders and to change to another user; none of it reaches beyond the container.
_CAPABILITIES = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
]
_IDLE = ["sleep", "infinity"]


class DockerProvider:
    """Starts services in containers."""

    kind = "docker"

    def provision(
        self,
        spec: DockerSpec,
        *,
        rollout_id: str,
        owner: str,
        folder: Path,
        task_files: Path | None = None,
        seed: int | None = None,  # noqa: ARG002
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> DockerSandbox:
        """Start the services, each after those that it depends on, and wait until they are healthy and loaded."""
        check_rollout_id(rollout_id)
        client = connect()
        with engine_errors(f"rollout {rollout_id}"):
            remove_labelled(client, {ROLLOUT_LABEL: rollout_id})
        sandbox = DockerSandbox(client, spec, rollout_id=rollout_id, owner=owner, folder=folder)
        try:
            with engine_errors(f"rollout {rollout_id}: the environment could not be started"):
                sandbox.start(task_files=task_files, is_cancelled=is_cancelled)
        except BaseException as error:
            sandbox.close()
            if isinstance(error, SandboxError):
                error.logs = sandbox.logs()
            raise
        return sandbox

    def take_back(self, *, is_alive: Callable[[str], bool]) -> list[str]:
        """Remove what owners that are no longer alive left on this machine; return what was removed."""
        with engine_errors("what dead workers left"), connected() as client:
            left = {
                sandbox
                for labels in sandbox_labels(client)
                if (sandbox := labels.get(SANDBOX_LABEL)) and not is_alive(labels.get(OWNER_LABEL, ""))
            }
            return [name for sandbox in sorted(left) for name in remove_labelled(client, {SANDBOX_LABEL: sandbox})]

    def remove(self, rollout_id: str) -> list[str]:
        """Remove what is left of a rollout on this machine; return what was removed."""
        with engine_errors(f"rollout {rollout_id}"), connected() as client:
            return remove_labelled(client, {ROLLOUT_LABEL: rollout_id})


class DockerSandbox(ServiceSandbox):
    """Services that run in containers."""

    kind = "docker"
    spec: DockerSpec

    def __init__(
        self, client: docker.DockerClient, spec: DockerSpec, *, rollout_id: str, owner: str, folder: Path
    ) -> None:
        super().__init__(spec)
        self._client = client
        self._rollout_id = rollout_id
        self._logs = folder.absolute() / "logs"
        self._token = secrets.token_hex(8)
        self._labels = {ROLLOUT_LABEL: rollout_id, OWNER_LABEL: owner, SANDBOX_LABEL: self._token}
        self._network: Network | None = None
        self._containers: dict[str, Container] = {}
        self._forwarders: dict[str, Forwarder] = {}
        self._disk: DiskWatch | None = None
        self._closing = threading.Lock()
        self._is_closed = False

    def start(self, *, task_files: Path | None, is_cancelled: Callable[[], bool]) -> None:
        """Start the services and wait until they are healthy and loaded."""
        make_private(self._logs)
        images = {
            name: prepare_image(self._client, service, task_files=task_files, is_cancelled=is_cancelled)
            for name, service in self.spec.services.items()
        }
        is_internal = self.spec.network == "none"
        self._network = create_network(
            self._client, f"rollout-{self._rollout_id}", labels=self._labels, is_internal=is_internal
        )
        self._disk = DiskWatch(
            {name: each.resources.disk for name, each in self.spec.services.items()}, self._containers
        )
        for name in self.spec.start_order():
            raise_if_cancelled(is_cancelled)
            service = self.spec.services[name]
            container = self._create(name, service, images[name])
            self._copy_in(container, service.files, task_files)
            container.start()
            container.reload()
            if service.port is not None:
                self._forwarders[name] = Forwarder(partial(self._connect_within, name))
                self.services[name] = self._forwarders[name].address
            self.await_health(name, service, is_cancelled=is_cancelled)
            for step in service.load:
                raise_if_cancelled(is_cancelled)
                self._load(name, service, step, task_files)

    def _create(self, name: str, service: ContainerService, image: str) -> Container:
        assert self._network is not None
        limits = service.resources
        options: dict[str, Any] = dict(
            image=image,
            command=_IDLE if service.idle else service.command,
            name=f"rollout-{name}-{self._rollout_id}",
            hostname=name,
            labels=self._labels,
            environment=service.environment,
            user=service.user,
            # Else processes that were killed would count for ever: few programs wait for children that are not theirs.
            init=True,
            network=self._network.name,
            networking_config={self._network.name: self._client.api.create_endpoint_config(aliases=[name])},
            cap_drop=["ALL"],
            cap_add=_CAPABILITIES,
            security_opt=["no-new-privileges:true"],
            mem_limit=limits.memory,
            memswap_limit=limits.memory,
            pids_limit=limits.pids,
            nano_cpus=None if limits.cpus is None else int(limits.cpus * 1e9),
            log_config={"type": "json-file", "config": _LOG_OPTIONS},
            **(DNS_OPTIONS if self.spec.network == "none" else {}),
        )
        if service.idle:
            options["entrypoint"] = []
        container = self._client.containers.create(**options, **disk_options(self._client, limits.disk))
        self._containers[name] = container
        return container

    def _copy_in(self, container: Container, files: Mapping[str, Source], task_files: Path | None) -> None:
        if files:
            contents = {target: (read_source(each, task_files), each.mode) for target, each in files.items()}
            copy_in(container, contents)

    def _load(self, name: str, service: ContainerService, step: LoadStep, task_files: Path | None) -> None:
        container = self._containers[name]
        self._copy_in(container, step.files, task_files)
        command: Sequence[str] | None = step.command
        environment: dict[str, str] = {}
        if step.sql is not None and service.database is not None:
            place = f"/tmp/{secrets.token_hex(8)}.dump"
            copy_in(container, {place: (read_source(step.sql, task_files), 0o644)})
            database = service.database
            environment = {
                "PGHOST": "127.0.0.1",
                "PGPORT": str(service.port),
                "PGUSER": database.user,
                "PGDATABASE": database.name,
                "PGPASSWORD": database.password or "",
                "DUMP": place,
            }
            command = ["sh", "-c", _LOAD_SQL]
        assert command is not None
        result = self.run(command, service=name, timeout_seconds=step.timeout_seconds, environment=environment)
        if result.exit_code != 0:
            said = (result.stderr or result.stdout).decode(errors="replace").strip()[-2000:]
            ended = f"exit code {result.exit_code}" if result.exit_code is not None else "no end in time"
            raise SandboxError(f"service {name}: loading failed with {ended}: {said}")

    def _connect_within(self, name: str, timeout_seconds: float) -> socket.socket:
        port = self.port_of(name)
        assert port is not None
        assert self._network is not None
        container = self._containers[name]
        return connect_to(container, str(self._network.name), port, timeout_seconds=timeout_seconds)

    @property
    def started(self) -> Collection[str]:
        """Return the names of the services that have been started."""
        return list(self._containers)

    def connect(self, service: str, *, timeout_seconds: float) -> socket.socket:
        """Return a connection to the port of a service."""
        return self._connect_within(service, timeout_seconds)

    def check_service(self, service: str) -> None:
        """Raise `SandboxError` if a service has died."""
        if self._is_closed:
            raise SandboxError("the environment is closed")
        container = self._containers[service]
        with engine_errors(f"service {service}"):
            container.reload()
            state = container.attrs["State"]
            exceeds_disk = self._disk is not None and service in self._disk.exceeded
            if state["Running"] and not exceeds_disk:
                return
            shown = container.logs(tail=20).decode(errors="replace").strip()[-2000:]
        reason = f"ended with exit code {state['ExitCode']}"
        if exceeds_disk:
            reason = f"was stopped: it wrote more than {self.spec.services[service].resources.disk} bytes"
        elif state.get("OOMKilled"):
            reason = f"was stopped: it used more than {self.spec.services[service].resources.memory} bytes of memory"
        raise SandboxError(f"service {service} {reason}: {shown}")

    def run(
        self,
        command: str | Sequence[str],
        *,
        service: str | None = None,
        timeout_seconds: float = 60.0,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        stdin: bytes | None = None,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> CommandResult:
        """Run a command in a container; everything that it started ends with the time limit."""
        name, container = self._find(service)
        try:
            with engine_errors(f"service {name}: a command could not be run"):
                result = run_in(
                    self._client,
                    container,
                    command,
                    timeout_seconds=timeout_seconds,
                    environment=environment or {},
                    folder=None if folder is None else absolute(container, folder),
                    user=self.spec.services[name].user,
                    stdin=stdin,
                    output_limit_bytes=output_limit_bytes,
                )
        except SandboxError:
            self.check_service(name)  # That it died says more.
            raise
        if result.exit_code == _KILLED:
            time.sleep(_DEATH_SECONDS)  # The engine notices a little later that all of the container is gone.
        if result.exit_code != 0:
            self.check_service(name)
        return result

    def _find(self, service: str | None) -> tuple[str, Container]:
        if self._is_closed:
            raise SandboxError("the environment is closed")
        name = self.find_service(service)
        if name not in self._containers:
            raise SandboxError(f"service {name} has not been started yet")
        return name, self._containers[name]

    def write_file(self, path: str, data: bytes, *, service: str | None = None, mode: int = 0o644) -> None:
        """Write a file; a relative path is below the working directory of the container."""
        name, container = self._find(service)
        with engine_errors(f"service {name}: {path!r:.200} could not be written"):
            copy_in(container, {absolute(container, path): (data, mode)})

    def read_file(self, path: str, *, service: str | None = None, limit_bytes: int = FILE_LIMIT_BYTES) -> bytes:
        """Return a file's content; `FileNotFoundError` if there is none, `SandboxError` if it is too large."""
        name, container = self._find(service)
        with engine_errors(f"service {name}: {path!r:.200} could not be read"):
            return copy_out(container, absolute(container, path), limit_bytes=limit_bytes)

    def put_folder(self, source: Path, target: str, *, service: str | None = None) -> None:
        """Copy a folder's content into a folder inside, which is created."""
        name, container = self._find(service)
        with engine_errors(f"service {name}: {target!r:.200} could not be written"):
            copy_in(container, {absolute(container, target): (source, 0o755)})

    def logs(self) -> Mapping[str, bytes]:
        """Return the end of each service's log; also after the sandbox is closed."""
        if not self._is_closed:
            self._keep_logs()
        return {name: tail(self._logs / f"{name}.log") for name in self._containers}

    def _keep_logs(self) -> None:
        for name, container in self._containers.items():
            with suppress(SandboxError), engine_errors(name):
                (self._logs / f"{name}.log").write_bytes(container.logs(tail=_LOG_LINES))

    def close(self) -> None:
        """Remove the containers and their network; the logs stay in the rollout's folder."""
        with self._closing:
            if self._is_closed:
                return
            if self._disk is not None:
                self._disk.stop()
            for forwarder in self._forwarders.values():
                forwarder.close()
            self._keep_logs()
            with engine_errors(f"rollout {self._rollout_id}: the environment could not be removed"):
                # By label: a container whose creation was cut short is known to the engine alone.
                remove_labelled(self._client, {SANDBOX_LABEL: self._token})
            self._is_closed = True
            self._client.close()


_LOAD_SQL = """
if [ "$(head -c 5 "$DUMP")" = PGDMP ]; then pg_restore --exit-on-error --no-owner --dbname="$PGDATABASE" "$DUMP"
else psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --file="$DUMP" >/dev/null; fi && rm -f "$DUMP"
"""
