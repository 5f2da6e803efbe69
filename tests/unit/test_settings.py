"""Settings: what is read from where, and what each mistake is told."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from dotenv import dotenv_values

from openmanus_rl.connections import find_database_url
from openmanus_rl.errors import SettingsError
from openmanus_rl.settings import KeyKind, find_env_file, key_kind, load_settings
from openmanus_rl.transport.client import Client

REF = "abcdefghijklmnopqrst"
URL = f"https://{REF}.supabase.co"
SECRET = "sb_secret_0123456789abcdef"
PUBLISHABLE = "sb_publishable_0123456789abcdef"
EXAMPLE = Path(__file__).parents[2] / ".env.supabase.example"


def jwt(**claims: Any) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, claims)]
    return ".".join([*parts, "c2ln"])


SERVICE_JWT = jwt(role="service_role", ref=REF, exp=4102444800)
ANON_JWT = jwt(role="anon", ref=REF, exp=4102444800)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project folder without an env file."""
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def load(folder: Path, **environ: str) -> Any:
    return load_settings(environ=environ, directory=folder)


def test_with_nothing_set_the_embedded_stack_is_used(folder: Path) -> None:
    settings = load(folder)

    assert settings.is_embedded
    assert settings.autostart
    assert settings.home == Path("~/.openmanus-rl").expanduser()


def test_an_empty_value_counts_as_not_set(folder: Path) -> None:
    assert load(folder, SUPABASE_URL="", SUPABASE_SERVICE_ROLE_KEY="  ").is_embedded


def test_the_environment_wins_over_the_file(folder: Path) -> None:
    (folder / ".env.supabase").write_text(f"SUPABASE_URL=http://127.0.0.1:1\nSUPABASE_SERVICE_ROLE_KEY={SECRET}\n")

    settings = load(folder, SUPABASE_URL=URL)

    assert settings.url == URL
    assert settings.require_service_role_key() == SECRET


def test_reading_the_file_leaves_the_environment_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SUPABASE_", "POSTGRES_", "DATABASE_"))]:
        monkeypatch.delenv(name)
    (folder / ".env.supabase").write_text(f"SUPABASE_URL={URL}\nSUPABASE_SERVICE_ROLE_KEY={SECRET}\n")
    before = dict(os.environ)

    assert load_settings(directory=folder).url == URL
    assert dict(os.environ) == before


def test_the_file_is_found_from_a_folder_inside_the_project(folder: Path) -> None:
    (folder / ".env.supabase").touch()
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)

    assert find_env_file(inner) == folder / ".env.supabase"


def test_the_search_ends_at_the_projects_root(folder: Path) -> None:
    (folder / ".env.supabase").touch()
    project = folder / "project"
    (project / ".git").mkdir(parents=True)

    assert find_env_file(project) is None


def test_outside_a_project_a_parents_file_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / ".env.supabase").touch()
    inner = tmp_path / "inner"
    inner.mkdir()

    assert find_env_file(inner) is None
    assert find_env_file(tmp_path) == tmp_path / ".env.supabase"


def test_a_dollar_sign_in_a_password_survives_the_file(folder: Path) -> None:
    (folder / ".env.supabase").write_text("POSTGRES_HOST=db.internal\nPOSTGRES_PASSWORD='a${HOME}b'\n")

    assert load(folder).require_database_url() == "postgresql://postgres:a%24%7BHOME%7Db@db.internal:5432/postgres"


def test_a_byte_order_mark_does_not_hide_the_first_setting(folder: Path) -> None:
    (folder / ".env.supabase").write_text(f"SUPABASE_URL={URL}\nSUPABASE_SERVICE_ROLE_KEY={SECRET}\n", "utf-8-sig")

    assert load(folder).url == URL


@pytest.mark.parametrize(
    "password", ["hear-your-name", "a<b>c", "a...b", "your-super-secret-and-long-postgres-password"]
)
def test_a_password_may_hold_what_looks_like_a_placeholder(folder: Path, password: str) -> None:
    assert load(folder, POSTGRES_HOST="db", POSTGRES_PASSWORD=password).database_url is not None


def test_a_file_that_is_not_text_is_named(folder: Path) -> None:
    (folder / ".env.supabase").write_bytes(b"SUPABASE_URL=\xff\xfe\n")

    with pytest.raises(SettingsError, match=r"\.env\.supabase: can't be read"):
        load(folder)


def test_the_project_ref_alone_gives_the_url(folder: Path) -> None:
    assert load(folder, SUPABASE_PROJECT_REF=REF, SUPABASE_SERVICE_ROLE_KEY=SECRET).url == URL


@pytest.mark.parametrize(("service", "anon"), [(SECRET, PUBLISHABLE), (SERVICE_JWT, ANON_JWT)])
def test_both_key_generations_work(folder: Path, service: str, anon: str) -> None:
    settings = load(folder, SUPABASE_URL=URL + "/", SUPABASE_SERVICE_ROLE_KEY=service, SUPABASE_ANON_KEY=anon)

    assert settings.url == URL
    assert settings.require_service_role_key() == service
    assert settings.require_anon_key() == anon


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (SECRET, KeyKind.SECRET),
        (PUBLISHABLE, KeyKind.PUBLISHABLE),
        (SERVICE_JWT, KeyKind.SERVICE_ROLE_JWT),
        (ANON_JWT, KeyKind.ANON_JWT),
        (jwt(role="authenticated"), KeyKind.OTHER_JWT),
        ("a.b.c", KeyKind.UNKNOWN),
        ("super-secret-jwt-signing-secret", KeyKind.UNKNOWN),
    ],
)
def test_the_kind_of_a_key_is_recognised(key: str, kind: KeyKind) -> None:
    assert key_kind(key) is kind


def test_special_characters_of_the_database_parts_are_quoted(folder: Path) -> None:
    settings = load(
        folder,
        POSTGRES_HOST="fd00::1",
        POSTGRES_PORT="6543",
        POSTGRES_DB="my db",
        POSTGRES_USER="me@x",
        POSTGRES_PASSWORD="p@ss/w:rd",
    )

    assert settings.require_database_url() == "postgresql://me%40x:p%40ss%2Fw%3Ard@[fd00::1]:6543/my%20db"


def test_a_socket_folder_may_be_the_database_host(folder: Path) -> None:
    settings = load(folder, POSTGRES_HOST="/run/postgresql")

    assert settings.require_database_url() == "postgresql://postgres@/postgres?host=%2Frun%2Fpostgresql&port=5432"


GOOD = {"SUPABASE_URL": URL, "SUPABASE_SERVICE_ROLE_KEY": SECRET}


@pytest.mark.parametrize(
    ("environ", "setting", "told"),
    [
        ({"SUPABASE_URL": URL}, "SUPABASE_SERVICE_ROLE_KEY", "API Keys"),
        ({"SUPABASE_PROJECT_REF": REF}, "SUPABASE_SERVICE_ROLE_KEY", "API Keys"),
        ({"SUPABASE_SERVICE_ROLE_KEY": SECRET}, "SUPABASE_URL", "SUPABASE_PROJECT_REF"),
        ({"SUPABASE_ANON_KEY": PUBLISHABLE}, "SUPABASE_URL", "SUPABASE_ANON_KEY is given"),
        ({**GOOD, "SUPABASE_URL": "abcdefgh"}, "SUPABASE_URL", "not an http(s) URL"),
        ({**GOOD, "SUPABASE_URL": "ftp://x.supabase.co"}, "SUPABASE_URL", "not an http(s) URL"),
        ({**GOOD, "SUPABASE_URL": "https://"}, "SUPABASE_URL", "not an http(s) URL"),
        ({**GOOD, "SUPABASE_URL": "http://localhost:notaport"}, "SUPABASE_URL", "not a URL"),
        ({**GOOD, "SUPABASE_URL": URL + "/rest/v1"}, "SUPABASE_URL", f"use {URL}"),
        ({**GOOD, "SUPABASE_URL": f"https://supabase.com/dashboard/project/{REF}"}, "SUPABASE_URL", f"use {URL}"),
        ({**GOOD, "SUPABASE_URL": "https://me:pw@x.example"}, "SUPABASE_URL", "user or password"),
        ({**GOOD, "SUPABASE_PROJECT_REF": "zyxwvutsrqponmlkjihg"}, "SUPABASE_URL", "SUPABASE_PROJECT_REF says"),
        ({**GOOD, "SUPABASE_PROJECT_REF": URL}, "SUPABASE_PROJECT_REF", "not a project reference"),
        ({**GOOD, "SUPABASE_SERVICE_ROLE_KEY": PUBLISHABLE}, "SUPABASE_SERVICE_ROLE_KEY", "publishable key"),
        ({**GOOD, "SUPABASE_SERVICE_ROLE_KEY": ANON_JWT}, "SUPABASE_SERVICE_ROLE_KEY", "holds the anon key"),
        ({**GOOD, "SUPABASE_ANON_KEY": SECRET}, "SUPABASE_ANON_KEY", "must stay secret"),
        ({**GOOD, "SUPABASE_ANON_KEY": SERVICE_JWT}, "SUPABASE_ANON_KEY", "must stay secret"),
        ({**GOOD, "SUPABASE_SERVICE_ROLE_KEY": "hello"}, "SUPABASE_SERVICE_ROLE_KEY", "not an API key"),
        ({**GOOD, "SUPABASE_SERVICE_ROLE_KEY": SECRET + " x"}, "SUPABASE_SERVICE_ROLE_KEY", "spaces"),
        (
            {**GOOD, "SUPABASE_SERVICE_ROLE_KEY": jwt(role="service_role", exp=1)},
            "SUPABASE_SERVICE_ROLE_KEY",
            "has expired",
        ),
        (
            {**GOOD, "SUPABASE_SERVICE_ROLE_KEY": jwt(role="service_role", ref="otherproject")},
            "SUPABASE_SERVICE_ROLE_KEY",
            "belongs to project otherproject",
        ),
        ({"DATABASE_URL": "mysql://x/y"}, "DATABASE_URL", "not a Postgres URL"),
        ({"DATABASE_URL": "postgresql://postgres:[YOUR-PASSWORD]@db.x.supabase.co/p"}, "DATABASE_URL", "placeholder"),
        ({"POSTGRES_HOST": "db", "POSTGRES_PORT": "many"}, "POSTGRES_PORT", "not a port"),
        ({"OPENMANUS_RL_AUTOSTART": "perhaps"}, "OPENMANUS_RL_AUTOSTART", "use 1 or 0"),
        ({"OPENMANUS_RL_REQUEST_TIMEOUT_SECONDS": "0"}, "OPENMANUS_RL_REQUEST_TIMEOUT_SECONDS", "number of seconds"),
        ({"OPENMANUS_RL_RETRY_LIMIT_SECONDS": "soon"}, "OPENMANUS_RL_RETRY_LIMIT_SECONDS", "number of seconds"),
    ],
)
def test_a_wrong_setting_is_named_with_the_way_out(
    folder: Path, environ: dict[str, str], setting: str, told: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(folder, **environ)

    assert caught.value.setting == setting
    assert setting in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize("name", [name for name in dotenv_values(EXAMPLE) if name])
def test_each_placeholder_of_the_example_file_is_recognised(folder: Path, name: str) -> None:
    placeholder = dotenv_values(EXAMPLE)[name]
    good = {"SUPABASE_URL": "http://127.0.0.1:54321", "SUPABASE_SERVICE_ROLE_KEY": SECRET}

    with pytest.raises(SettingsError, match="placeholder") as caught:
        load(folder, **{**good, name: str(placeholder)})

    assert caught.value.setting == name


@pytest.mark.parametrize("text", ["postgresql://u:hunter2@h:notaport/db", "postgresql://u:hun[ter2@h/db"])
def test_a_broken_database_url_does_not_show_its_password(folder: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(folder, DATABASE_URL=text)

    assert "hun" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_database_alone_is_no_api(folder: Path) -> None:
    settings = load(folder, DATABASE_URL="postgresql://u:p@127.0.0.1:5432/db")

    assert not settings.is_embedded
    assert settings.require_database_url().endswith("/db")
    with pytest.raises(SettingsError, match="SUPABASE_URL is missing"):
        settings.require_url()


def test_a_missing_key_is_asked_for_only_when_it_is_needed(folder: Path) -> None:
    settings = load(folder, SUPABASE_URL=URL, SUPABASE_ANON_KEY=PUBLISHABLE)

    assert settings.require_anon_key() == PUBLISHABLE
    with pytest.raises(SettingsError, match="SUPABASE_SERVICE_ROLE_KEY is missing"):
        settings.require_service_role_key()


def test_no_secret_shows_in_the_settings_text(folder: Path) -> None:
    settings = load(folder, **GOOD, SUPABASE_ANON_KEY=ANON_JWT, DATABASE_URL="postgresql://u:hunter2@h/db")

    shown = repr(settings) + str(settings) + f"{settings}" + str(settings.model_dump()) + settings.model_dump_json()
    assert SECRET not in shown
    assert ANON_JWT not in shown
    assert "hunter2" not in shown


def test_home_and_limits_are_read(folder: Path) -> None:
    settings = load(
        folder, OPENMANUS_RL_HOME="~/elsewhere", OPENMANUS_RL_AUTOSTART="off", OPENMANUS_RL_RETRY_LIMIT_SECONDS="0"
    )

    assert settings.home == Path.home() / "elsewhere"
    assert settings.autostart is False
    assert settings.retry_limit_seconds == 0


# A database alone ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://ada:pw@db.example.org/lab", "postgresql://db.example.org:5432/lab"),
        ("postgres://bob@DB.example.org:5432/lab?sslmode=require", "postgresql://db.example.org:5432/lab"),
        ("postgresql://ada@localhost:6543/lab", "postgresql://127.0.0.1:6543/lab"),
        ("postgresql://ada:p%40w@[::1]:6543/lab", "postgresql://127.0.0.1:6543/lab"),
        ("postgresql://ada@[fe80::2]/lab", "postgresql://[fe80::2]:5432/lab"),
        ("postgresql://ada@/lab?host=/run/postgresql&port=5433", "postgresql://%2Frun%2Fpostgresql:5433/lab"),
        ("postgresql://ada:pw@db.example.org", "postgresql://db.example.org:5432/ada"),
    ],
)
def test_a_database_is_known_by_host_port_and_name_whoever_connects(tmp_path: Path, url: str, address: str) -> None:
    settings = load_settings(environ={"DATABASE_URL": url, "OPENMANUS_RL_HOME": "/home/x"}, directory=tmp_path)
    assert settings.database_address == address
    assert settings.is_external
    assert settings.has_local_stack
    assert settings.stack_home.parent == Path("/home/x/databases")
    assert "pw" not in settings.stack_home.name


def test_databases_that_differ_in_anything_have_folders_that_differ(tmp_path: Path) -> None:
    urls = [f"postgresql://a@{host}:{port}/{name}" for host in ("a-b", "a") for port in (1, 2) for name in ("x", "b-x")]
    homes = {load_settings(environ={"DATABASE_URL": url}, directory=tmp_path).stack_home for url in urls}
    assert len(homes) == len(urls)


def test_beside_a_url_the_database_is_that_projects(tmp_path: Path) -> None:
    environ = {
        "SUPABASE_URL": "http://127.0.0.1:54321",
        "SUPABASE_SERVICE_ROLE_KEY": "sb_secret_" + "x" * 20,
        "DATABASE_URL": "postgresql://a@b/c",
        "OPENMANUS_RL_HOME": "/home/x",
    }
    settings = load_settings(environ=environ, directory=tmp_path)
    assert not settings.is_external
    assert not settings.has_local_stack
    assert settings.stack_home == Path("/home/x")


# Keys of members -----------------------------------------------------------------------------------------------------

MEMBER_KEY = "omrl_" + "k" * 43


def test_a_members_key_and_the_url_are_enough() -> None:
    settings = load_settings(environ={"SUPABASE_URL": URL, "SUPABASE_KEY": MEMBER_KEY}, directory=Path("/"))
    assert settings.require_key() == MEMBER_KEY
    assert not settings.is_embedded
    assert MEMBER_KEY not in repr(settings)
    with pytest.raises(SettingsError, match="a member's key, which does not do"):
        settings.require_service_role_key()


def test_the_one_key_setting_takes_the_secret_key_too_and_gives_way_to_its_own_setting() -> None:
    alone = load_settings(environ={"SUPABASE_URL": URL, "SUPABASE_KEY": SECRET}, directory=Path("/"))
    assert alone.require_service_role_key() == SECRET
    both = load_settings(environ=GOOD | {"SUPABASE_KEY": MEMBER_KEY}, directory=Path("/"))
    assert both.require_key() == SECRET
    assert both.member_key is None


@pytest.mark.parametrize(
    ("environ", "setting", "told"),
    [
        ({"SUPABASE_URL": URL, "SUPABASE_KEY": "sb_publishable_x"}, "SUPABASE_KEY", "keys create"),
        ({"SUPABASE_URL": URL, "SUPABASE_KEY": "omrl_half"}, "SUPABASE_KEY", "keys create"),
        ({"SUPABASE_URL": URL, "SUPABASE_KEY": "nonsense"}, "SUPABASE_KEY", "not an API key"),
        ({"SUPABASE_KEY": MEMBER_KEY}, "SUPABASE_URL", "SUPABASE_KEY is given"),
        ({"SUPABASE_URL": URL, "SUPABASE_SERVICE_ROLE_KEY": MEMBER_KEY}, "SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_KEY"),
        ({"SUPABASE_URL": URL, "SUPABASE_ANON_KEY": MEMBER_KEY}, "SUPABASE_ANON_KEY", "SUPABASE_KEY"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_its_place(environ: dict[str, str], setting: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ=environ, directory=Path("/"))
    assert caught.value.setting == setting
    assert told in str(caught.value)
    assert MEMBER_KEY not in str(caught.value)


def test_with_a_members_key_records_go_through_the_api_whatever_database_is_known() -> None:
    database = {"DATABASE_URL": "postgresql://postgres:pw@db.example.org:5432/postgres"}
    environ = {"SUPABASE_URL": URL, "SUPABASE_KEY": MEMBER_KEY} | database
    settings = load_settings(environ=environ, directory=Path("/"))
    assert find_database_url(settings) is None
    assert Client.connect(settings).database_url is None
    assert find_database_url(load_settings(environ=GOOD | database, directory=Path("/"))) is not None
