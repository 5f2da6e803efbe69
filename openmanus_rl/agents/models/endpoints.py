"""Which server a model runs on, and the key for it: read from the worker's environment, never from a rollout.

An endpoint has a name, and two variables: `OPENAI_BASE_URL` and `OPENAI_API_KEY` for `openai`. A key is sent only to
the address it belongs to: whoever may queue rollouts chooses `base_url`, and must not get the worker's keys with it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from openmanus_rl.agents.base import AgentError
from openmanus_rl.agents.models.http import ModelServer
from openmanus_rl.agents.models.replies import Reply
from openmanus_rl.agents.options import Options
from openmanus_rl.settings import read_variables

__all__ = ["ModelOptions", "cost_of", "open_server"]

_OWN_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}


class ModelOptions(Options):
    """How a model is reached and sampled; shared by all agents with a model."""

    endpoint: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_]{0,40}$")
    base_url: str | None = None
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    request_timeout_seconds: float = Field(default=300.0, gt=0)
    retry_limit_seconds: float = Field(default=120.0, ge=0)
    input_usd_per_million_tokens: float | None = Field(default=None, ge=0)
    output_usd_per_million_tokens: float | None = Field(default=None, ge=0)
    extra_body: dict[str, Any] = Field(default_factory=dict)

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, value: str | None) -> str | None:
        if value is not None and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).hostname):
            raise ValueError("must be an http:// or https:// URL")
        return value


def open_server(options: ModelOptions, *, default_endpoint: str = "openai") -> ModelServer:
    """Return the server that the options name."""
    endpoint = options.endpoint or default_endpoint
    prefix = endpoint.upper()
    variables = read_variables()
    own_url = variables.get(f"{prefix}_BASE_URL") or _OWN_ADDRESSES.get(endpoint)
    base_url = options.base_url or own_url
    key_name = f"{prefix}_API_KEY"
    if base_url is None:
        raise AgentError(
            f"the address of the endpoint {endpoint} is unknown", hint=f"set base_url or {prefix}_BASE_URL"
        )
    key = variables.get(key_name) if own_url is not None and _origin(base_url) == _origin(own_url) else None
    if key is None and _origin(base_url) in {_origin(url) for url in _OWN_ADDRESSES.values()}:
        raise AgentError(f"{key_name} is missing", code="unauthorized", hint="set it in the worker's environment")
    return ModelServer(
        base_url,
        headers=_key_header(endpoint, key),
        secret=key,
        key_name=key_name,
        request_timeout_seconds=options.request_timeout_seconds,
        retry_limit_seconds=options.retry_limit_seconds,
    )


def cost_of(reply: Reply, options: ModelOptions) -> float | None:
    """Return what a reply cost; None if a price or the number of tokens is unknown."""
    prices = options.input_usd_per_million_tokens, options.output_usd_per_million_tokens
    if None in prices or reply.input_tokens is None or reply.output_tokens is None:
        return None
    return (reply.input_tokens * (prices[0] or 0.0) + reply.output_tokens * (prices[1] or 0.0)) / 1e6


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _key_header(endpoint: str, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    return {"x-goog-api-key": key} if endpoint == "gemini" else {"Authorization": f"Bearer {key}"}
