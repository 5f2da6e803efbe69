"""How this package gets to other machines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import openmanus_rl
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

    A release is installed from the package index in the same version. A checkout is copied as a whole,
    without what its .gitignore names.
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
    return Package(shlex.quote(f"{_NAME}{chosen}=={openmanus_rl.__version__}"))


def _checked_extras(extras: str) -> str:
    names = [name.strip() for name in extras.split(",")]
    if not all(name.replace("-", "").isalnum() for name in names):
        raise InvalidInput(f"{extras!r} is not a list of extras", field="extras", hint="use e.g. browser,docker")
    return ",".join(names)


def _find_checkout() -> Path | None:
    """Return the folder of the sources that this package runs from, if it was not built."""
    folder = Path(openmanus_rl.__file__).parents[1]
    return folder if (folder / "pyproject.toml").is_file() else None
