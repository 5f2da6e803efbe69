"""A Docker engine for the tests alone, and an image that it can run without any registry."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException

from openmanus_rl.sandboxes._commands import GuardedCommand
from openmanus_rl.sandboxes.spec import Resources

ROOT = Path(__file__).parents[2]
IMAGE = "debian-test:latest"
_START_SECONDS = 60


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[docker.DockerClient]:
    """A Docker engine that ends with the tests; `DOCKER_HOST` leads to it."""
    if os.geteuid() != 0:
        pytest.skip("a Docker engine can only be started by root")
    if not shutil.which("dockerd"):
        pytest.skip("there is no Docker engine; scripts/test installs Debian's docker.io as root")
    folder = Path(tempfile.mkdtemp(prefix="openmanus-rl-docker-"))
    engine = _start(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
        try:
            yield _wait(engine, folder)
        finally:
            _stop(engine, folder)


def _start(folder: Path) -> GuardedCommand:
    # Below a guard, so that it ends even if the tests are killed; without the bridge that another engine here may have.
    options = ["--data-root", folder / "data", "--exec-root", folder / "run", "--pidfile", folder / "pid"]
    command = ["dockerd", *options, "--host", f"unix://{folder}/docker.sock", "--bridge", "none"]
    shell = ["sh", "-c", 'exec "$@" >"$0" 2>&1', folder / "log"]
    arguments = [str(part) for part in [*shell, *command]]
    return GuardedCommand(arguments, folder=folder, environment=os.environ, resources=Resources())


def _wait(engine: GuardedCommand, folder: Path) -> docker.DockerClient:
    deadline = time.monotonic() + _START_SECONDS
    while not engine.wait(0.1):
        with suppress(DockerException):
            client = docker.from_env()
            client.ping()
            return client
        assert time.monotonic() < deadline, (folder / "log").read_text()
    reason = (folder / "log").read_text().strip().splitlines()[-1:]
    return pytest.skip(f"a Docker engine can't run here: {reason}")


def _stop(engine: GuardedCommand, folder: Path) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
    engine.wait(20)
    engine.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def debian_image(docker_engine: docker.DockerClient) -> str:
    """The name of an image with Debian, Python and Postgres."""
    tar = ROOT / ".cache" / "debian-image.tar"
    tar.parent.mkdir(exist_ok=True)
    with tar.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tar.exists():
            if not shutil.which("mmdebstrap"):
                pytest.skip("there is no image; scripts/test installs Debian's mmdebstrap as root, which makes it")
            made = subprocess.run([ROOT / "scripts/lib/make_debian_image", tar], check=False, capture_output=True)
            if made.returncode != 0:
                pytest.skip(f"the image could not be made from Debian's packages: {made.stderr.decode()[-500:]}")
    api: Any = docker_engine.api
    api.import_image_from_file(str(tar), repository="debian-test", tag="latest")
    return IMAGE
