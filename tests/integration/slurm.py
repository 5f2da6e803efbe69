"""A Slurm of one node on loopback, and a SkyPilot that uses it; run by root, with Debian's packages.

`scripts/test_slurm` installs what it needs. `python -m tests.integration.slurm` takes down what a test that was killed
has left.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

VENV = os.environ.get("OPENMANUS_RL_TEST_SLURM")
"""A virtual environment with this package, SkyPilot and uv."""

USER = "openmanus-rl-slurm"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sshd", "rsync")
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_PREFIX = "openmanus-rl-slurm-"

NEEDS_SLURM = [
    pytest.mark.skipif(not VENV, reason="OPENMANUS_RL_TEST_SLURM is not set: see scripts/test_slurm"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a Slurm"),
    pytest.mark.skipif(any(shutil.which(name) is None for name in PROGRAMS), reason="Slurm is not installed"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """One Slurm for all tests, and the API server of a SkyPilot that uses it."""
    with _alone():
        take_down()
        try:
            # Not pytest's folder, which only root can enter.
            made = Slurm(Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")), Path(str(VENV)))
            made.start()
            yield made
        finally:
            take_down()


class Slurm:
    """Starts munge, Slurm, an SSH server and SkyPilot's API server in a folder, with a user of its own."""

    def __init__(self, folder: Path, venv: Path) -> None:
        self._folder = folder
        self._venv = venv
        self._home = folder / "home"
        self._sky_home = folder / "sky"
        self._config = folder / "slurm.conf"
        self._ssh_port, self._controller_port, self._node_port, self._sky_port = (_free_port() for _ in range(4))
        folder.chmod(0o755)
        # First: it is by its user that what a killed test has left is found.
        subprocess.run(["useradd", "-m", "-d", str(self._home), "-s", "/bin/bash", "-p", "*", USER], check=True)
        for part in ("munge", "socket", "state", "spool", "ssh", "bin", "cache", "sky/.slurm", "sky/.ssh", "sky/.sky"):
            (folder / part).mkdir(parents=True)
        (folder / "munge").chmod(0o700)
        os.chown(folder / "cache", *_ids())

    @property
    def env(self) -> dict[str, str]:
        """The variables with which SkyPilot finds its API server and this Slurm."""
        return {
            "HOME": str(self._sky_home),
            "SKYPILOT_API_SERVER_LOCAL_PORT": str(self._sky_port),
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            # It starts processes by the memory that it sees, more than a small machine has cores for.
            "SKYPILOT_POD_MEMORY_GB_LIMIT": "9",
        }

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs that wait or run; those of SkyPilot's clusters begin with the cluster's name."""
        return self.output("squeue", "-h", "-o", "%j").split()

    def count_ended(self, cluster: str) -> int:
        """Return how many jobs there were for a cluster."""
        return sum(f" Name={cluster}-" in line for line in (self._folder / "ended.log").read_text().splitlines())

    def cancel(self, cluster: str) -> None:
        """End a cluster behind SkyPilot's back."""
        [job] = [job for job in self.jobs if job.startswith(cluster)]
        self.output("scancel", "--full", f"--name={job}")

    def processes_with(self, text: str) -> list[int]:
        """Return the processes of jobs that have a text in their command lines or environments."""
        found = []
        for process in psutil.process_iter(["username"]):
            with suppress(psutil.Error):
                if process.info["username"] == USER and text in f"{process.cmdline()} {process.environ()}":
                    found.append(process.pid)
        return found

    def output(self, *command: str) -> str:
        """Return what a program of Slurm prints."""
        return subprocess.run(command, env=self._env, capture_output=True, text=True, check=False).stdout

    def start(self) -> None:
        """Start everything, and tell SkyPilot how to reach it."""
        d = self._folder
        self._write_uv()
        self._write_config()
        (d / "munge/key").write_bytes(os.urandom(1024))
        (d / "munge/key").chmod(0o600)
        names = {"--key-file": "munge/key", "--socket": "socket/munge", "--pid-file": "munge/pid"}
        names |= {"--log-file": "munge/log", "--seed-file": "munge/seed"}
        self._run("munged", "--force", "--foreground", *(f"{name}={d / path}" for name, path in names.items()))
        _await(lambda: (d / "socket/munge").exists(), "munge starts")
        self._run("slurmctld", "-D")
        self._run("slurmd", "-D")
        self._run(shutil.which("sshd") or "sshd", "-D", "-f", str(self._write_ssh()))
        _await(lambda: "idle" in self.output("sinfo", "-h", "-o", "%T"), "Slurm has an idle node")
        self._start_sky()

    def _start_sky(self) -> None:
        d, home = self._folder, self._sky_home
        (home / ".slurm/config").write_text(
            f"Host one\n  HostName 127.0.0.1\n  Port {self._ssh_port}\n  User {USER}\n  IdentitiesOnly yes\n"
            f"  IdentityFile {d / 'ssh/user'}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        )
        # Slurm does not run the controller of managed jobs: the API server does.
        (home / ".sky/config.yaml").write_text("jobs:\n  controller:\n    consolidation_mode: true\n")
        # Not left to SkyPilot, which waits only a minute for it: too short for a busy machine.
        self._run(str(self._venv / "bin/sky"), "api", "start", "--foreground", **self.env)
        _await(lambda: _answers(self._sky_port), "SkyPilot's API server answers", seconds=600)
        command = [str(self._venv / "bin/sky"), "check", "slurm"]
        subprocess.run(command, env={**os.environ, **self.env}, check=True, timeout=900)

    def _write_uv(self) -> None:
        """Give SkyPilot the uv that it would download, which takes the Python that is here for those it asks for."""
        folder, version = self._folder / "bin", f"{sys.version_info.major}.{sys.version_info.minor}"
        shutil.copy(self._venv / "bin/uv", folder / "uv.real")
        (folder / "uv").write_text(
            "#!/bin/bash\n"
            f"[ -e {_CERTIFICATES} ] && export SSL_CERT_FILE={_CERTIFICATES}\n"
            # Each cluster has a home of its own, and would download everything again.
            f"export UV_CACHE_DIR={self._folder}/cache\n"
            f'args=(); for a in "$@"; do case "$a" in 3.10|">=3.11") a={version};; esac; args+=("$a"); done\n'
            f'exec {folder}/uv.real "${{args[@]}}"\n'
        )
        (folder / "prolog").write_text(
            f'#!/bin/sh\nfor home in {self._home}/.sky_clusters/*/; do\n  [ -d "$home" ] || continue\n'
            f'  mkdir -p "$home.local/bin" && ln -sf {folder}/uv "$home.local/bin/uv"\ndone\n'
        )
        for name in ("uv", "prolog"):
            (folder / name).chmod(0o755)

    def _write_config(self) -> None:
        d, host = self._folder, socket.gethostname().partition(".")[0]
        settings = {
            "ClusterName": "one",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={d}/socket/munge",
            "SlurmUser": "root",
            "SlurmctldPort": self._controller_port,
            "SlurmdPort": self._node_port,
            "SlurmctldPidFile": d / "slurmctld.pid",
            "SlurmdPidFile": d / "slurmd.pid",
            "SlurmctldLogFile": d / "slurmctld.log",
            "SlurmdLogFile": d / "slurmd.log",
            "StateSaveLocation": d / "state",
            "SlurmdSpoolDir": d / "spool",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "TaskProlog": d / "bin/prolog",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU_Memory",
            "SlurmdParameters": "config_overrides",
            "ReturnToService": 2,
            "KillWait": 5,
            "NodeName": f"{host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=16000 State=UNKNOWN",
            # Tells how often something was submitted.
            "JobCompType": "jobcomp/filetxt",
            "JobCompLoc": d / "ended.log",
            "PartitionName": f"main Nodes={host} Default=YES MaxTime=INFINITE State=UP",
        }
        self._config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _write_ssh(self) -> Path:
        folder, config = self._folder / "ssh", self._folder / "ssh/config"
        for key in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True)
        # sshd does not start without it.
        Path("/run/sshd").mkdir(exist_ok=True)
        own = self._home / ".ssh"
        own.mkdir()
        (own / "authorized_keys").write_text((folder / "user.pub").read_text())
        (own / "environment").write_text(f"SLURM_CONF={self._config}\n")
        for path in (own, *own.iterdir()):
            os.chown(path, *_ids())
        config.write_text(
            f"Port {self._ssh_port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nPidFile none\n"
            "PasswordAuthentication no\nUsePAM no\nPermitUserEnvironment yes\nStrictModes no\n"
            f"MaxStartups 100\nMaxSessions 100\nAllowUsers {USER}\nSubsystem sftp internal-sftp\n"
        )
        return config

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self._config)}

    def _run(self, *command: str, **env: str) -> None:
        with (self._folder / "output.log").open("ab") as log:
            # In a session of its own: Ctrl-C is for pytest, which takes everything down in order.
            subprocess.Popen(command, env={**self._env, **env}, stdout=log, stderr=log, start_new_session=True)


# Taking down ---------------------------------------------------------------------------------------------------------


@contextmanager
def _alone() -> Iterator[None]:
    """Be the only process with a Slurm: all of them use the same user. The kernel frees the name with the process."""
    with socket.socket(socket.AF_UNIX) as name:
        try:
            name.bind(f"\0{USER}")
        except OSError as error:
            raise RuntimeError("another test runs a Slurm on this machine; wait for its end") from error
        yield


def take_down() -> None:
    """End and remove everything that a Slurm of these tests has made, also one that was killed; can be repeated."""
    try:
        user = pwd.getpwnam(USER)
    except KeyError:
        return
    folder = Path(user.pw_dir).parent
    deadline = time.monotonic() + 60
    while left := _processes_of(user.pw_uid, folder):
        assert time.monotonic() < deadline, f"these processes do not end: {left}"
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)
    # SkyPilot keeps the runtime of a cluster outside of its home.
    for path in Path(tempfile.gettempdir()).iterdir():
        # Others remove theirs meanwhile.
        with suppress(FileNotFoundError):
            if path.lstat().st_uid == user.pw_uid:
                shutil.rmtree(path, ignore_errors=True)
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
    # Last: what was interrupted before is found again by its user.
    subprocess.run(["userdel", USER], check=True)


def _processes_of(uid: int, folder: Path) -> list[psutil.Process]:
    """Return the processes of the user, those that were started in the folder, and their children."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environ = process.environ()
            told = [*process.cmdline(), environ.get("HOME", ""), environ.get("SLURM_CONF", "")]
            if process.uids().real == uid or any(f"{folder}/" in text for text in told):
                found |= {one.pid: one for one in (process, *process.children(recursive=True))}
    return [one for pid, one in found.items() if pid != os.getpid() and one.is_running() and not _is_dead(one)]


def _is_dead(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _ids() -> tuple[int, int]:
    user = pwd.getpwnam(USER)
    return user.pw_uid, user.pw_gid


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _await(condition: Callable[[], bool], claim: str, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds:.0f} s: {claim}"
        time.sleep(0.2)


if __name__ == "__main__":
    with _alone():
        take_down()
