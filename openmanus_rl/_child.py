"""How this package starts processes of its own: with its own code, and nothing of the working directory.

`python -m` would look into the working directory first, where another copy of the package, or a planted module, may
lie. So this file is run by its path and with `-P`: it takes the package that it lies in, whatever else of that name
could be imported.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
PYTHON = Path(sys.executable)
"""The interpreter that runs this package."""
MARK = "OPENMANUS_RL_SLOT"
"""The variable by which a worker finds what agents started. Processes of this package are none of theirs."""


def command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of this package, such as `openmanus_rl.recorder`."""
    return [sys.executable, "-P", str(Path(__file__).resolve()), module, *arguments]


def script(path: Path, *arguments: str) -> list[str]:
    """Return the command line that runs a file of this package by itself, quickly: it imports nothing else."""
    return [sys.executable, "-I", "-S", str(path), *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment for such a process, without the working directory among its import paths."""
    variables = {name: value for name, value in os.environ.items() if name != MARK} | more
    # An empty entry is the working directory: `PYTHONPATH=$PYTHONPATH:/more` makes one by accident.
    paths = [
        path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path and os.path.normpath(path) != "."
    ]
    variables.pop("PYTHONPATH", None)
    return variables | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})


def _run(module: str) -> None:
    spec = importlib.util.spec_from_file_location(
        _PACKAGE.name, _PACKAGE / "__init__.py", submodule_search_locations=[str(_PACKAGE)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE.name] = package
    spec.loader.exec_module(package)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    del sys.argv[0]
    _run(sys.argv[0])
