"""Where the embedded stack keeps files: its own folder, or a bucket of S3 or of what is compatible with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from openmanus_rl.errors import SettingsError

__all__ = ["S3Storage", "read_object_storage"]

LOCATION = "OPENMANUS_RL_STORAGE"
_DEFAULT_REGION = "us-east-1"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()-]+(?:/[A-Za-z0-9!_.*'()-]+)*")


@dataclass(frozen=True, slots=True)
class S3Storage:
    """A bucket, and how to reach it."""

    location: str
    """`s3://bucket` or `s3://bucket/prefix`."""
    endpoint: str
    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def variables(self) -> dict[str, str]:
        """What the gateway is told through its environment."""
        variables = {
            LOCATION: self.location,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
        }
        return variables | ({"AWS_SESSION_TOKEN": self.session_token} if self.session_token else {})

    @property
    def address(self) -> str:
        """The host and port that the gateway connects to."""
        parts = urlsplit(self.endpoint)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def read_object_storage(values: Mapping[str, str]) -> S3Storage | None:
    """Read the settings of S3; None if files are kept in the home's folder."""
    location = values.get(LOCATION)
    if location is None:
        return None
    region = values.get("AWS_REGION") or values.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION
    return S3Storage(
        location=_check_location(location),
        endpoint=_read_endpoint(values, region),
        region=region,
        access_key_id=_require(values, "AWS_ACCESS_KEY_ID"),
        secret_access_key=_require(values, "AWS_SECRET_ACCESS_KEY"),
        session_token=values.get("AWS_SESSION_TOKEN"),
    )


def _check_location(location: str) -> str:
    scheme, _, rest = location.partition("://")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    usable = not prefix or (_PREFIX.fullmatch(prefix) and not {".", ".."} & set(prefix.split("/")))
    if scheme != "s3" or not _BUCKET.fullmatch(bucket) or not usable:
        raise SettingsError(
            f"{LOCATION} {location!r} does not name a bucket",
            setting=LOCATION,
            hint="give s3://bucket or s3://bucket/prefix, or unset it to keep files in OPENMANUS_RL_HOME",
        )
    return f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"


def _read_endpoint(values: Mapping[str, str], region: str) -> str:
    name = "AWS_ENDPOINT_URL_S3" if "AWS_ENDPOINT_URL_S3" in values else "AWS_ENDPOINT_URL"
    endpoint = values.get(name, f"https://s3.{region}.amazonaws.com")
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username:
        raise SettingsError(
            f"{name} {endpoint!r} is not the URL of an S3 service",
            setting=name,
            hint="give its address without the bucket, such as https://minio.example.org:9000",
        )
    return endpoint.rstrip("/")


def _require(values: Mapping[str, str], name: str) -> str:
    value = values.get(name)
    if value is None:
        raise SettingsError(
            f"{name} is missing, and {LOCATION} says that files are kept in S3",
            setting=name,
            hint=f"set the key of a user that may read, write and delete in the bucket, or unset {LOCATION}",
        )
    return value
