"""A program and a stack of two versions: the message says what to do, not which function is missing."""

from __future__ import annotations

from pathlib import Path

import httpx
import psycopg
import pytest

import openmanus_rl
from openmanus_rl.errors import SchemaMismatch
from openmanus_rl.local import embedded
from openmanus_rl.transport.translate import error_from_exception, error_from_response


def stack_of(version: str) -> embedded.EmbeddedStack:
    return embedded.EmbeddedStack(
        url="http://127.0.0.1:1",
        publishable_key="p",
        secret_key="s",
        database_url="d",
        home=Path("/nowhere"),
        version=version,
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "way_out"),
    [("0.10.0", "0.9.1", "restart the stack"), ("0.9.1", "0.10.0", "pip install --upgrade openmanus-rl")],
)
def test_another_version_is_told_once_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ours: str, theirs: str, way_out: str
) -> None:
    monkeypatch.setattr(openmanus_rl, "__version__", ours)
    monkeypatch.setattr(embedded, "_told", set())
    embedded._warn_about_version(stack_of(theirs))
    embedded._warn_about_version(stack_of(theirs))
    told = capsys.readouterr().err
    assert told.count(way_out) == 1
    assert theirs in told


def test_the_same_version_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    embedded._warn_about_version(stack_of(openmanus_rl.__version__))
    assert capsys.readouterr().err == ""


def test_a_missing_function_over_http_says_to_restart_the_stack() -> None:
    body = {
        "code": "PGRST202",
        "message": "Could not find the function public.run_page(id) in the schema cache",
        "hint": "Perhaps you meant to call the function public.run_pages",
        "details": None,
    }
    request = httpx.Request("POST", "http://127.0.0.1:1/rest/v1/rpc/run_page")
    error = error_from_response(httpx.Response(404, json=body, request=request), "call run_page")
    assert isinstance(error, SchemaMismatch)
    assert "the database is of another version than this program" in error.message
    assert error.hint is not None
    assert "restart the stack" in error.hint


def test_a_missing_function_in_sql_says_to_restart_the_stack() -> None:
    error = error_from_exception(
        psycopg.errors.UndefinedFunction("function public.ingest(jsonb) does not exist"), "load"
    )
    assert isinstance(error, SchemaMismatch)
    assert error.message.startswith("load: the database is of another version than this program")
    assert "restart the stack" in str(error.hint)
