"""nginx and Caddy of Debian, with the configuration files of `deploy/`, on this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROGRAMS = ("nginx", "caddy")


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def own_name() -> tuple[str, str]:
    """Return this machine's name and its address, if that is one of loopback, or else those of localhost."""
    name = socket.gethostname().lower()
    with suppress(OSError):
        address = socket.gethostbyname(name)
        if ip_address(address).is_loopback:
            return name, address
    return "localhost", "127.0.0.1"


def make_certificate(folder: Path, name: str = "localhost") -> Path:
    """Make a certificate for a name and for 127.0.0.1 that is its own authority; the key lies beside it."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return folder / "certificate.pem"


class Proxy:
    """A proxy that passes https on `port` of a name to a server's port."""

    def __init__(
        self,
        program: str,
        folder: Path,
        *,
        port: int,
        server_port: int,
        name: str = "localhost",
        address: str = "127.0.0.1",
    ) -> None:
        self.program = program
        self.port = port
        self._name = name
        self._address = address
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        self._command = self._nginx(server_port) if program == "nginx" else self._caddy(server_port)

    def start(self) -> None:
        """Start it, and return when it accepts connections."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment())
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection((self._address, self.port), timeout=1).close()
                return
            except OSError:
                said = (self._folder / "log").read_text()
                assert self._process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)

    def stop(self) -> None:
        """Cut every connection off."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self._folder), "XDG_DATA_HOME": str(self._folder)}

    def _nginx(self, server_port: int) -> list[str]:
        site = (DEPLOY / "nginx.conf").read_text()
        site = site.replace("listen 443 ssl;", f"listen {self._address}:{self.port} ssl;")
        site = site.replace("127.0.0.1:54321", f"127.0.0.1:{server_port}").replace("rl.example.org;", f"{self._name};")
        site = site.replace("/etc/ssl/rl.example.org.pem", str(self._folder.parent / "certificate.pem"))
        site = site.replace("/etc/ssl/rl.example.org.key", str(self._folder.parent / "key.pem"))
        folders = "".join(f"{kind}_temp_path {self._folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi"))
        folders += "".join(f"{kind}_temp_path {self._folder}/{kind};\n" for kind in ("uwsgi", "scgi"))
        config = self._folder / "nginx.conf"
        config.write_text(
            f"daemon off; master_process off; pid {self._folder}/pid; error_log stderr;\n"
            f"events {{ worker_connections 4096; }}\nhttp {{\naccess_log off;\n{folders}{site}}}\n"
        )
        return [shutil.which("nginx", path="/usr/sbin:/usr/bin") or "nginx", "-e", "stderr", "-c", str(config)]

    def _caddy(self, server_port: int) -> list[str]:
        site = (DEPLOY / "Caddyfile").read_text().replace("127.0.0.1:54321", f"127.0.0.1:{server_port}")
        certificate = f"{self._folder.parent}/certificate.pem {self._folder.parent}/key.pem"
        site = site.replace("rl.example.org {", f"https://{self._name}:{self.port} {{\n\ttls {certificate}")
        config = self._folder / "Caddyfile"
        config.write_text(f"{{\n\tadmin off\n\tauto_https off\n\tdefault_bind {self._address}\n}}\n{site}")
        return ["caddy", "run", "--adapter", "caddyfile", "--config", str(config)]
