"""The Docker engine: how it is reached, what its errors become, and what rollouts have in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from openmanus_rl.sandboxes._extras import require
from openmanus_rl.sandboxes.base import SandboxError

if TYPE_CHECKING:
    import docker

__all__ = [
    "OWNER_LABEL",
    "ROLLOUT_LABEL",
    "SANDBOX_LABEL",
    "connect",
    "connected",
    "engine_errors",
    "remove_labelled",
    "sandbox_labels",
]

ROLLOUT_LABEL = "openmanus-rl.rollout"
OWNER_LABEL = "openmanus-rl.owner"
SANDBOX_LABEL = "openmanus-rl.sandbox"
_ENGINE_SECONDS = 120
_REMOVE_ATTEMPTS = 20


def connect() -> docker.DockerClient:
    library = require("docker", extra="docker")
    with engine_errors("the Docker engine can't be reached"):
        client: docker.DockerClient = library.from_env(timeout=_ENGINE_SECONDS)
        client.ping()
    return client


@contextmanager
def connected() -> Iterator[docker.DockerClient]:
    client = connect()
    try:
        yield client
    finally:
        client.close()


@contextmanager
def engine_errors(subject: str) -> Iterator[None]:
    """Turn the errors of the engine and of the connection to it into `SandboxError`."""
    errors = require("docker.errors", extra="docker")
    requests = require("requests.exceptions", extra="docker")
    try:
        yield
    except errors.APIError as error:
        raise SandboxError(f"{subject}: {error.explanation or error}") from error
    except (errors.DockerException, requests.RequestException) as error:
        raise SandboxError(f"{subject}: {error}") from error


def sandbox_labels(client: docker.DockerClient) -> Iterator[dict[str, str]]:
    filters = {"label": SANDBOX_LABEL}
    for container in client.api.containers(all=True, filters=filters):
        yield container.get("Labels") or {}
    for network in client.api.networks(filters=filters):
        yield network.get("Labels") or {}


def remove_labelled(client: docker.DockerClient, labels: Mapping[str, str]) -> list[str]:
    """Remove the containers and networks with these labels; return their names."""
    import docker.errors

    filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
    removed = []
    for container in client.api.containers(all=True, filters=filters):
        with suppress(docker.errors.NotFound):
            _retry(partial(client.api.remove_container, container["Id"], force=True, v=True))
        removed.append(container["Names"][0].lstrip("/"))
    for network in client.api.networks(filters=filters):
        with suppress(docker.errors.NotFound):
            _retry(partial(client.api.remove_network, network["Id"]))
        removed.append(network["Name"])
    return removed


def _retry(remove: Callable[[], object]) -> None:
    """Remove something that the engine may be removing already, or still be taking apart."""
    import docker.errors

    for attempt in range(1, _REMOVE_ATTEMPTS + 1):
        try:
            remove()
            return
        except docker.errors.NotFound:
            raise
        except docker.errors.APIError:
            if attempt == _REMOVE_ATTEMPTS:
                raise
            time.sleep(0.1 * attempt)
