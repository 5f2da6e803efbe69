"""Finds Chromium, and an ffmpeg for its videos, as they are installed by pip, Debian or Playwright."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from openmanus_rl.agents.base import AgentError
from openmanus_rl.settings import read_variables

__all__ = ["FLAGS", "OWN_HOST", "find_chromium", "find_ffmpeg", "require", "start_playwright"]

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_INSTALL = "install it with: playwright install chromium (or on Debian: apt-get install chromium)"
OWN_HOST = "own.browser.invalid"
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-domain-reliability",
    # What Chromium asks its maker for by itself has one address, so that it is not taken for an attempt of a page.
    f"--gaia-url=http://{OWN_HOST}",
    f"--google-base-url=http://{OWN_HOST}",
    f"--autofill-server-url=http://{OWN_HOST}/",
    f"--component-updater=url-source=http://{OWN_HOST}/",
    # Names are resolved by the gate alone, and media connections, which know no proxy, cannot leave at all.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
)
_environment_lock = threading.Lock()


def require(module: str) -> ModuleType:
    """Import a library of the extra `browser`, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise AgentError(
            f"{module.partition('.')[0]} is not installed", hint='run: pip install "openmanus-rl[browser]"'
        ) from error


def find_chromium(playwright: Any) -> str:
    """Return the program: the one in OPENMANUS_RL_CHROMIUM, Playwright's own, or the system's."""
    given = read_variables().get("OPENMANUS_RL_CHROMIUM")
    if given is not None:
        if shutil.which(given) is None:
            raise AgentError(f"OPENMANUS_RL_CHROMIUM: {given} is not a program", hint=_INSTALL)
        return given
    own = playwright.chromium.executable_path
    if own and Path(own).exists():
        return str(own)
    found = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        raise AgentError("there is no Chromium", hint=_INSTALL)
    return found


def find_ffmpeg() -> str:
    """Return an ffmpeg program: that of imageio-ffmpeg, which pip installs."""
    return str(require("imageio_ffmpeg").get_ffmpeg_exe())


@asynccontextmanager
async def start_playwright(*, with_video: bool) -> AsyncIterator[Any]:
    """Start Playwright's driver. For videos it wants an ffmpeg of its own, in a folder with its number: link one there.

    Where `playwright install` has put one, nothing is changed. Otherwise the folder is a private, temporary one.
    """
    manager = require("playwright.async_api").async_playwright()
    folder = _browsers_folder()
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-playwright-") as private:
        if not with_video or (folder / _ffmpeg_place()).exists():
            playwright = await manager.start()
        else:
            link = Path(private) / _ffmpeg_place()
            link.parent.mkdir()
            link.symlink_to(find_ffmpeg())
            for installed in folder.glob("chromium*"):
                (Path(private) / installed.name).symlink_to(installed)
            with _browsers_in(private):
                playwright = await manager.start()
        try:
            yield playwright
        finally:
            await playwright.stop()


@contextmanager
def _browsers_in(folder: str) -> Iterator[None]:
    """Let Playwright find its browsers in a folder; its driver inherits the variable when it is started."""
    with _environment_lock:
        before = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
        os.environ["PLAYWRIGHT_BROWSERS_PATH"] = folder
        try:
            yield
        finally:
            del os.environ["PLAYWRIGHT_BROWSERS_PATH"]
            if before is not None:
                os.environ["PLAYWRIGHT_BROWSERS_PATH"] = before


def _browsers_folder() -> Path:
    given = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    if given and given != "0":
        return Path(given)
    if given == "0":
        return _driver_package() / ".local-browsers"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/ms-playwright"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms-playwright"


def _ffmpeg_place() -> Path:
    """Return where this version of Playwright looks for ffmpeg, below the folder of its browsers."""
    listed = json.loads((_driver_package() / "browsers.json").read_text())["browsers"]
    entry = next(one for one in listed if one["name"] == "ffmpeg")
    revision = entry["revision"]
    if sys.platform == "darwin":
        version = platform.mac_ver()[0].split(".")[0]
        overrides = entry.get("revisionOverrides", {})
        revision = next((value for name, value in overrides.items() if name.startswith(f"mac{version}")), revision)
    return Path(f"ffmpeg-{revision}") / ("ffmpeg-mac" if sys.platform == "darwin" else "ffmpeg-linux")


def _driver_package() -> Path:
    return Path(str(require("playwright").__file__)).parent / "driver" / "package"
