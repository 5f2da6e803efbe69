"""Environments of OpenEnv: a server at a URL, in a container or as a local process, played through OpenEnv's client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes._extras import require
from openmanus_rl.sandboxes.base import Provider, Sandbox, SandboxError, StepResult
from openmanus_rl.sandboxes.none import BareProvider, BareSandbox, NoneProvider
from openmanus_rl.sandboxes.process import ProcessProvider
from openmanus_rl.sandboxes.spec import (
    ContainerService,
    DockerSpec,
    Health,
    NoneSpec,
    OpenEnvSpec,
    ProcessService,
    ProcessSpec,
    Resources,
)

__all__ = ["OpenEnvEpisode", "OpenEnvProvider"]

_SERVICE = "env"
_SCHEMA_SECONDS = 10.0


class OpenEnvProvider(BareProvider):
    """Starts OpenEnv servers, or connects to one that runs. What they leave, the providers of their parts remove."""

    kind = "openenv"

    def provision(
        self,
        spec: OpenEnvSpec,
        *,
        rollout_id: str,
        owner: str,
        folder: Path,
        task_files: Path | None = None,
        seed: int | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Sandbox:
        """Start the server, wait until it is healthy, and open a session."""
        library = require("openenv.core", extra="openenv")
        provider, inner_spec = _where(spec)
        sandbox: Any = provider.provision(
            inner_spec,
            rollout_id=rollout_id,
            owner=owner,
            folder=folder,
            task_files=task_files,
            is_cancelled=is_cancelled,
        )
        try:
            episode = OpenEnvEpisode(library, spec, sandbox, seed=seed)
        except BaseException as error:
            if isinstance(error, SandboxError):
                error.logs = sandbox.logs()
            sandbox.close()
            raise
        return _with_episode(sandbox, episode)


def _where(spec: OpenEnvSpec) -> tuple[Provider, Any]:
    """Return the provider that starts the server, and what it starts."""
    health = Health(http="/health", timeout_seconds=spec.start_timeout_seconds)
    url = f"http://{_SERVICE}/"
    if spec.url is not None:
        return NoneProvider(), NoneSpec(url=spec.url)
    if spec.image is None and spec.build is None:
        limits = spec.resources if "resources" in spec.model_fields_set else Resources()
        assert spec.command is not None
        process = ProcessService(
            command=spec.command, environment=spec.environment, health=health, resources=_plain(limits)
        )
        return ProcessProvider(), ProcessSpec(services={_SERVICE: process}, url=url)
    from openmanus_rl.sandboxes.docker import DockerProvider

    container = ContainerService(
        image=spec.image,
        build=spec.build,
        command=spec.command,
        environment=spec.environment,
        port=spec.port,
        health=health,
        resources=spec.resources,
    )
    return DockerProvider(), DockerSpec(services={_SERVICE: container}, url=url, network=spec.network)


def _plain(limits: Resources) -> Resources:
    # Only what was asked for: the defaults are those of containers.
    return Resources(**{name: getattr(limits, name) for name in limits.model_fields_set})


def _with_episode(sandbox: Any, episode: OpenEnvEpisode) -> Sandbox:
    """Return the sandbox with the episode, which is closed before it."""
    sandbox.kind = OpenEnvProvider.kind
    sandbox.episode = episode
    if not isinstance(sandbox, BareSandbox):
        remove = sandbox.close

        def close() -> None:
            episode.close()
            remove()

        sandbox.close = close
    return sandbox  # type: ignore[no-any-return]


class OpenEnvEpisode:
    """A session with an OpenEnv server."""

    def __init__(self, library: Any, spec: OpenEnvSpec, sandbox: Sandbox, *, seed: int | None) -> None:
        self._seed = seed
        self._options = dict(spec.reset)
        self._is_closed = False
        self.action_space = _read_schema(sandbox)
        self._client = library.GenericEnvClient(
            base_url=str(sandbox.url).rstrip("/"),
            connect_timeout_s=min(spec.start_timeout_seconds, 30.0),
            message_timeout_s=spec.step_timeout_seconds,
        ).sync()
        with _failures("connect"):
            try:
                self._client.connect()
            except BaseException:
                self.close()
                raise

    def reset(self, *, seed: int | None = None) -> StepResult:
        """Start an episode; the seed of the rollout is used once, by the first that names no other."""
        seed, self._seed = (self._seed if seed is None else seed), None
        options = self._options if seed is None else {**self._options, "seed": seed}
        with _failures("reset"):
            return _result(self._client.reset(**options))

    def step(self, action: Any) -> StepResult:
        """Take an action, a JSON object."""
        if not isinstance(action, Mapping):
            raise InvalidInput(f"an action of OpenEnv is a JSON object, not {action!r:.200}", field="action")
        with _failures("step"):
            return _result(self._client.step(dict(action)))

    def state(self) -> Mapping[str, Any]:
        """Return the state that the server tells."""
        with _failures("state"):
            return dict(self._client.state())

    def render(self) -> None:
        """Return None: OpenEnv has no pictures."""

    def close(self) -> None:
        """End the session; may be called again."""
        if not self._is_closed:
            self._is_closed = True
            # The server may be gone by now, whatever it says about that.
            with suppress(Exception):
                self._client.close()


def _result(result: Any) -> StepResult:
    reward = None if result.reward is None else float(result.reward)
    info = getattr(result, "metadata", None)
    return StepResult(result.observation, reward, terminated=bool(result.done), info=info or {})


def _read_schema(sandbox: Sandbox) -> Any:
    """Return the JSON schema of actions, None if the server does not tell."""
    with suppress(SandboxError, ValueError, AttributeError):
        url = f"{str(sandbox.url).rstrip('/')}/schema"
        answer = sandbox.request("GET", url, timeout_seconds=_SCHEMA_SECONDS)
        if answer.status == 200:
            return json.loads(answer.body).get("action")
    return None


@contextmanager
def _failures(call: str) -> Iterator[None]:
    """Turn whatever the client raises into `SandboxError`: it has no class of its own for its errors."""
    try:
        yield
    except Exception as error:
        shown = f"{type(error).__name__}: {error}"
        raise SandboxError(f"the OpenEnv server failed in {call}: {shown:.2000}") from error
