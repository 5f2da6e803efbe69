"""The client: tables, functions, storage and accounts of one Supabase, with the rights of one key or user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

from openmanus_rl.errors import InvalidInput, SettingsError
from openmanus_rl.settings import Settings
from openmanus_rl.transport.http import NO_BODY, HttpClient, read_json, read_object
from openmanus_rl.transport.loopback import is_loopback
from openmanus_rl.transport.rest import MAX_PAGE_ROWS, Rest, Row
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.storage import Storage
from openmanus_rl.transport.users import Users

__all__ = ["MAX_PAGE_ROWS", "Client", "Row"]

_FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]+")


class Client(Rest):
    """A client of one Supabase with one key; transient failures are retried, and every error is one of ours."""

    program: ClassVar[str] = "openmanus-rl"
    """What this process calls itself, for whoever looks who is connected."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        http: HttpClient,
        anon_key: str | None = None,
        database_url: str | None = None,
        token: str | None = None,
    ) -> None:
        headers = {"apikey": key, "Authorization": f"Bearer {token or key}", "X-Client-Info": self.program}
        super().__init__(url=url, headers=headers, http=http)
        self.database_url = database_url
        self._key = key
        self._anon_key = anon_key

    def __repr__(self) -> str:
        return f"Client(url={self.url!r})"

    @classmethod
    def connect(cls, settings: Settings, *, proof_key: str | None = None) -> Client:
        """Return a client for the Supabase in the settings, with the secret key or the member's own."""
        database_url = None if settings.member_key else settings.database_url
        return cls.from_url_and_key(
            settings.require_url(),
            settings.require_key(),
            anon_key=settings.anon_key.get_secret_value() if settings.anon_key else None,
            # Written to straight, the database would not know whose the records are.
            database_url=database_url.get_secret_value() if database_url else None,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            request_timeout_seconds=settings.request_timeout_seconds,
            retry=RetryPolicy(limit_seconds=settings.retry_limit_seconds),
            proof_key=proof_key,
        )

    @classmethod
    def from_url_and_key(
        cls,
        url: str,
        key: str,
        *,
        anon_key: str | None = None,
        database_url: str | None = None,
        retry: RetryPolicy | None = None,
        **http_options: Any,
    ) -> Client:
        """Return a client for a URL and key; further options are those of `HttpClient`."""
        http = HttpClient(retry=retry, use_environment_proxies=not is_loopback(url), **http_options)
        return cls(url=url, key=key, http=http, anon_key=anon_key, database_url=database_url)

    def as_user(self, token: str) -> Client:
        """Return a client that acts as the member whose access token this is, under row level security."""
        key = self._anon_key or self._key
        return Client(url=self.url, key=key, http=self.http, anon_key=self._anon_key, token=token)

    def as_anonymous(self) -> Client:
        """Return a client with only the publishable key."""
        if self._anon_key is None:
            raise SettingsError(
                "SUPABASE_ANON_KEY is missing",
                setting="SUPABASE_ANON_KEY",
                hint="find it in the Supabase dashboard under Project Settings > API Keys",
            )
        return Client(url=self.url, key=self._anon_key, http=self.http, anon_key=self._anon_key)

    @cached_property
    def storage(self) -> Storage:
        """Files in buckets."""
        return Storage(url=f"{self.url}/storage/v1", headers=self._headers, http=self.http)

    @cached_property
    def users(self) -> Users:
        """Accounts; requires the secret key."""
        return Users(url=f"{self.url}/auth/v1/admin", headers=self._headers, http=self.http)

    def gateway_status(self) -> dict[str, Any]:
        """Return who is connected to an embedded gateway and how much it holds; requires the secret key."""
        attempt = "ask the gateway who is connected"
        return self.http.request(
            "GET",
            f"{self.url}/gateway/status",
            attempt=attempt,
            read=partial(read_object, attempt=attempt),
            headers=self._headers,
        )

    def function(
        self,
        name: str,
        *,
        method: Literal["GET", "POST"] = "POST",
        json: Any = NO_BODY,
        params: Mapping[str, Any] | None = None,
        retryable: bool = True,
    ) -> Any:
        """Call an edge function and return its JSON result."""
        if not _FUNCTION_NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} is not the name of a function", field="name")
        attempt = f"call function {name}"
        return self.http.request(
            method,
            f"{self.url}/functions/v1/{name}",
            attempt=attempt,
            read=partial(read_json, attempt=attempt),
            headers=self._headers,
            params=params,
            body=json,
            retryable=retryable,
        )
