"""Settings: the only reader of the environment and of `.env.supabase`.

The environment wins over the file. With none of the Supabase settings given, the embedded stack is used; with the
database alone, a gateway of this machine on that database.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from openmanus_rl._object_storage import S3Storage, read_object_storage
from openmanus_rl._setting_checks import (
    KeyKind,
    check_database_url,
    check_key,
    check_object,
    check_own_key,
    check_url,
    database_address,
    hosted_project_ref,
    key_kind,
    parse_count,
    parse_flag,
    parse_seconds,
    refuse_database_placeholder,
    refuse_placeholder,
)
from openmanus_rl.errors import SettingsError

__all__ = [
    "ENV_FILE_NAME",
    "KeyKind",
    "Settings",
    "find_env_file",
    "key_kind",
    "load_settings",
    "read_variables",
]

ENV_FILE_NAME = ".env.supabase"
DEFAULT_HOME = Path("~/.openmanus-rl")
_PROJECT_MARKS = (".git", "pyproject.toml")
_KEYS_PAGE = "find it in the Supabase dashboard under Project Settings > API Keys"
_ANY_KEY = (
    f"for the secret key (sb_secret_…), {_KEYS_PAGE}; SUPABASE_KEY takes a key of your own (omrl_…), made on the page "
    "Keys of OpenManus-RL's dashboard or with `openmanus-rl keys create`"
)
_DATABASE_PAGE = "find it in the Supabase dashboard under Connect > Connection string"


class Settings(BaseModel):
    """Where the record lives and how to reach it; secrets never show in its text."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str | None = None
    anon_key: SecretStr | None = None
    service_role_key: SecretStr | None = None
    member_key: SecretStr | None = None
    """A member's own key, which acts as the member; None where the secret key is known."""
    project_ref: str | None = None
    database_url: SecretStr | None = None
    home: Path = Field(default_factory=DEFAULT_HOME.expanduser)
    autostart: bool = True
    connect_timeout_seconds: float = Field(default=5.0, gt=0)
    request_timeout_seconds: float = Field(default=30.0, gt=0)
    retry_limit_seconds: float = Field(default=30.0, ge=0)
    ask_timeout_seconds: float = Field(default=3.0, gt=0)
    """How long `openmanus_rl.init` waits in all for what only the database knows."""
    grace_seconds: float = Field(default=25.0, ge=0)
    """How long a courier that got SIGTERM goes on delivering; batch systems mostly kill 30 s after it."""
    courier_patience_seconds: float = Field(default=1800.0, ge=0)
    """How long a courier tries to deliver what nobody adds to any more."""
    max_workers: int = Field(default=4, ge=1)
    """How many rollouts a worker works on at once."""
    worker_infra: str | None = None
    """What started this worker, as a JSON object; set by `openmanus-rl workers launch`."""
    object_storage: S3Storage | None = Field(default=None, repr=False)
    """The bucket in which the embedded stack keeps files, if they are not in its home."""

    @property
    def is_embedded(self) -> bool:
        """Whether nothing names another Supabase, so that the embedded stack is the one to use."""
        return not (self.url or self.anon_key or self.service_role_key or self.member_key or self.database_url)

    @property
    def is_external(self) -> bool:
        """Whether only a database is named: any Postgres, beside which the gateway runs on this machine."""
        return self.database_url is not None and not (self.url or self.anon_key or self.service_role_key)

    @property
    def has_local_stack(self) -> bool:
        """Whether the Supabase to use is a stack of this machine: the embedded one, or a gateway on a database."""
        return self.is_embedded or self.is_external

    @property
    def database_address(self) -> str | None:
        """Which database `DATABASE_URL` leads to, without user and password."""
        return database_address(self.database_url.get_secret_value()) if self.database_url else None

    @property
    def stack_home(self) -> Path:
        """The folder of this machine's stack: the home itself, or one in it for each external database."""
        address = self.database_address
        if not self.is_external or address is None:
            return self.home
        label = re.sub(r"[^A-Za-z0-9.]+", "-", address.removeprefix("postgresql://")).strip("-")[:60]
        return self.home / "databases" / f"{label}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"

    def require_url(self) -> str:
        """Return the API's URL, or say which setting is missing."""
        if self.url is None:
            raise SettingsError(
                "SUPABASE_URL is missing, though other Supabase settings are given",
                setting="SUPABASE_URL",
                hint="set SUPABASE_URL (or SUPABASE_PROJECT_REF), or unset the others to use the embedded stack",
            )
        return self.url

    def require_key(self) -> str:
        """Return the secret key, or else the member's own, or say where to get one."""
        key = self.service_role_key or self.member_key
        if key is None:
            raise SettingsError(
                "SUPABASE_SERVICE_ROLE_KEY (or SUPABASE_KEY) is missing",
                setting="SUPABASE_SERVICE_ROLE_KEY",
                hint=_ANY_KEY,
            )
        return key.get_secret_value()

    def require_service_role_key(self) -> str:
        """Return the service role or secret key, or say where to find it."""
        if self.service_role_key is None:
            given = ": SUPABASE_KEY holds a member's key, which does not do" if self.member_key else ""
            raise SettingsError(
                f"SUPABASE_SERVICE_ROLE_KEY is missing{given}", setting="SUPABASE_SERVICE_ROLE_KEY", hint=_KEYS_PAGE
            )
        return self.service_role_key.get_secret_value()

    def require_anon_key(self) -> str:
        """Return the anon or publishable key, or say where to find it."""
        if self.anon_key is None:
            raise SettingsError("SUPABASE_ANON_KEY is missing", setting="SUPABASE_ANON_KEY", hint=_KEYS_PAGE)
        return self.anon_key.get_secret_value()

    def require_database_url(self) -> str:
        """Return the database's URL with its password, or say where to find it."""
        if self.database_url is None:
            raise SettingsError(
                "DATABASE_URL is missing (or POSTGRES_HOST and its companions)",
                setting="DATABASE_URL",
                hint=_DATABASE_PAGE,
            )
        return self.database_url.get_secret_value()


def load_settings(*, environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Settings:
    """Read the environment and the nearest `.env.supabase`; raise a `SettingsError` that names what is wrong."""
    values = read_variables(environ, directory or Path.cwd())
    ref, url = _read_address(values)
    anon_key = values.get("SUPABASE_ANON_KEY")
    service_key = values.get("SUPABASE_SERVICE_ROLE_KEY")
    if anon_key is not None:
        check_key("SUPABASE_ANON_KEY", anon_key, privileged=False, project_ref=ref)
    if service_key is not None:
        check_key("SUPABASE_SERVICE_ROLE_KEY", service_key, privileged=True, project_ref=ref)
    service_key, member_key = _read_own_key(values, service_key, ref)
    _refuse_half_an_address(url, anon_key, service_key, member_key)
    database_url = _read_database_url(values)
    return Settings(
        url=url,
        anon_key=SecretStr(anon_key) if anon_key else None,
        service_role_key=SecretStr(service_key) if service_key else None,
        member_key=SecretStr(member_key) if member_key else None,
        project_ref=ref,
        database_url=SecretStr(database_url) if database_url else None,
        home=Path(values.get("OPENMANUS_RL_HOME", str(DEFAULT_HOME))).expanduser().absolute(),
        autostart=parse_flag("OPENMANUS_RL_AUTOSTART", values.get("OPENMANUS_RL_AUTOSTART"), default=True),
        connect_timeout_seconds=parse_seconds(
            "OPENMANUS_RL_CONNECT_TIMEOUT_SECONDS", values.get("OPENMANUS_RL_CONNECT_TIMEOUT_SECONDS"), default=5.0
        ),
        request_timeout_seconds=parse_seconds(
            "OPENMANUS_RL_REQUEST_TIMEOUT_SECONDS", values.get("OPENMANUS_RL_REQUEST_TIMEOUT_SECONDS"), default=30.0
        ),
        retry_limit_seconds=parse_seconds(
            "OPENMANUS_RL_RETRY_LIMIT_SECONDS",
            values.get("OPENMANUS_RL_RETRY_LIMIT_SECONDS"),
            default=30.0,
            zero_allowed=True,
        ),
        ask_timeout_seconds=parse_seconds(
            "OPENMANUS_RL_ASK_TIMEOUT_SECONDS", values.get("OPENMANUS_RL_ASK_TIMEOUT_SECONDS"), default=3.0
        ),
        grace_seconds=parse_seconds(
            "OPENMANUS_RL_GRACE_SECONDS", values.get("OPENMANUS_RL_GRACE_SECONDS"), default=25.0, zero_allowed=True
        ),
        courier_patience_seconds=parse_seconds(
            "OPENMANUS_RL_COURIER_PATIENCE_SECONDS",
            values.get("OPENMANUS_RL_COURIER_PATIENCE_SECONDS"),
            default=1800.0,
            zero_allowed=True,
        ),
        max_workers=parse_count("MAX_WORKERS", values.get("MAX_WORKERS"), default=4),
        worker_infra=check_object("OPENMANUS_RL_WORKER_INFRA", values.get("OPENMANUS_RL_WORKER_INFRA")),
        object_storage=read_object_storage(values),
    )


def find_env_file(directory: Path) -> Path | None:
    """Return the nearest `.env.supabase`, looking no further up than the project's root."""
    directory = directory.absolute()
    folders = (directory, *directory.parents)
    # Outside a project only the folder itself counts: a parent is anyone's, /tmp for one, and must not redirect us.
    root = next((i for i, folder in enumerate(folders) if any((folder / mark).exists() for mark in _PROJECT_MARKS)), 0)
    return next((path for folder in folders[: root + 1] if (path := folder / ENV_FILE_NAME).is_file()), None)


def read_variables(environ: Mapping[str, str] | None = None, directory: Path | None = None) -> dict[str, str]:
    """Return the variables of the environment over those of the nearest file; an empty value counts as not given."""
    environ = os.environ if environ is None else environ
    directory = directory or _current_folder()
    values: dict[str, str] = {}
    path = find_env_file(directory)
    if path is not None:
        try:
            # No interpolation: a password may well hold a dollar sign. A byte order mark is some editors' habit.
            from_file = dotenv_values(path, interpolate=False, encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{path}: can't be read ({type(error).__name__})",
                setting=ENV_FILE_NAME,
                hint="make it readable UTF-8 text of NAME=value lines, or remove it",
            ) from error
        values.update({name: value for name, value in from_file.items() if value is not None})
    for name, value in environ.items():
        if value.strip():
            values[name] = value
    return {name: value.strip() for name, value in values.items() if value.strip()}


def _read_address(values: Mapping[str, str]) -> tuple[str | None, str | None]:
    ref = values.get("SUPABASE_PROJECT_REF")
    if ref is not None:
        refuse_placeholder("SUPABASE_PROJECT_REF", ref, hint="it is the first part of https://<ref>.supabase.co")
        if not ref.isalnum() or not ref.isascii():
            raise SettingsError(
                f"SUPABASE_PROJECT_REF {ref!r} is not a project reference",
                setting="SUPABASE_PROJECT_REF",
                hint="give only the letters before .supabase.co in the project's URL",
            )
    url = values.get("SUPABASE_URL")
    if url is None:
        return ref, f"https://{ref}.supabase.co" if ref else None
    url = check_url(url, project_ref=ref)
    return ref or hosted_project_ref(url), url


def _read_own_key(values: Mapping[str, str], service_key: str | None, ref: str | None) -> tuple[str | None, str | None]:
    """Return the secret key and the member's key; SUPABASE_KEY may be either, and gives way to the secret key."""
    own_key = values.get("SUPABASE_KEY")
    if own_key is None or service_key is not None:
        return service_key, None
    check_own_key("SUPABASE_KEY", own_key, project_ref=ref)
    return (None, own_key) if key_kind(own_key) is KeyKind.MEMBER else (own_key, None)


def _refuse_half_an_address(
    url: str | None, anon_key: str | None, service_key: str | None, member_key: str | None
) -> None:
    if url and not (anon_key or service_key or member_key):
        raise SettingsError(
            f"SUPABASE_SERVICE_ROLE_KEY (or SUPABASE_KEY) is missing: {url} can't be used without a key",
            setting="SUPABASE_SERVICE_ROLE_KEY",
            hint=_ANY_KEY,
        )
    if not url and (anon_key or service_key or member_key):
        given = "SUPABASE_SERVICE_ROLE_KEY" if service_key else "SUPABASE_KEY" if member_key else "SUPABASE_ANON_KEY"
        raise SettingsError(
            f"SUPABASE_URL is missing: {given} is given, but not which Supabase it is for",
            setting="SUPABASE_URL",
            hint="set SUPABASE_URL or SUPABASE_PROJECT_REF (Project Settings > General), or unset the key",
        )


def _read_database_url(values: Mapping[str, str]) -> str | None:
    url = values.get("DATABASE_URL")
    if url is not None:
        check_database_url(url)
        return url
    host = values.get("POSTGRES_HOST")
    if host is None:
        return None
    for name in ("POSTGRES_HOST", "POSTGRES_PASSWORD"):
        if name in values:
            refuse_database_placeholder(name, values[name], hint=_DATABASE_PAGE)
    port = values.get("POSTGRES_PORT", "5432")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise SettingsError(
            f"POSTGRES_PORT {port!r} is not a port", setting="POSTGRES_PORT", hint="give a number such as 5432"
        )
    login = quote(values.get("POSTGRES_USER", "postgres"), safe="")
    if "POSTGRES_PASSWORD" in values:
        login += ":" + quote(values["POSTGRES_PASSWORD"], safe="")
    database = quote(values.get("POSTGRES_DB", "postgres"), safe="")
    if host.startswith("/"):
        # A socket's folder can't stand in the authority of a URL.
        return f"postgresql://{login}@/{database}?{urlencode({'host': host, 'port': port})}"
    authority = f"[{host}]" if ":" in host else host
    return f"postgresql://{login}@{authority}:{port}/{database}"


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")
