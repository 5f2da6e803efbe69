"""Errors that name the extra to install if the library of an integration is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

__all__ = ["provided_by", "require"]


@contextmanager
def provided_by(extra: str) -> Iterator[None]:
    """Import libraries in this block; for a missing one, the error names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "a library").partition(".")[0]
        message = f'{library} is not installed; run: pip install "openmanus-rl[{extra}]"'
        raise ModuleNotFoundError(message, name=error.name, path=error.path) from error


def require(module: str, *, extra: str) -> ModuleType:
    """Import a library that only some calls need; if it is missing, the error names the extra to install."""
    with provided_by(extra):
        return import_module(module)
