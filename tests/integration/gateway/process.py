"""Starting the gateway as the supervisor does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[3]
GATEWAY = ROOT / "supabase" / "local" / "gateway.ts"


def deno_binary() -> str:
    """Return the Deno that was installed beside this Python."""
    return str(Path(sys.executable).with_name("deno"))


def eventually(check: Callable[[], object], *, timeout_seconds: float = 60) -> None:
    """Wait until the check holds; fail with its last answer."""
    deadline = time.monotonic() + timeout_seconds
    while not (result := check()):
        assert time.monotonic() < deadline, f"still {result!r} after {timeout_seconds} s"
        time.sleep(0.1)


@dataclass(frozen=True)
class GatewaySettings:
    """What the gateway is told through its environment."""

    database_url: str
    """As the superuser, who makes the system schema and the tests' tables."""
    storage_dir: Path
    dashboard_dir: Path
    publishable_key: str = field(default_factory=lambda: f"sb_publishable_{secrets.token_urlsafe(24)}")
    secret_key: str = field(default_factory=lambda: f"sb_secret_{secrets.token_urlsafe(24)}")
    jwt_secret: str = field(default_factory=lambda: secrets.token_hex(32))
    port: int = 0
    api_url: str | None = None
    """As the role that serves."""
    serving: Mapping[str, str] = field(default_factory=dict)
    """For a team: GATEWAY_HOST, PUBLIC_URL, TRUSTED_PROXIES."""
    object_storage: Mapping[str, str] = field(default_factory=dict)
    """The settings of S3, if objects are kept there."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "GATEWAY_PORT": str(self.port),
            "DATABASE_URL": self.api_url or self.database_url,
            "SUPABASE_PUBLISHABLE_KEY": self.publishable_key,
            "SUPABASE_SECRET_KEY": self.secret_key,
            "SUPABASE_JWT_SECRET": self.jwt_secret,
            "STORAGE_DIR": str(self.storage_dir),
            "DASHBOARD_DIR": str(self.dashboard_dir),
            "OPENMANUS_RL_VERSION": "1.2.3",
            "NO_COLOR": "1",
            **self.serving,
            **self.object_storage,
        }

    @property
    def command(self) -> list[str]:
        """The command line of supabase/local/README.md."""
        variables = (
            "GATEWAY_PORT,DATABASE_URL,SUPABASE_URL,SUPABASE_PUBLISHABLE_KEY,SUPABASE_SECRET_KEY,"
            "SUPABASE_JWT_SECRET,STORAGE_DIR,DASHBOARD_DIR,OPENMANUS_RL_VERSION,"
            "GATEWAY_HOST,PUBLIC_URL,TRUSTED_PROXIES"
        )
        variables = ",".join((variables, *self.object_storage))
        return [
            deno_binary(),
            "run",
            "--no-prompt",
            f"--config={GATEWAY.with_name('deno.json')}",
            f"--allow-net={','.join(['127.0.0.1', *filter(None, [self.serving.get('GATEWAY_HOST')])])}",
            f"--allow-read={self.storage_dir},{self.dashboard_dir}",
            f"--allow-write={self.storage_dir}",
            f"--allow-env={variables}",
            "--ignore-env",
            str(GATEWAY),
        ]

    def initialise(self) -> None:
        """Create the system schema."""
        environment = replace(self, api_url=None).environment
        subprocess.run([*self.command, "init"], env=environment, check=True, timeout=120)

    def jwt(self, **claims: object) -> str:
        """Sign a token as the auth server would."""

        def encode(part: bytes) -> str:
            return base64.urlsafe_b64encode(part).rstrip(b"=").decode()

        header = encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        payload = encode(json.dumps({"exp": int(time.time()) + 3600, **claims}).encode())
        signature = hmac.new(self.jwt_secret.encode(), f"{header}.{payload}".encode(), hashlib.sha256).digest()
        return f"{header}.{payload}.{encode(signature)}"


class Gateway:
    """A gateway process; it ends when its stdin does."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [*self.settings.command, "serve"],
            env=self.settings.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if os.environ.get("GATEWAY_TEST_QUIET") else None,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the gateway ended with {self.process.wait()} before it was ready"
        self.ready = json.loads(line)
        self.url = f"http://127.0.0.1:{self.ready['port']}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=30)

    def memory_bytes(self) -> int:
        """Return the resident memory of the process."""
        return self._status_bytes("VmRSS")

    def peak_memory_bytes(self) -> int:
        """Return the most resident memory the process has had."""
        return self._status_bytes("VmHWM")

    def _status_bytes(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) * 1024
