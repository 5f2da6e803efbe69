"""The gateway process: Deno with minimal permissions, which ends when its supervisor does."""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openmanus_rl._object_storage import S3Storage
from openmanus_rl._private import append_private
from openmanus_rl.errors import StackError
from openmanus_rl.local import ports, serving
from openmanus_rl.local.assets import Assets
from openmanus_rl.local.home import Home
from openmanus_rl.local.keys import ApiKeys
from openmanus_rl.local.processes import end_at_once, processes_in
from openmanus_rl.local.serving import Serving

_logger = logging.getLogger(__name__)

_READY_TIMEOUT_SECONDS = 120.0
_STOP_TIMEOUT_SECONDS = 10.0
SERVICE_SETTINGS = ("FIRECRAWL_API_KEY", "FIRECRAWL_API_URL")
"""Settings of the services elsewhere that functions use."""
_VARIABLES = (
    "GATEWAY_PORT",
    "DATABASE_URL",
    "DATABASE_SOCKET",
    "DATABASE_TLS",
    "DATABASE_AUTHORITIES",
    "DATABASE_PROOF",
    "SUPABASE_URL",
    "SUPABASE_PUBLISHABLE_KEY",
    "SUPABASE_SECRET_KEY",
    "SUPABASE_JWT_SECRET",
    "STORAGE_DIR",
    "DASHBOARD_DIR",
    "OPENMANUS_RL_VERSION",
    *serving.VARIABLES,
    *SERVICE_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class Reach:
    """Over what the gateway reaches Postgres."""

    host: str = ports.HOST
    socket_path: str | None = None
    tls: str = "disable"
    """As libpq's `sslmode`: `disable`, `require`, `verify-ca` or `verify-full`."""
    authorities: str | None = None
    """The certificates to trust, as PEM; None stands for those of the system."""
    scram_only: bool = True
    """Whether the server must prove with SCRAM that it knows the password."""

    def variables(self) -> dict[str, str]:
        """Return the settings of the gateway."""
        return {
            "DATABASE_SOCKET": self.socket_path or "",
            "DATABASE_TLS": self.tls,
            "DATABASE_AUTHORITIES": self.authorities or "",
            "DATABASE_PROOF": "scram" if self.scram_only else "none",
        }

    def permission(self, port: int) -> str:
        """Return the address, as Deno's permissions name it."""
        if self.socket_path:
            return f"unix:{self.socket_path}"
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The configuration of the gateway."""

    home: Home
    assets: Assets
    deno: str
    keys: ApiKeys
    database_url: str
    postgres_port: int
    version: str
    reach: Reach = Reach()
    services: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of `SERVICE_SETTINGS` that are set."""
    serving: Serving | None = None
    """How other machines reach it; None for a stack of this machine alone."""
    object_storage: S3Storage | None = None
    """Where objects are kept, if not in the home."""


class GatewayProcess:
    """A gateway on a fixed loopback port."""

    def __init__(self, config: GatewayConfig, *, port: int) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self.port = port

    @property
    def serving_pid(self) -> int | None:
        """The pid of the gateway; None if it does not run or is still starting."""
        process = self._process
        return process.pid if process is not None and self._ready and process.poll() is None else None

    def start(self) -> None:
        """Start the gateway, and return when it accepts requests."""
        self._ready = False
        with append_private(self._config.home.gateway_log) as log:
            log_start = log.tell()
            self._process = subprocess.Popen(
                command(self._config, "serve", port=self.port),
                # Stays open while this process lives: the gateway ends when it reads end of file.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._config.home.root,
                env=environment(self._config, port=self.port),
                start_new_session=True,
            )
        if not self._wait_ready():
            said = _tail(self._config.home.gateway_log, since=log_start)
            self.stop()
            if not ports.is_free(self.port):
                raise StackError(f"the gateway lost port {self.port}: it is {ports.describe_holder(self.port)}")
            raise StackError(f"the gateway did not start: {_last_lines(said)} (log: {self._config.home.gateway_log})")
        self._ready = True

    def exit_code(self) -> int | None:
        """Return the exit code of the gateway; None while it runs."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """Stop the gateway; running requests have a few seconds to finish."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        """Kill a gateway that hangs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_TIMEOUT_SECONDS)

    def _wait_ready(self) -> bool:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        stdout, first_line = process.stdout, queue.SimpleQueue[bytes]()

        def read() -> None:
            first_line.put(stdout.readline())

        threading.Thread(target=read, name="gateway-ready", daemon=True).start()
        try:
            line = first_line.get(timeout=_READY_TIMEOUT_SECONDS)
            return bool(json.loads(line).get("ready"))
        except (queue.Empty, json.JSONDecodeError):
            return False


def end_left_over(home: Home) -> None:
    """End a gateway that outlived its supervisor, which happens only if it hangs."""
    for process in processes_in(home.root, name="deno"):
        _logger.warning("ending a gateway, pid %d, that an earlier stack left running", process.pid)
        end_at_once(process)


def initialise(config: GatewayConfig) -> None:
    """Create the roles and the schemas `auth` and `storage`, which a Supabase project has before any migration."""
    done = subprocess.run(
        command(config, "init", port=0),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=config.home.root,
        env=environment(config, port=0),
        start_new_session=True,
    )
    if done.returncode != 0:
        raise StackError(f"the gateway could not create its system schema: {_last_lines(done.stderr)}")


def system_schema(assets: Assets, deno: str) -> list[str]:
    """Return the statements that create, in another Postgres, what a Supabase project has before any migration."""
    download(assets, deno, show=_logger.info)
    done = subprocess.run(
        [deno, "run", "--no-prompt", "--cached-only", *_sources(assets), "--ignore-env", str(assets.gateway), "schema"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd="/",
        env=_deno_environment(None),
    )
    if done.returncode != 0:
        raise StackError(f"the gateway could not describe its system schema: {_last_lines(done.stderr)}")
    statements: list[str] = json.loads(done.stdout)
    return statements


def download(assets: Assets, deno: str, *, show: Callable[[str], None]) -> None:
    """Download the packages of a checkout's gateway and report each; a bundled gateway needs none."""
    if assets.bundled or _is_cached(assets, deno):
        return
    process = subprocess.Popen(
        [deno, "cache", str(assets.gateway)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=assets.gateway.parent,
        # The user's environment configures proxies, mirrors and certificates.
        env={"DENO_TLS_CA_STORE": "mozilla,system"} | os.environ | {"NO_COLOR": "1"},
        start_new_session=True,
    )
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if line.startswith("Download "):
                show(line.strip())
    except BaseException:  # Interrupted: do not leave the download running.
        process.kill()
        raise
    finally:
        code = process.wait()
    if code != 0:
        raise StackError(f"the gateway's packages could not be downloaded: {_last_lines(''.join(said))}")


def command(config: GatewayConfig, action: str, *, port: int) -> list[str]:
    """Return the command line of a gateway action, with only the permissions that it uses."""
    assets = config.assets
    network = f"--allow-net={config.reach.permission(config.postgres_port)}"
    # Relative to the home, in which the process runs: Deno splits paths at commas.
    writable = config.home.storage.name
    if config.reach.socket_path:
        writable += f",{config.reach.socket_path}"
    readable = writable
    if action == "serve":
        # An environment is imported from any page of the internet: the function checks where its URL leads.
        hosts = {ports.HOST} | ({config.serving.host} if config.serving else set())
        listening = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in sorted(hosts))
        network = "--allow-net" if config.services else f"{network},{listening}"
        if config.object_storage and not config.services:
            network += f",{config.object_storage.address}"
        readable += f",{assets.dashboard}" if assets.dashboard else ""
    return [
        config.deno,
        "run",
        "--no-prompt",
        "--cached-only",
        *_sources(assets),
        network,
        f"--allow-env={','.join((*_VARIABLES, *_object_storage(config)))}",
        # Packages read other variables; without this, each access would end the process.
        "--ignore-env",
        f"--allow-read={readable}",
        f"--allow-write={writable}",
        str(assets.gateway),
        action,
    ]


def _sources(assets: Assets) -> list[str]:
    if assets.bundled:
        return ["--no-npm", "--no-remote", "--no-config", "--no-lock"]
    return [f"--config={assets.gateway.parent / 'deno.json'}", "--frozen"]


def environment(config: GatewayConfig, *, port: int) -> dict[str, str]:
    """Return the complete environment of the gateway."""
    variables = _deno_environment(config.home if config.assets.bundled else None) | {
        "GATEWAY_PORT": str(port),
        "DATABASE_URL": config.database_url,
        "SUPABASE_PUBLISHABLE_KEY": config.keys.publishable_key,
        "SUPABASE_SECRET_KEY": config.keys.secret_key,
        "SUPABASE_JWT_SECRET": config.keys.jwt_secret,
        "STORAGE_DIR": str(config.home.storage),
        "OPENMANUS_RL_VERSION": config.version,
        **(config.serving.variables if config.serving else {}),
        **config.reach.variables(),
        **config.services,
        **_object_storage(config),
    }
    if config.object_storage:
        variables["DENO_TLS_CA_STORE"] = "mozilla,system"  # An S3 service of one's own may have a CA of one's own.
    if config.assets.dashboard:
        variables["DASHBOARD_DIR"] = str(config.assets.dashboard)
    return variables


def _object_storage(config: GatewayConfig) -> dict[str, str]:
    return config.object_storage.variables if config.object_storage else {}


def _deno_environment(home: Home | None) -> dict[str, str]:
    variables = {"PATH": os.environ.get("PATH", os.defpath), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "TZ": "UTC"}
    variables["DENO_TLS_CA_STORE"] = "mozilla,system"
    if home is not None:  # A bundle shares no packages with others: keep its compile cache in the home.
        return variables | {"HOME": str(home.root), "DENO_DIR": str(home.cache / "deno")}
    return variables | {name: os.environ[name] for name in ("HOME", "DENO_DIR", "XDG_CACHE_HOME") if name in os.environ}


def _is_cached(assets: Assets, deno: str) -> bool:
    probe = subprocess.run(
        [deno, "cache", "--cached-only", "--quiet", str(assets.gateway)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd=assets.gateway.parent,
        env=_deno_environment(None),
    )
    return probe.returncode == 0


def _tail(path: Path, *, since: int) -> str:
    with open(path, "rb") as file:
        file.seek(since)
        return file.read().decode(errors="replace")


def _last_lines(output: str) -> str:
    return " / ".join(output.strip().splitlines()[-3:]) or "no output"
