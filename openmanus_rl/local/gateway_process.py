"""The gateway process: Deno with the least permissions, ready when it says so, gone when its supervisor is."""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from openmanus_rl._private import append_private
from openmanus_rl.errors import StackError
from openmanus_rl.local import ports
from openmanus_rl.local.assets import Assets
from openmanus_rl.local.home import Home
from openmanus_rl.local.keys import Keys
from openmanus_rl.local.processes import end_at_once, processes_in

_logger = logging.getLogger(__name__)

_READY_TIMEOUT_SECONDS = 120.0
_STOP_TIMEOUT_SECONDS = 10.0
_VARIABLES = (
    "GATEWAY_PORT",
    "DATABASE_URL",
    "SUPABASE_URL",
    "SUPABASE_PUBLISHABLE_KEY",
    "SUPABASE_SECRET_KEY",
    "SUPABASE_JWT_SECRET",
    "STORAGE_DIR",
    "DASHBOARD_DIR",
    "OPENMANUS_RL_VERSION",
)


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """All that the gateway is told."""

    home: Home
    assets: Assets
    deno: str
    keys: Keys
    database_url: str
    postgres_port: int
    version: str


class GatewayProcess:
    """One serving gateway on a fixed loopback port."""

    def __init__(self, config: GatewayConfig, *, port: int) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self.port = port

    @property
    def serving_pid(self) -> int | None:
        """Return the process that serves; None while there is none or it is starting."""
        process = self._process
        return process.pid if process is not None and self._ready and process.poll() is None else None

    def start(self) -> None:
        """Start the gateway and return when it answers requests."""
        self._ready = False
        with append_private(self._config.home.gateway_log) as log:
            log_start = log.tell()
            self._process = subprocess.Popen(
                command(self._config, "serve", port=self.port),
                # Held open for as long as we live: the gateway ends when it reaches end of file.
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
            raise StackError(f"the gateway did not start: {_last_words(said)} (log: {self._config.home.gateway_log})")
        self._ready = True

    def exit_code(self) -> int | None:
        """Return how the gateway ended; None while it runs."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """Let running requests finish for a moment, then end."""
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
        """End a gateway that hangs, at once."""
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
    """End a gateway whose supervisor was killed; it ends by itself, unless it hangs."""
    for process in processes_in(home.root, name="deno"):
        _logger.warning("ending the gateway, pid %d, which an earlier stack left behind", process.pid)
        end_at_once(process)


def initialise(config: GatewayConfig) -> None:
    """Make the roles and the auth and storage schemas that a Supabase project has before any migration."""
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
        raise StackError(f"the gateway could not make its system schema: {_last_words(done.stderr)}")


def download(assets: Assets, deno: str, *, show: Callable[[str], None]) -> None:
    """Fetch what a checkout's gateway imports, telling what is fetched; a bundled gateway needs nothing."""
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
        # Proxies, mirrors and certificates are all configured through the user's environment.
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
    except BaseException:  # Asked to stop: a download must not go on without us.
        process.kill()
        raise
    finally:
        code = process.wait()
    if code != 0:
        raise StackError(f"the gateway's packages could not be fetched: {_last_words(''.join(said))}")


def command(config: GatewayConfig, action: str, *, port: int) -> list[str]:
    """Return the command line of one gateway action, with no permission it does not use."""
    assets = config.assets
    network = [f"{ports.HOST}:{config.postgres_port}"]
    # Relative to the home, where the process runs: Deno takes a comma in a path for the end of it.
    writable = config.home.storage.name
    readable = writable
    if action == "serve":
        network.append(f"{ports.HOST}:{port}")
        readable += f",{assets.dashboard}" if assets.dashboard else ""
    return [
        config.deno,
        "run",
        "--no-prompt",
        "--cached-only",
        *_sources(assets),
        f"--allow-net={','.join(network)}",
        f"--allow-env={','.join(_VARIABLES)}",
        # Packages look for variables of their own; without this each look would end the process.
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
    """Return the gateway's whole environment."""
    variables = _deno_environment(config.home if config.assets.bundled else None) | {
        "GATEWAY_PORT": str(port),
        "DATABASE_URL": config.database_url,
        "SUPABASE_PUBLISHABLE_KEY": config.keys.publishable_key,
        "SUPABASE_SECRET_KEY": config.keys.secret_key,
        "SUPABASE_JWT_SECRET": config.keys.jwt_secret,
        "STORAGE_DIR": str(config.home.storage),
        "OPENMANUS_RL_VERSION": config.version,
    }
    if config.assets.dashboard:
        variables["DASHBOARD_DIR"] = str(config.assets.dashboard)
    return variables


def _deno_environment(home: Home | None) -> dict[str, str]:
    variables = {"PATH": os.environ.get("PATH", os.defpath), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "TZ": "UTC"}
    if home is not None:  # A bundle has no packages to share; keep its compiled code with the stack.
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


def _last_words(output: str) -> str:
    return " / ".join(output.strip().splitlines()[-3:]) or "it said nothing"
