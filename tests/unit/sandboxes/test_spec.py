"""Specs of environments are checked before anything is started, and errors name the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmanus_rl.errors import InvalidInput, NotFoundError
from openmanus_rl.sandboxes.spec import DockerSpec, OpenEnvSpec, included_spec, parse_spec


def web(**service: Any) -> dict[str, Any]:
    return {"kind": "docker", "services": {"web": {"image": "debian", **service}}}


def process(**service: Any) -> dict[str, Any]:
    return {"kind": "process", "services": {"web": {"command": "true", **service}}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "kind"),
        ({"kind": "podman"}, "kind"),
        ({"kind": ["docker"]}, "kind"),
        ({"kind": "none", "services": {}}, "services"),
        ({"kind": "none", "url": "javascript:alert(1)"}, "url"),
        ({"kind": "docker"}, "services"),
        ({"kind": "docker", "services": {}}, "services"),
        ({"kind": "docker", "services": {"../../x": {"image": "a"}}}, "services.../../x"),
        ({"kind": "docker", "services": {"Web": {"image": "a"}}}, "services.Web"),
        (web(health={"http": "/", "timeout_seconds": -1}, port=80), "services.web.health.timeout_seconds"),
        (web(health={"http": "/", "interval_seconds": "soon"}, port=80), "services.web.health.interval_seconds"),
        (web(health={"http": "/", "tcp": True}, port=80), "services.web.health"),
        (web(health={"http": "health"}, port=80), "services.web.health.http"),
        (web(health={"http": "/\r\nX: y"}, port=80), "services.web.health.http"),
        (web(health={"tcp": True}), "services.web"),
        (web(build="folder"), "services.web"),
        (web(image=None, build="../secrets"), "services.web.build"),
        (web(image="--privileged x"), "services.web.image"),
        (web(port=0), "services.web.port"),
        (web(port=70000), "services.web.port"),
        (web(privileged=True), "services.web.privileged"),
        (web(volumes=["/:/host"]), "services.web.volumes"),
        (web(command=[]), "services.web.command"),
        (web(command=["a", 1]), "services.web.command"),
        (web(command="a\0b"), "services.web.command.2"),
        (web(command="true", idle=True), "services.web"),
        (web(environment={"A": 1}), "services.web.environment.A"),
        (web(environment={"A=B": "c"}), "services.web.environment.A=B"),
        (web(files={"etc/x": {"text": ""}}), "services.web.files.etc/x"),
        (web(files={"/a/../../x": {"text": ""}}), "services.web.files./a/../../x"),
        (web(files={"/x": {"path": "/etc/shadow"}}), "services.web.files./x.path"),
        (web(files={"/x": {"path": "../../etc/shadow"}}), "services.web.files./x.path"),
        (web(files={"/x": {"text": "a", "base64": "YQ=="}}), "services.web.files./x"),
        (web(files={"/x": {"base64": "*"}}), "services.web.files./x.base64"),
        (web(files={"/x": {"text": "", "mode": "4755"}}), "services.web.files./x.mode"),
        (web(resources={"memory": "lots"}), "services.web.resources.memory"),
        (web(resources={"memory": 5}), "services.web.resources.memory"),
        (web(resources={"cpus": float("inf")}), "services.web.resources.cpus"),
        (web(resources={"pids": 0}), "services.web.resources.pids"),
        (web(load=[{"sql": {"text": "select 1"}}]), "services.web"),
        (web(load=[{}]), "services.web.load.0"),
        (web(depends_on=["web"]), "depends_on"),
        (web(depends_on=["gone"]), "depends_on"),
        (web() | {"main": "gone"}, "main"),
        (web(port=80) | {"url": "http://db/"}, "url"),
        (web(port=80) | {"url": "http://web:81/"}, "url"),
        (web(port=80) | {"url": "http://web:99999/"}, "url"),
        (web(port=80) | {"url": "ftp://web/"}, "url"),
        (web() | {"url": "http://web/"}, "url"),
        (web() | {"network": "host"}, "network"),
        (process(files={"../x": {"text": ""}}), "services.web.files.../x"),
        (process(image="a"), "services.web.image"),
        (process(listens=False) | {"url": "http://web/"}, "url"),
        ({"kind": "openenv"}, "spec"),
        ({"kind": "openenv", "url": "http://a", "image": "b"}, "spec"),
        ({"kind": "openenv", "url": "ws://a"}, "url"),
        ({"kind": "gymnasium"}, "spec"),
        ({"kind": "gymnasium", "entry_point": "os.system"}, "entry_point"),
        ({"kind": "gymnasium", "id": "CartPole-v1", "seed": -1}, "seed"),
    ],
)
def test_a_wrong_field_is_named(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(spec)

    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"services.web.port: .*services.web.resources.cpus: "):
        parse_spec(web(port=0, resources={"cpus": 0}))


def test_values_are_not_repeated_in_errors() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(web(environment={"KEY": ["sk-secret"]}))

    assert "sk-secret" not in str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ),
    st.sampled_from(
        [
            "services",
            "url",
            "main",
            "network",
            "image",
            "command",
            "id",
            "arguments",
            "reset",
            "wrappers",
            "map",
            "legend",
            "size",
            "walls",
            "objects",
        ]
    ),
    st.sampled_from(["none", "process", "docker", "openenv", "gymnasium", "grid"]),
)
@settings(deadline=None)
def test_whatever_is_given_is_a_spec_or_an_error_that_names_a_field(value: Any, field: str, kind: str) -> None:
    field_at_fault: str | None = "none"
    try:
        parse_spec({"kind": kind, field: value})
    except InvalidInput as error:
        field_at_fault = error.field

    assert field_at_fault


def test_sizes_are_read_with_their_unit() -> None:
    spec = parse_spec(web(resources={"memory": "512m", "disk": "1.5 GiB", "pids": 5}))

    assert isinstance(spec, DockerSpec)
    limits = spec.services["web"].resources
    assert (limits.memory, limits.disk, limits.pids) == (512 * 1024**2, 3 * 512 * 1024**2, 5)


def test_services_start_after_those_that_they_depend_on_whatever_the_order_of_keys() -> None:
    services = {
        "a": {"image": "x", "depends_on": ["b", "c"]},
        "b": {"image": "x", "depends_on": ["c"]},
        "c": {"image": "x"},
    }
    for names in (list(services), list(reversed(services))):
        spec = parse_spec({"kind": "docker", "services": {name: services[name] for name in names}})
        assert isinstance(spec, DockerSpec)
        assert spec.start_order() == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("services", "more", "main"),
    [
        (["web"], {}, "web"),
        (["web", "main"], {}, "main"),
        (["web", "db"], {"main": "db"}, "db"),
        (["web", "db"], {"url": "http://web/"}, "web"),
        (["web", "db"], {}, None),
    ],
)
def test_the_main_service_is_found(services: list[str], more: dict[str, Any], main: str | None) -> None:
    spec = parse_spec({"kind": "docker", "services": {name: {"image": "x", "port": 80} for name in services}} | more)

    assert isinstance(spec, DockerSpec)
    assert spec.main_service == main


def test_the_included_metabase_is_a_postgres_with_a_dump_and_metabase_in_front() -> None:
    spec = included_spec("metabase")

    assert isinstance(spec, DockerSpec)
    assert spec.start_order() == ["postgres", "metabase"]
    assert spec.url == "http://metabase:3000/"
    assert spec.network == "none"
    assert [step.sql is not None for step in spec.services["postgres"].load] == [True, False]
    health = spec.services["metabase"].health
    assert health is not None
    assert health.http == "/api/health"


def test_an_included_spec_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFoundError, match="metabase"):
        included_spec("../../pyproject")


def test_every_example_of_the_documentation_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "environments.md").read_text()
    examples = [json.loads(block.partition("```")[0]) for block in page.split("```json\n")[1:]]

    assert {parse_spec(example).kind for example in examples} == {"none", "process", "docker", "openenv", "gymnasium"}


def test_openenv_needs_a_url_an_image_a_folder_or_a_command() -> None:
    for place in ({"url": "https://x.example"}, {"image": "x"}, {"build": "."}, {"command": "serve"}):
        assert isinstance(parse_spec({"kind": "openenv", **place}), OpenEnvSpec)
