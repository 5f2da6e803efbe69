"""Parameters of sweeps as they are written on the command line, and files that ask for sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from openmanus_rl.cli.sweep_requests import read_parameters, read_request
from openmanus_rl.errors import InvalidInput, LocalFileError


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("lr=1e-5..1e-2:log", {"min": 1e-5, "max": 1e-2, "log": True}),
        ("lr=-1..+.5", {"min": -1, "max": 0.5}),
        ("n=1..9:integer", {"min": 1, "max": 9, "integer": True}),
        ("n=1..9:integer:step=2", {"min": 1, "max": 9, "integer": True, "step": 2}),
        ("gamma=0.9..0.99:step=0.01", {"min": 0.9, "max": 0.99, "step": 0.01}),
        ("n=64,128", {"values": [64, 128]}),
        ("net=small,large", {"values": ["small", "large"]}),
        ("flag=true,false,null", {"values": [True, False, None]}),
        ("net=[[64, 64], [256]]", {"values": [[64, 64], [256]]}),
        ('net=["a,b", "c"]', {"values": ["a,b", "c"]}),
        ("λ=é", {"values": ["é"]}),
        ("version=1.2..x", {"values": ["1.2..x"]}),
        ("x=NaN,1", {"values": ["NaN", 1]}),
        ("equation=a=b", {"values": ["a=b"]}),
    ],
)
def test_a_parameter_is_read(text: str, given: dict[str, Any]) -> None:
    assert list(read_parameters([text]).values()) == [given]


@pytest.mark.parametrize("text", ["lr", "=1", "lr=", "lr=1..2:cubic", "lr=1..2:step=x", "lr=1..2:"])
def test_what_is_no_parameter_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        read_parameters([text])


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="lr is given twice"):
        read_parameters(["lr=1,2", "lr=3"])


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("a.toml", "space = 3", "space"),
        ("a.toml", "colour = 'red'", "colour"),
        ("a.toml", "= nothing", "file"),
        ("a.json", "[]", "file"),
        ("a.json", "{", "file"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path: Path, name: str, text: str, field: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(InvalidInput) as caught:
        read_request(tmp_path / name)
    assert caught.value.field == field


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalFileError, match=r"missing\.toml"):
        read_request(tmp_path / "missing.toml")
