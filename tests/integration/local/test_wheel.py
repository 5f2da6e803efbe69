"""The built wheel in an empty environment: no checkout, no network, no cache, root or not."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import psutil
import pytest

CHECKOUT = Path(__file__).parents[3]

# Runs inside a network namespace that has nothing but a loopback interface, which is down at first.
OFFLINE_DRIVER = """
import fcntl, json, os, socket, struct, subprocess, sys

program, uid, gid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.socket() as probe:
    fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up and running
if uid != os.getuid():
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
    sys.exit("the network is not cut")
except OSError:
    pass
answers = {"uid": os.getuid()}
for name, arguments in {
    "up": ["up", "--detach", "--json", "--port", "0"],
    "status": ["status", "--json"],
    "migrate": ["migrate", "--json"],
    "down": ["down"],
}.items():
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    answers[name] = {"code": done.returncode, "out": done.stdout, "err": done.stderr}
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it, as a release does."""
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(CHECKOUT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def installed(distributions: Path, homes: Path) -> Path:
    """Install the wheel into an empty virtual environment that every user may run; return its folder."""
    folder = homes / "venv"
    subprocess.run([_python_for_everyone(), "-m", "venv", "--without-pip", str(folder)], check=True)
    wheel = next(distributions.glob("*.whl"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(folder / "bin" / "python"),
        "install",
        "--quiet",
        "--no-compile",  # Root's start compiles what is needed.
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def _python_for_everyone() -> str:
    """Return an interpreter that other users can execute too; root's own may lie in root's home."""
    for candidate in (str(Path(sys.executable).resolve()), "/usr/bin/python3"):
        probe = [candidate, "-c", "import sys, venv; sys.exit(sys.version_info < (3, 11))"]
        as_nobody: dict[str, Any] = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            if subprocess.run(probe, cwd="/", check=False, **as_nobody).returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip("no Python 3.11 here that an ordinary user can run")


def test_the_distributions_hold_what_they_must(distributions: Path) -> None:
    migrations = sorted(path.name for path in (CHECKOUT / "supabase" / "migrations").glob("*.sql"))
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert "openmanus_rl/_embedded/gateway.js" in names
    assert "openmanus_rl/_embedded/dashboard/index.html" in names
    assert [name for name in names if "_embedded/dashboard/assets/" in name and name.endswith(".js")]
    assert "openmanus_rl/py.typed" in names
    assert sorted(Path(name).name for name in names if "_embedded/migrations/" in name) == migrations
    assert not [name for name in names if name.startswith(("tests/", "supabase/"))]
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as sdist:
        members = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {
        "hatch_build.py",
        "pyproject.toml",
        "supabase/local/gateway.ts",
        "openmanus_rl/_embedded/gateway.js",
        "openmanus_rl/_embedded/dashboard/index.html",
    } <= members
    assert not (CHECKOUT / "openmanus_rl" / "_embedded").exists(), "a build writes nothing into the checkout"


def test_an_installed_program_that_is_started_in_a_checkout_runs_its_own_code(installed: Path, homes: Path) -> None:
    home = homes / "home in a checkout"
    env = {"PATH": os.defpath, "HOME": str(home), "OPENMANUS_RL_HOME": str(home)}
    program = str(installed / "bin" / "openmanus-rl")

    def run(*arguments: str) -> str:
        return subprocess.run(
            [program, *arguments], env=env, cwd=CHECKOUT, capture_output=True, text=True, check=True
        ).stdout

    try:
        report = json.loads(run("up", "--detach", "--json", "--port", "0"))
        supervisor = psutil.Process(report["pid"])
        code = [part for process in (supervisor, *supervisor.children(True)) for part in process.cmdline()]
        assert [part for part in code if str(installed) in part]
        assert not [
            part for part in code if str(CHECKOUT / "openmanus_rl") in part or str(CHECKOUT / "supabase") in part
        ]
        with urllib.request.urlopen(report["dashboard_url"].split("#")[0]) as page:
            assert b"<html" in page.read()
    finally:
        run("down")
    shutil.rmtree(home)


@pytest.mark.parametrize("user", ["root", "an ordinary user"])
def test_the_wheel_starts_without_network_cache_or_checkout(installed: Path, homes: Path, user: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("cutting the network takes root")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("cutting the network is not permitted here")
    entry = pwd.getpwnam("nobody" if user == "an ordinary user" else "root")
    home = homes / f"home of {user}"
    home.mkdir()
    os.chown(home, entry.pw_uid, entry.pw_gid)
    env = {"PATH": os.defpath, "HOME": str(home)}
    command = ["unshare", "--net", str(installed / "bin" / "python"), "-c", OFFLINE_DRIVER]
    command += [str(installed / "bin" / "openmanus-rl"), str(entry.pw_uid), str(entry.pw_gid)]
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads(done.stdout)
    assert {name: answers[name]["code"] for name in ("up", "status", "migrate", "down")} == {
        "up": 0,
        "status": 0,
        "migrate": 0,
        "down": 0,
    }, answers
    assert answers["uid"] == entry.pw_uid
    report = json.loads(answers["status"]["out"])
    assert report["healthy"]
    assert report["home"] == str(home / ".openmanus-rl")
    assert json.loads(answers["migrate"]["out"])["applied"] == [], "the start has migrated already"
    shutil.rmtree(home)
