"""A Slurm of one node on loopback, as SkyPilot needs it; run by root, with Debian's packages."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

VENV = os.environ.get("OPENMANUS_RL_TEST_SLURM")
USER = "openmanus-rl-slurm"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sshd", "rsync")
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

NEEDS_SLURM = [
    pytest.mark.skipif(not VENV, reason="OPENMANUS_RL_TEST_SLURM is not set"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a Slurm"),
    pytest.mark.skipif(any(shutil.which(name) is None for name in PROGRAMS), reason="Slurm is not installed"),
    pytest.mark.timeout(1800),
]


@contextmanager
def running_slurm() -> Iterator[tuple[Slurm, dict[str, str]]]:
    """Start a Slurm, and yield it with the variables with which SkyPilot finds it; take everything down again."""
    # Not pytest's folder, which only root can enter.
    folder = Path(tempfile.mkdtemp(prefix="openmanus-rl-slurm-", dir="/tmp"))
    slurm = Slurm(folder, Path(str(VENV)) / "bin/uv")
    env = {"HOME": str(folder / "sky"), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    try:
        slurm.start(Path(env["HOME"]))
        # On a busy machine its server takes longer to start than SkyPilot waits for it.
        for _ in range(4):
            if (
                subprocess.run([f"{VENV}/bin/sky", "api", "start"], env={**os.environ, **env}, check=False).returncode
                == 0
            ):
                break
        subprocess.run([f"{VENV}/bin/sky", "check", "slurm"], env={**os.environ, **env}, check=True, timeout=600)
        yield slurm, env
    finally:
        subprocess.run([f"{VENV}/bin/sky", "api", "stop"], env={**os.environ, **env}, check=False, timeout=120)
        slurm.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Slurm:
    """Starts munge, Slurm and an SSH server in a folder, for a user of its own."""

    def __init__(self, folder: Path, uv: Path) -> None:
        self._folder = folder
        self.config = folder / "slurm.conf"
        self._home = folder / "home"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ssh_port, self._controller_port, self._node_port = (_free_port() for _ in range(3))
        for part in ("munge", "socket", "state", "spool", "ssh", "bin"):
            (folder / part).mkdir()
        folder.chmod(0o755)
        (folder / "munge").chmod(0o700)
        self._make_user()
        self._make_uv(uv)
        self._write_config()

    def start(self, sky_home: Path) -> None:
        """Start everything, and tell SkyPilot, whose home is given, how to reach it."""
        d = self._folder
        (d / "munge/key").write_bytes(os.urandom(1024))
        (d / "munge/key").chmod(0o600)
        names = {"--key-file": "munge/key", "--socket": "socket/munge", "--pid-file": "munge/pid"}
        names |= {"--log-file": "munge/log", "--seed-file": "munge/seed"}
        self._run("munged", "--force", "--foreground", *(f"{name}={d / path}" for name, path in names.items()))
        _await(lambda: (d / "socket/munge").exists())
        self._run("slurmctld", "-D")
        self._run("slurmd", "-D")
        self._run(shutil.which("sshd") or "sshd", "-D", "-f", str(self._write_ssh()))
        _await(lambda: "idle" in self.output("sinfo", "-h", "-o", "%T"))
        (sky_home / ".slurm").mkdir(parents=True)
        (sky_home / ".ssh").mkdir()
        (sky_home / ".slurm/config").write_text(
            f"Host one\n  HostName 127.0.0.1\n  Port {self._ssh_port}\n  User {USER}\n  IdentitiesOnly yes\n"
            f"  IdentityFile {d / 'ssh/user'}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        )

    def output(self, *command: str) -> str:
        """Return what a program of Slurm prints."""
        env = {**os.environ, "SLURM_CONF": str(self.config)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout

    def stop(self) -> None:
        """End everything that was started, and remove the user."""
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        # Connections that SkyPilot keeps open outlive the SSH server; the user is ours alone.
        for left in psutil.process_iter(["username"]):
            if left.info["username"] == USER:
                with suppress(psutil.Error):
                    left.kill()
                    left.wait(10)
        subprocess.run(["userdel", USER], check=False)

    def _make_user(self) -> None:
        with suppress(KeyError):
            pwd.getpwnam(USER)
            subprocess.run(["userdel", USER], check=True)
        subprocess.run(["useradd", "-m", "-d", str(self._home), "-s", "/bin/bash", "-p", "*", USER], check=True)

    def _make_uv(self, uv: Path) -> None:
        """Give SkyPilot the uv that it would download, which takes the Python that is here for the one it asks for."""
        shutil.copy(uv, self._folder / "bin/uv.real")
        (self._folder / "bin/uv").write_text(
            "#!/bin/bash\n"
            f"[ -e {_CERTIFICATES} ] && export SSL_CERT_FILE={_CERTIFICATES}\n"
            'args=(); for a in "$@"; do [ "$a" = 3.10 ] && a=3.11; args+=("$a"); done\n'
            f'exec {self._folder}/bin/uv.real "${{args[@]}}"\n'
        )
        (self._folder / "bin/uv").chmod(0o755)
        prolog = self._folder / "bin/prolog"
        prolog.write_text(
            f'#!/bin/sh\nfor home in {self._home}/.sky_clusters/*/; do\n  [ -d "$home" ] || continue\n'
            f'  mkdir -p "$home.local/bin" && ln -sf {self._folder}/bin/uv "$home.local/bin/uv"\ndone\n'
        )
        prolog.chmod(0o755)

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
            "PartitionName": f"main Nodes={host} Default=YES MaxTime=INFINITE State=UP",
        }
        self.config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _write_ssh(self) -> Path:
        folder, config = self._folder / "ssh", self._folder / "ssh/config"
        for key in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        own = self._home / ".ssh"
        own.mkdir()
        (own / "authorized_keys").write_text((folder / "user.pub").read_text())
        (own / "environment").write_text(f"SLURM_CONF={self.config}\n")
        user = pwd.getpwnam(USER)
        for path in (own, *own.iterdir()):
            os.chown(path, user.pw_uid, user.pw_gid)
        config.write_text(
            f"Port {self._ssh_port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nPidFile none\n"
            "PasswordAuthentication no\nUsePAM no\nPermitUserEnvironment yes\nStrictModes no\n"
            f"MaxStartups 100\nMaxSessions 100\nAllowUsers {USER}\nSubsystem sftp internal-sftp\n"
        )
        return config

    def _run(self, *command: str) -> None:
        env = {**os.environ, "SLURM_CONF": str(self.config)}
        with (self._folder / "output.log").open("ab") as log:
            self._processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _await(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
