"""Gateways that keep objects in a folder and in S3, held to the same tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from supabase import Client, create_client

from ...s3_server import S3Server, s3_server
from ..process import Gateway, GatewaySettings

FILES_DATABASE = "files_in_s3"


@dataclass(frozen=True)
class Stored:
    """What is in the place where contents are kept, seen without the gateway."""

    directory: Path
    s3: S3Server | None

    def contents(self) -> set[str]:
        """The versions that are there."""
        if self.s3 is not None:
            return {key.rsplit("/", 1)[-1] for key in self.s3.object_keys()}
        files = (path for path in self.directory.rglob("*") if path.is_file())
        return {path.name for path in files if path.suffix != ".uploading"}

    def unfinished(self) -> list[str]:
        """The versions of which a part is there."""
        if self.s3 is not None:
            return self.s3.unfinished_uploads()
        return [path.name for path in self.directory.rglob("*.uploading")]


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A running S3 server with a bucket."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_settings(settings: GatewaySettings, s3: S3Server) -> GatewaySettings:
    """The settings of a gateway on a database of its own, whose objects are in S3."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute(f"create database {FILES_DATABASE}".encode())

    def elsewhere(url: str | None) -> str:
        assert url is not None
        return url.removesuffix("/postgres") + f"/{FILES_DATABASE}"

    api_url, database_url = elsewhere(settings.api_url), elsewhere(settings.database_url)
    chosen = replace(settings, database_url=database_url, api_url=api_url, object_storage=s3.settings)
    chosen.initialise()
    return chosen


@pytest.fixture(scope="module", params=["folder", "s3"])
def gateway(request: pytest.FixtureRequest) -> Iterator[Gateway]:
    """A serving gateway; each test is run with both kinds of storage."""
    if request.param == "folder":
        yield request.getfixturevalue("folder_gateway")
        return
    with Gateway(request.getfixturevalue("s3_settings")) as running:
        yield running


@pytest.fixture
def stored(request: pytest.FixtureRequest, gateway: Gateway) -> Stored:
    server = request.getfixturevalue("s3") if gateway.settings.object_storage else None
    return Stored(gateway.settings.storage_dir, server)


@pytest.fixture(scope="module")
def admin(gateway: Gateway) -> Client:
    return create_client(gateway.url, gateway.settings.secret_key)


@pytest.fixture(scope="module")
def anon(gateway: Gateway) -> Client:
    return create_client(gateway.url, gateway.settings.publishable_key)


@pytest.fixture
def sql(gateway: Gateway) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.settings.database_url, autocommit=True) as connection:
        yield connection
