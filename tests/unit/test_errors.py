"""The error tree: what is transient, what is said, and what never is."""

from __future__ import annotations

import pickle

import pytest

from openmanus_rl import errors

ALL_CLASSES = [
    value
    for name in errors.__all__
    if isinstance(value := getattr(errors, name), type) and issubclass(value, errors.OpenManusError)
]


@pytest.mark.parametrize("cls", ALL_CLASSES)
def test_exactly_the_transient_branch_is_transient(cls: type[errors.OpenManusError]) -> None:
    assert cls.transient is issubclass(cls, errors.TransientError)


@pytest.mark.parametrize("cls", ALL_CLASSES)
def test_every_error_crosses_a_process_boundary(cls: type[errors.OpenManusError]) -> None:
    copy = pickle.loads(pickle.dumps(cls("run 7f3a: refused", hint="try another")))

    assert type(copy) is cls
    assert str(copy) == "run 7f3a: refused; try another"


@pytest.mark.parametrize("cls", ALL_CLASSES)
def test_the_drawn_tree_names_every_class(cls: type[errors.OpenManusError]) -> None:
    assert errors.__doc__ is not None
    assert f" {cls.__name__}" in errors.__doc__


def test_the_way_out_follows_the_message() -> None:
    error = errors.TransitionError("run 7f3a: cannot go from completed to running", hint="create a new run")

    assert str(error) == "run 7f3a: cannot go from completed to running; create a new run"
    assert error.as_dict() == {
        "error": {
            "code": "bad_transition",
            "message": "run 7f3a: cannot go from completed to running",
            "details": None,
        }
    }


def test_a_transient_error_tells_how_long_it_was_tried() -> None:
    error = errors.ServerError("select from rollouts: the server failed")
    error.note_attempts(4, elapsed_seconds=12.34)

    assert "gave up after 4 attempts in 12.3 s" in str(error)


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("abcDEF123", "key sb_secret_abcDEF123 refused"),
        (JWT, f"token {JWT} expired"),
        ("hunter2", "could not connect to postgresql://postgres:hunter2@db.example:5432/postgres"),
        ("p@ss:w", "could not connect to postgres://u:p@ss:w@db.example/postgres"),
        ("ghp_abc", "fetch main of https://ghp_abc@git.example/a"),
        ("hunter2", "connection failed: host=x password=hunter2 user=y"),
        ("opaque-token-1234", "header Authorization: Bearer opaque-token-1234"),
        ("abc.def", "see https://x.example/object/sign/a?token=abc.def"),
    ],
)
def test_no_secret_shows_in_any_part_of_an_error(secret: str, text: str) -> None:
    error = errors.ServerError(text, details={"request": [text]}, hint=text)

    assert secret not in str(error) + repr(error) + str(error.as_dict()) + str(error.args)
