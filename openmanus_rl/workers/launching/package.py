"""How this package gets to the machines of launched workers."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from openmanus_rl import __version__
from openmanus_rl.errors import InvalidInput

__all__ = ["Package", "find_package"]

_NAME = "openmanus-rl"
_WHEELS = "~/openmanus-rl-wheels"


@dataclass(frozen=True)
class Package:
    """What to install on a machine, and the folder or file that has to be copied there first."""

    arguments: str
    """Arguments of `pip install`, for a shell."""
    workdir: Path | None = None
    wheel: Path | None = None

    @property
    def file_mounts(self) -> dict[str, str]:
        """Return the files that SkyPilot copies, by their path on the machine."""
        return {f"{_WHEELS}/{self.wheel.name}": str(self.wheel)} if self.wheel else {}


def find_package(given: str | None = None, *, extras: str | None = None) -> Package:
    """Return what was asked for: a requirement, a URL or a wheel; by default what runs here.

    A release is installed from the package index in the same version. A checkout that is installed as editable is
    copied as a whole, without what its .gitignore names.
    """
    chosen = f"[{_checked_extras(extras)}]" if extras else ""
    if given is not None and given.endswith(".whl") and "://" not in given:
        wheel = Path(given).expanduser().absolute()
        if not wheel.is_file():
            raise InvalidInput(f"{given}: there is no such wheel", field="package")
        return Package(f'"$HOME/{_WHEELS[2:]}/{wheel.name}{chosen}"', wheel=wheel)
    if given is not None:
        return Package(shlex.quote(given + chosen))
    source = _find_checkout()
    if source is not None:
        return Package(f"--editable {shlex.quote('.' + chosen)}", workdir=source)
    return Package(shlex.quote(f"{_NAME}{chosen}=={__version__}"))


def _checked_extras(extras: str) -> str:
    names = [name.strip() for name in extras.split(",")]
    if not all(name.replace("-", "").isalnum() for name in names):
        raise InvalidInput(f"{extras!r} is not a list of extras", field="extras", hint="use e.g. browser,docker")
    return ",".join(names)


def _find_checkout() -> Path | None:
    """Return the folder that this package was installed from as editable."""
    try:
        origin = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return None
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))
