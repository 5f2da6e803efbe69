"""Keys are random, private, and never silently replaced."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from openmanus_rl.errors import StackError
from openmanus_rl.local.keys import Keys, load_keys, new_keys, renewed, save_keys


def create_keys(path: Path) -> Keys:
    keys = new_keys()
    save_keys(path, keys)
    return keys


def test_keys_come_back_as_they_were_made(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = create_keys(path)
    assert load_keys(path) == made
    assert made.publishable_key.startswith("sb_publishable_")
    assert made.secret_key.startswith("sb_secret_")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_installations_share_no_key(tmp_path: Path) -> None:
    one, two = create_keys(tmp_path / "one.json"), create_keys(tmp_path / "two.json")
    assert one.secret_key != two.secret_key
    assert one.jwt_secret != two.jwt_secret
    passwords = [
        {keys.database_password, keys.superuser_password, keys.api_password, keys.recorder_password}
        for keys in (one, two)
    ]
    assert len(passwords[0] | passwords[1]) == 8, "each role has a password of its own"


def test_keys_from_before_there_were_roles_get_new_passwords_and_keep_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = create_keys(path)
    names = ("publishable_key", "secret_key", "jwt_secret", "database_password")
    path.write_text(json.dumps({name: getattr(made, name) for name in names}))

    older = load_keys(path)

    assert older is not None
    assert older.lack_roles
    new = renewed(older)
    assert not new.lack_roles
    assert (new.publishable_key, new.secret_key, new.jwt_secret) == names_of(made, names[:3])
    assert new.database_password not in (made.database_password, new.superuser_password)


def test_a_password_that_is_missing_among_the_others_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    create_keys(path)
    content = json.loads(path.read_text())
    del content["superuser_password"]
    path.write_text(json.dumps(content))
    with pytest.raises(StackError, match="superuser_password is missing"):
        load_keys(path)


def names_of(keys: Keys, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(getattr(keys, name) for name in names)


def test_a_new_home_has_no_keys(tmp_path: Path) -> None:
    assert load_keys(tmp_path / "keys.json") is None


def test_keys_opened_to_others_are_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    create_keys(path)
    path.chmod(0o644)
    load_keys(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\x00", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"publishable_key": "sb_publishable_x"}', "secret_key is missing"),
        (b'{"publishable_key": 7}', "publishable_key is missing"),
    ],
)
def test_damaged_keys_name_the_file_and_the_way_out(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    with pytest.raises(StackError) as caught:
        load_keys(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert "delete it" in str(caught.value)
    assert path.read_bytes() == content


def test_keys_do_not_show_in_their_text(tmp_path: Path) -> None:
    keys = create_keys(tmp_path / "keys.json")
    assert keys.secret_key not in repr(keys)
