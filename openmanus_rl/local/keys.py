"""The secrets of an installation: random, created once, readable by their owner only."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from openmanus_rl.errors import StackError
from openmanus_rl.local.home import write_private_json


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """API keys, and the signing secret of user tokens."""

    publishable_key: str
    secret_key: str
    jwt_secret: str

    def __repr__(self) -> str:
        return "ApiKeys(…)"  # Keep secrets out of tracebacks and logs.


@dataclass(frozen=True, slots=True)
class Keys(ApiKeys):
    """The keys of an embedded stack, with the password of each database role."""

    database_password: str
    superuser_password: str
    api_password: str
    recorder_password: str

    def __repr__(self) -> str:
        return "Keys(…)"  # Keep secrets out of tracebacks and logs.

    @property
    def lack_roles(self) -> bool:
        """Whether an older version made them, before each database role had a password."""
        return not self.superuser_password


_NEW_PASSWORDS = ("superuser_password", "api_password", "recorder_password")
_PASSWORDS = ("database_password", *_NEW_PASSWORDS)


def load_keys(path: Path) -> Keys | None:
    """Return the keys of this installation; None if it has none yet."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise StackError(f"{path} belongs to another user; run as that user, or set OPENMANUS_RL_HOME") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _corrupted(path, "it is not JSON") from error
    if not isinstance(content, dict):
        raise _corrupted(path, "it is not a JSON object")
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return _read(path, content)


def renewed(keys: Keys) -> Keys:
    """Return the keys with new passwords for the database roles."""
    return replace(keys, **_new_passwords())


def new_keys() -> Keys:
    """Generate the keys of a new installation."""
    return Keys(**asdict(new_api_keys()), **_new_passwords())


def new_api_keys() -> ApiKeys:
    """Generate the API keys of a new installation."""
    return ApiKeys(
        publishable_key=f"sb_publishable_{secrets.token_urlsafe(24)}",
        secret_key=f"sb_secret_{secrets.token_urlsafe(32)}",
        jwt_secret=secrets.token_urlsafe(48),
    )


def save_keys(path: Path, keys: Keys) -> None:
    """Write the keys of this installation to a file."""
    write_private_json(path, asdict(keys))


def _new_passwords() -> dict[str, str]:
    # Letters and digits only, which need no escaping in URLs.
    return {name: secrets.token_hex(24) for name in _PASSWORDS}


def _read(path: Path, content: dict[str, object]) -> Keys:
    values: dict[str, str] = {}
    # Older installations have a single password, the superuser's.
    is_older = not any(name in content for name in _NEW_PASSWORDS)
    for field in fields(Keys):
        value = content.get(field.name, "" if is_older and field.name in _NEW_PASSWORDS else None)
        if not isinstance(value, str) or not (value or (is_older and field.name in _NEW_PASSWORDS)):
            raise _corrupted(path, f"{field.name} is missing")
        values[field.name] = value
    return Keys(**values)


def _corrupted(path: Path, reason: str) -> StackError:
    return StackError(
        f"{path} is damaged: {reason}; restore it from a backup, or delete it and run `openmanus-rl up`: "
        "that keeps the data and generates new keys, which your programs must then use"
    )
