"""Specs of environments: what is started for a rollout, checked before anything is.

A spec is JSON. It comes from the database, so it may have been written by somebody else on another machine: names
become container names, paths stay inside the task's files and the sandbox, nothing refers to the worker's own files.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator, model_validator

from openmanus_rl.environments._models import SpecModel, kind_of, validated
from openmanus_rl.environments.grid_spec import GridSpec
from openmanus_rl.environments.gymnasium_spec import GymnasiumSpec
from openmanus_rl.environments.specs import TRAINING_KINDS
from openmanus_rl.errors import NotFoundError
from openmanus_rl.sandboxes._fields import (
    GIB,
    MIB,
    AbsolutePath,
    Command,
    Line,
    Mode,
    Port,
    RelativePath,
    Seconds,
    ServiceName,
    Size,
    Text,
    Url,
    UrlPath,
    Variables,
    check_inside,
)

__all__ = [
    "ContainerService",
    "Database",
    "DockerSpec",
    "GridSpec",
    "GymnasiumSpec",
    "Health",
    "LoadStep",
    "NoneSpec",
    "OpenEnvSpec",
    "ProcessService",
    "ProcessSpec",
    "Resources",
    "Service",
    "ServicesSpec",
    "Source",
    "Spec",
    "included_spec",
    "parse_spec",
]

_MAX_SERVICES = 16
_INLINE_LIMIT = 16 * MIB


class Source(SpecModel):
    """The content of a file: given here, or a file or folder among the task's files."""

    text: Annotated[str, Field(max_length=_INLINE_LIMIT)] | None = None
    base64: Annotated[str, Field(max_length=_INLINE_LIMIT)] | None = None
    path: RelativePath | None = None
    mode: Mode = 0o644

    @model_validator(mode="after")
    def _one_content(self) -> Source:
        if sum(each is not None for each in (self.text, self.base64, self.path)) != 1:
            raise ValueError("give one of text, base64, path")
        self.content()
        return self

    def content(self) -> bytes | None:
        """Return the content that is given here; None if it is among the task's files."""
        if self.text is not None:
            return self.text.encode()
        try:
            return None if self.base64 is None else base64.b64decode(self.base64, validate=True)
        except binascii.Error as error:
            raise ValueError(f"base64: {error}") from error


class Health(SpecModel):
    """How to tell that a service is ready: it answers at an HTTP path, accepts connections, or a command succeeds."""

    http: UrlPath | None = None
    tcp: Literal[True] | None = None
    command: Command | None = None
    interval_seconds: Seconds = 0.5
    timeout_seconds: Seconds = 60.0

    @model_validator(mode="after")
    def _one_check(self) -> Health:
        if sum(each is not None for each in (self.http, self.tcp, self.command)) != 1:
            raise ValueError("give one of http, tcp, command")
        return self


class Resources(SpecModel):
    """How much a service may use. What is not given is not limited, except in a container."""

    memory: Size | None = None
    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    pids: Annotated[int, Field(gt=0)] | None = None
    disk: Size | None = None


class ContainerResources(Resources):
    """How much a container may use."""

    memory: Annotated[Size, Field(ge=16 * MIB)] = 2 * GIB
    pids: Annotated[int, Field(gt=0)] = 1024
    disk: Size = 10 * GIB


class Database(SpecModel):
    """How to log in to a service's Postgres."""

    user: Line = "postgres"
    password: Text | None = None
    name: Line = "postgres"


class LoadStep(SpecModel):
    """What is done once the service is healthy: load an SQL dump, or copy files and run a command in it."""

    sql: Source | None = None
    command: Command | None = None
    files: dict[AbsolutePath, Source] = Field(default_factory=dict)
    timeout_seconds: Seconds = 300.0

    @model_validator(mode="after")
    def _one_step(self) -> LoadStep:
        if (self.sql is None) == (self.command is None):
            raise ValueError("give one of sql, command")
        return self


class Service(SpecModel):
    """What services of every kind have."""

    environment: Variables = Field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    database: Database | None = None
    health: Health | None = None


class ProcessService(Service):
    """A local process, which listens on the port in the variable PORT."""

    command: Command
    files: dict[RelativePath, Source] = Field(default_factory=dict)
    listens: bool = True
    resources: Resources = Field(default_factory=Resources)


class ContainerService(Service):
    """A container."""

    image: Line | None = None
    build: Text | None = None
    """A folder with a Dockerfile among the task's files."""
    build_timeout_seconds: Seconds = 1800.0
    command: Command | None = None
    idle: bool = False
    """Whether the container only waits for commands, whatever its image would start."""
    user: Line | None = None
    port: Port | None = None
    files: dict[AbsolutePath, Source] = Field(default_factory=dict)
    load: tuple[LoadStep, ...] = ()
    resources: ContainerResources = Field(default_factory=ContainerResources)

    @field_validator("build")
    @classmethod
    def _inside(cls, value: str | None) -> str | None:
        return value if value in (None, ".") else check_inside(str(value))

    @model_validator(mode="after")
    def _consistent(self) -> ContainerService:
        if (self.image is None) == (self.build is None):
            raise ValueError("give one of image, build")
        if self.idle and self.command is not None:
            raise ValueError("give one of command, idle")
        if self.port is None and (self.database or (self.health and not self.health.command)):
            raise ValueError("port is missing")
        if self.database is None and any(step.sql for step in self.load):
            raise ValueError("database is missing: it says where to load the SQL")
        return self


class ServicesSpec(SpecModel):
    """What environments of services have."""

    services: Mapping[str, Service]
    main: str | None = None
    """The service that commands run in if none is named."""
    url: Line | None = None

    def parsed_url(self) -> SplitResult:
        """Return the parts of the URL that the agent opens."""
        return urlsplit(self.url or "")

    @property
    def main_service(self) -> str | None:
        """Return the service that commands run in if none is named."""
        if self.main or len(self.services) == 1:
            return self.main or next(iter(self.services))
        return "main" if "main" in self.services else self.parsed_url().hostname

    def start_order(self) -> list[str]:
        """Return the services, each after those that it depends on."""
        order: list[str] = []
        # JSON in Postgres does not keep the order of keys, so it must not matter.
        waiting = sorted(self.services)
        while waiting:
            ready = [name for name in waiting if set(self.services[name].depends_on) <= set(order)]
            if not ready:
                raise ValueError(
                    f"depends_on: {', '.join(waiting)} wait for each other, or for a service that is not there"
                )
            order += ready
            waiting = [name for name in waiting if name not in ready]
        return order

    @model_validator(mode="after")
    def _consistent(self) -> ServicesSpec:
        if len(self.services) > _MAX_SERVICES:
            raise ValueError(f"services: at most {_MAX_SERVICES} are allowed")
        self.start_order()
        if self.main is not None and self.main not in self.services:
            raise ValueError(f"main: there is no service {self.main!r}")
        if self.url is not None:
            self._check_url(self.parsed_url())
        return self

    def _check_url(self, url: SplitResult) -> None:
        try:
            port = url.port
        except ValueError as error:
            raise ValueError(f"url: {error}") from error
        if url.scheme != "http" or url.username is not None:
            raise ValueError("url: must be an http URL such as http://web/")
        service = self.services.get(url.hostname or "")
        if service is None:
            raise ValueError(
                f"url: there is no service {url.hostname!r}; name one of {', '.join(sorted(self.services))}"
            )
        if isinstance(service, ContainerService) and service.port is None:
            raise ValueError(f"url: services.{url.hostname}.port is missing")
        if isinstance(service, ContainerService) and port not in (None, service.port):
            raise ValueError(f"url: has port {port}, but services.{url.hostname}.port is {service.port}")
        if isinstance(service, ProcessService) and not service.listens:
            raise ValueError(f"url: services.{url.hostname} does not listen")


class ProcessSpec(ServicesSpec):
    """Local processes."""

    kind: Literal["process"] = "process"
    services: dict[ServiceName, ProcessService] = Field(default_factory=dict)


class DockerSpec(ServicesSpec):
    """Containers."""

    kind: Literal["docker"] = "docker"
    services: dict[ServiceName, ContainerService] = Field(min_length=1)
    network: Literal["none", "internet"] = "none"
    """What the services reach beside each other."""


class OpenEnvSpec(SpecModel):
    """An OpenEnv server: at a URL, in a container, or as a local process."""

    kind: Literal["openenv"] = "openenv"
    url: Url | None = None
    image: Line | None = None
    build: Text | None = None
    command: Command | None = None
    port: Port = 8000
    environment: Variables = Field(default_factory=dict)
    resources: ContainerResources = Field(default_factory=ContainerResources)
    network: Literal["none", "internet"] = "none"
    start_timeout_seconds: Seconds = 120.0
    step_timeout_seconds: Seconds = 60.0
    reset: dict[str, Any] = Field(default_factory=dict)
    """Arguments of `reset`, beside the seed."""

    @model_validator(mode="after")
    def _one_place(self) -> OpenEnvSpec:
        places = [name for name in ("url", "image", "build") if getattr(self, name) is not None]
        if len(places) > 1 or (not places and self.command is None):
            raise ValueError("give one of url, image, build, or a command to start here")
        if self.url is not None and self.command is not None:
            raise ValueError("give one of url, command")
        return self


class NoneSpec(SpecModel):
    """Nothing is started; the agent may be given a URL."""

    kind: Literal["none"] = "none"
    url: Url | None = None


Spec = NoneSpec | ProcessSpec | DockerSpec | OpenEnvSpec | GymnasiumSpec | GridSpec


_MODELS: dict[str, type[Spec]] = {
    "none": NoneSpec,
    "process": ProcessSpec,
    "docker": DockerSpec,
    "openenv": OpenEnvSpec,
    **TRAINING_KINDS,
}


def parse_spec(value: Mapping[str, Any]) -> Spec:
    """Return the checked spec of an environment; raise an `InvalidInput` that names every wrong field."""
    return validated(kind_of(value, _MODELS), value)


def included_spec(name: str) -> Spec:
    """Return a spec that comes with the package, such as `metabase`."""
    folder = resources.files("openmanus_rl.sandboxes").joinpath("specs")
    names = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    if name not in names:
        raise NotFoundError(f"there is no included environment {name!r:.100}; there are: {', '.join(names)}")
    return parse_spec(json.loads(folder.joinpath(f"{name}.json").read_text()))
