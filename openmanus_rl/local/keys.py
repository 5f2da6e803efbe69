"""The secrets of one installation: random, made once, readable by their owner only."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from openmanus_rl.errors import StackError
from openmanus_rl.local.home import write_private_json


@dataclass(frozen=True, slots=True)
class Keys:
    """API keys, the signing secret of user tokens, and the database password."""

    publishable_key: str
    secret_key: str
    jwt_secret: str
    database_password: str

    def __repr__(self) -> str:
        return "Keys(…)"  # A traceback or a log line must not carry secrets.


def load_keys(path: Path) -> Keys | None:
    """Return the keys of this installation; None when it has none yet."""
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
    values: dict[str, str] = {}
    for field in fields(Keys):
        value = content.get(field.name)
        if not isinstance(value, str) or not value:
            raise _corrupted(path, f"{field.name} is missing")
        values[field.name] = value
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return Keys(**values)


def create_keys(path: Path) -> Keys:
    """Make the keys of a new installation and keep them."""
    keys = Keys(
        publishable_key=f"sb_publishable_{secrets.token_urlsafe(24)}",
        secret_key=f"sb_secret_{secrets.token_urlsafe(32)}",
        jwt_secret=secrets.token_urlsafe(48),
        # Letters and digits alone: it stands in DATABASE_URL, where other characters would need escaping.
        database_password=secrets.token_hex(24),
    )
    write_private_json(path, asdict(keys))
    return keys


def _corrupted(path: Path, reason: str) -> StackError:
    return StackError(
        f"{path} is damaged: {reason}; restore it from a backup, or delete it and run `openmanus-rl up`: "
        "the data stays, new keys are made, and programs that hold the old ones need the new ones"
    )
