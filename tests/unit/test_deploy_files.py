"""The files of `deploy/` say what the programs that read them, and `openmanus-rl serve`, understand."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from openmanus_rl.local.serving import Serving

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    text = (DEPLOY / "openmanus-rl.service").read_text()
    (tmp_path / "openmanus-rl.service").write_text(text.replace("/opt/openmanus-rl/bin/openmanus-rl", "/bin/true"))
    command = ["systemd-analyze", "verify", str(tmp_path / "openmanus-rl.service")]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "openmanus-rl.service:" not in said


def test_the_options_that_they_give_are_those_of_serve() -> None:
    unit = (DEPLOY / "openmanus-rl.service").read_text()
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["server"]["command"]
    image = next(line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line.startswith("CMD ["))
    for words in (shlex.split(line)[1:], compose, yaml.safe_load(image.removeprefix("CMD "))):
        assert words[0] == "serve"
        options = dict(zip(words[1::2], words[2::2], strict=True))
        assert options.keys() <= {"--public-url", "--host", "--trusted-proxy"}
        url = options["--public-url"].split("${")[0] + ("rl.example.org" if "${" in options["--public-url"] else "")
        proxies = [options["--trusted-proxy"]] if "--trusted-proxy" in options else []
        Serving.checked(url, host=options.get("--host", "127.0.0.1"), trusted_proxies=proxies)


def test_no_key_of_the_checkout_gets_into_the_build_of_the_image() -> None:
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    kept_out = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    secret = {name for name in ignored if name.startswith(".env")}
    assert secret
    assert secret <= {name.removeprefix("**/") for name in kept_out}


def test_the_container_is_given_the_settings_of_the_file_that_the_compose_file_names() -> None:
    server = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["server"]
    assert server["env_file"] == [{"path": ".env", "required": False}]
    assert "environment" not in server, "it would override the file, also with nothing"
