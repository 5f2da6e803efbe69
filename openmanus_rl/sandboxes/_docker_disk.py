"""How much containers may write.

Few engines can limit that themselves. On the others a limit on the size of each file stops the simplest ways to fill
the disk at once, and a watch stops containers that have written more than they may.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmanus_rl.sandboxes._extras import require

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

__all__ = ["DiskWatch", "disk_options"]

_INTERVAL_SECONDS = 2.0


def disk_options(client: docker.DockerClient, limit_bytes: int) -> dict[str, Any]:
    """Return the options of a container that limit what it writes, as far as the engine can."""
    types = require("docker.types", extra="docker")
    options: dict[str, Any] = {
        "ulimits": [
            types.Ulimit(name="core", soft=0, hard=0),
            types.Ulimit(name="fsize", soft=limit_bytes, hard=limit_bytes),
        ]
    }
    if client.info().get("Driver") in ("btrfs", "zfs"):
        options["storage_opt"] = {"size": str(limit_bytes)}
    return options


class DiskWatch(threading.Thread):
    """Stops containers that have written more than they may."""

    def __init__(self, limits: Mapping[str, int], containers: Mapping[str, Container]) -> None:
        super().__init__(daemon=True, name="sandbox-disk")
        self._limits = limits
        self._containers = containers
        self._is_over = threading.Event()
        self.exceeded: set[str] = set()
        self.start()

    def run(self) -> None:
        """Look at the sizes every now and then."""
        docker = require("docker", extra="docker")
        client = docker.from_env()
        try:
            while not self._is_over.wait(_INTERVAL_SECONDS):
                # The container may be gone, the engine too: others say so.
                with suppress(docker.errors.DockerException, OSError):
                    self._look(client)
        finally:
            client.close()

    def _look(self, client: docker.DockerClient) -> None:
        names = {container.id: name for name, container in list(self._containers.items())}
        if not names:
            return
        for found in client.api.containers(size=True, filters={"id": list(names)}):
            name = names[found["Id"]]
            written = found.get("SizeRw", 0) + sum(_volume_bytes(mount) for mount in found.get("Mounts", []))
            if written > self._limits[name]:
                self.exceeded.add(name)
                client.api.kill(found["Id"])

    def stop(self) -> None:
        """Watch no longer."""
        self._is_over.set()


def _volume_bytes(mount: Mapping[str, Any]) -> int:
    """Return the size of a volume, as far as this process may look into it."""
    total = 0
    if mount.get("Type") == "volume":
        for parent, _, files in os.walk(mount.get("Source", "")):
            for name in files:
                with suppress(OSError):
                    total += Path(parent, name).lstat().st_blocks * 512
    return total
