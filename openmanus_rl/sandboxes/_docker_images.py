"""Images of services: those that the engine has, can pull, or builds from a folder."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmanus_rl.sandboxes._docker_engine import engine_errors
from openmanus_rl.sandboxes._services import find_task_file, raise_if_cancelled
from openmanus_rl.sandboxes.base import SandboxError
from openmanus_rl.sandboxes.spec import ContainerService

if TYPE_CHECKING:
    import docker

__all__ = ["prepare_image"]

_REPOSITORY = "openmanus-rl/build"
_SHOWN_LINES = 20


def prepare_image(
    client: docker.DockerClient,
    service: ContainerService,
    *,
    task_files: Path | None,
    is_cancelled: Callable[[], bool],
) -> str:
    """Return the name of an image that the engine has; it is pulled, or built if its folder has changed."""
    import docker.errors

    folder = None if service.build is None else find_task_file(service.build, task_files)
    name = service.image or f"{_REPOSITORY}:{_digest(folder)}"
    try:
        client.images.get(name)
        return name
    except docker.errors.ImageNotFound:
        pass
    # The timeout of each read is that of the whole: a build may be silent for long.
    limit = service.build_timeout_seconds
    what = f"the build of {service.build!r}" if folder else f"image {name}"
    with engine_errors(what), closing(docker.from_env(timeout=int(limit) + 1)) as slow:
        if folder is None:
            repository, tag = _split(name)
            messages = slow.api.pull(repository, tag=tag, stream=True, decode=True)
        else:
            messages = slow.api.build(path=str(folder), tag=name, rm=True, forcerm=True, decode=True)
        _follow(messages, what=what, deadline=time.monotonic() + limit, is_cancelled=is_cancelled)
    return name


def _split(name: str) -> tuple[str, str | None]:
    """Return an image's repository and tag; without a tag, `latest` is meant, not all of them."""
    if "@" in name:
        return name, None
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


def _follow(
    messages: Iterable[dict[str, Any]], *, what: str, deadline: float, is_cancelled: Callable[[], bool]
) -> None:
    lines: list[str] = []
    for message in messages:
        raise_if_cancelled(is_cancelled)
        if time.monotonic() > deadline:
            raise SandboxError(f"{what} was not ready in time")
        if text := message.get("stream", "").strip():
            lines = [*lines[1 - _SHOWN_LINES :], text]
        if "error" in message:
            said = "\n".join([*lines, message["error"]])
            raise SandboxError(f"{what} failed: {said[-4000:]}")


def _digest(folder: Path | None) -> str:
    """Return a digest of everything in a folder that a build may see."""
    assert folder is not None
    digest = hashlib.sha256()
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*files, *(each for each in folders if (Path(parent) / each).is_symlink())]):
            path = Path(parent) / name
            status = path.lstat()
            kind = "link" if stat.S_ISLNK(status.st_mode) else f"{stat.S_IMODE(status.st_mode):o}"
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            head = f"{os.fspath(path.relative_to(folder))}\0{kind}\0{len(content)}\0"
            digest.update(head.encode(errors="surrogateescape") + content)
    return digest.hexdigest()[:32]
