"""The code of a program that a run names: fetched from git or storage into a folder, with what it requires."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from openmanus_rl._child import PYTHON
from openmanus_rl.errors import InvalidInput, LaunchError, redact
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.managers.storage.buckets import TASK_FILES
from openmanus_rl.tasks.archives import unpack_archive
from openmanus_rl.training.config import EntryPoint, GitSource

__all__ = ["fetch_code", "find_script", "make_python"]

_SHOWN_CHARACTERS = 2000
# Never ask for a password, and never run a helper that a URL names.
_GIT_VARIABLES = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "http:https:ssh:file"}
# Of the process that fetches: they would lead git to another repository.
_GIT_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


def fetch_code(entry_point: EntryPoint, folder: Path) -> str | None:
    """Put the code into a folder that is made, and return its commit, if it has one."""
    if entry_point.git is not None:
        return _clone(entry_point.git, folder)
    assert entry_point.archive is not None
    with TemporaryDirectory(prefix="openmanus-rl-archive-") as aside:
        archive = StorageManager.download_file(TASK_FILES, entry_point.archive, Path(aside) / "code.tar.gz")
        unpack_archive(archive, folder)
    return None


def find_script(folder: Path, script: str) -> Path:
    """Return a script in a folder; one that is not there, or leads out of it, is refused."""
    path = (folder / script).resolve()
    if not path.is_file() or not path.is_relative_to(folder.resolve()):
        raise InvalidInput(
            f"config.entry_point.script: there is no file {script!r} in the code", field="config.entry_point.script"
        )
    return path


def make_python(folder: Path, requirements: Sequence[str]) -> str:
    """Return an interpreter that has these requirements, and otherwise what this one has."""
    if not requirements:
        return str(PYTHON)
    _run([str(PYTHON), "-m", "venv", "--system-site-packages", str(folder)], attempt="make a venv for the run")
    python = folder / "bin" / "python"
    inner = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # The system's packages are not those of the venv that this process runs in.
    lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    (inner / "openmanus_rl_parent.pth").write_text("\n".join(lines) + "\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--"]
    _run([*pip, *requirements], attempt=f"config.requirements: pip install {' '.join(requirements)}")
    return str(python)


def _clone(source: GitSource, folder: Path) -> str:
    folder.mkdir(parents=True)
    attempt = f"config.entry_point.git: fetch {source.ref} of {source.url}"
    git = ["git", "-C", str(folder)]
    _run([*git, "init", "--quiet"], attempt=attempt)
    _run([*git, "fetch", "--quiet", "--depth", "1", "--", source.url, source.ref], attempt=attempt)
    _run([*git, "-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"], attempt=attempt)
    return _run([*git, "rev-parse", "HEAD"], attempt=attempt).strip()


def _run(command: Sequence[str], *, attempt: str) -> str:
    variables = {name: value for name, value in os.environ.items() if name not in _GIT_PLACES} | _GIT_VARIABLES
    try:
        done = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise LaunchError(f"{attempt}: {command[0]} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise LaunchError(f"{attempt}: {redact(done.stderr.strip()[-_SHOWN_CHARACTERS:]) or 'failed'}")
    return done.stdout
