"""The settings of S3: read, checked, and handed to the gateway with no more permissions than they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmanus_rl._object_storage import read_object_storage
from openmanus_rl.errors import SettingsError
from openmanus_rl.settings import load_settings

KEYS = {"AWS_ACCESS_KEY_ID": "recorder", "AWS_SECRET_ACCESS_KEY": "a-secret-key"}
GOOD = {"OPENMANUS_RL_STORAGE": "s3://records/lab", **KEYS}


def test_without_the_setting_keys_of_aws_mean_nothing() -> None:
    assert read_object_storage({**KEYS, "AWS_ENDPOINT_URL": "nonsense"}) is None


def test_amazon_itself_needs_a_bucket_and_a_key_only() -> None:
    storage = read_object_storage({**GOOD, "AWS_REGION": "eu-west-1"})
    assert storage is not None
    assert storage.endpoint == "https://s3.eu-west-1.amazonaws.com"
    assert storage.address == "s3.eu-west-1.amazonaws.com:443"
    assert storage.variables["OPENMANUS_RL_STORAGE"] == "s3://records/lab"
    assert "AWS_SESSION_TOKEN" not in storage.variables


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://127.0.0.1:9000/", "127.0.0.1:9000"),
        ("https://minio.example.org", "minio.example.org:443"),
        ("http://[::1]:9000", "[::1]:9000"),
        ("http://minio", "minio:80"),
    ],
)
def test_the_gateway_may_connect_to_the_endpoint_alone(endpoint: str, address: str) -> None:
    storage = read_object_storage({**GOOD, "AWS_ENDPOINT_URL_S3": endpoint, "AWS_ENDPOINT_URL": "https://other"})
    assert storage is not None
    assert storage.address == address


@pytest.mark.parametrize("given", ["s3://records", "s3://records/", "s3://records/lab/", "s3://my.bucket-1/a/b_c.d"])
def test_a_bucket_may_have_a_prefix(given: str) -> None:
    storage = read_object_storage({**GOOD, "OPENMANUS_RL_STORAGE": given})
    assert storage is not None
    assert storage.location == given.rstrip("/")


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"OPENMANUS_RL_STORAGE": "records"}, "OPENMANUS_RL_STORAGE"),
        ({"OPENMANUS_RL_STORAGE": "gs://records"}, "OPENMANUS_RL_STORAGE"),
        ({"OPENMANUS_RL_STORAGE": "s3://"}, "OPENMANUS_RL_STORAGE"),
        ({"OPENMANUS_RL_STORAGE": "s3://Records"}, "OPENMANUS_RL_STORAGE"),
        ({"OPENMANUS_RL_STORAGE": "s3://records/../other"}, "OPENMANUS_RL_STORAGE"),
        ({"OPENMANUS_RL_STORAGE": "s3://records//other"}, "OPENMANUS_RL_STORAGE"),
        ({"OPENMANUS_RL_STORAGE": "s3://records/a b"}, "OPENMANUS_RL_STORAGE"),
        ({"AWS_ENDPOINT_URL_S3": "minio:9000"}, "AWS_ENDPOINT_URL_S3"),
        ({"AWS_ENDPOINT_URL": "http://user:pw@minio"}, "AWS_ENDPOINT_URL"),
        ({"AWS_ENDPOINT_URL_S3": "http://minio:many"}, "AWS_ENDPOINT_URL_S3"),
        ({"AWS_ACCESS_KEY_ID": None}, "AWS_ACCESS_KEY_ID"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_wrong_setting_is_named_with_the_way_out(changes: dict[str, str | None], setting: str) -> None:
    values = {name: value for name, value in (GOOD | changes).items() if value is not None}
    with pytest.raises(SettingsError) as caught:
        read_object_storage(values)
    assert caught.value.setting == setting
    assert caught.value.hint


def test_no_secret_shows_in_its_text(tmp_path: Path) -> None:
    settings = load_settings(environ={**GOOD, "AWS_SESSION_TOKEN": "a-session-token"}, directory=tmp_path)
    assert settings.object_storage is not None
    for text in (repr(settings), str(settings), repr(settings.object_storage)):
        assert "a-secret-key" not in text
        assert "a-session-token" not in text
    assert settings.is_embedded
