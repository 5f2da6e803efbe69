"""Calls functions of validators, in a process of its own: reads calls from standard input, and answers them."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any

from openmanus_rl.verification.calls import Call, Description
from openmanus_rl.verification.functions import Context, finding_of

_METHODS = frozenset(
    {"run", "write_file", "read_file", "put_folder", "request", "database_url", "logs", "check", "close"}
)
_EPISODE_METHODS = frozenset({"reset", "step", "state", "render"})


class _Parent:
    """The process that called."""

    def __init__(self) -> None:
        self._requests = Connection(os.dup(0), writable=False)
        self._answers = Connection(os.dup(1), readable=False)
        # Functions may read and print.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)

    def read(self) -> Any:
        return pickle.loads(self._requests.recv_bytes())

    def send(self, *message: Any) -> None:
        self._answers.send_bytes(pickle.dumps(message))

    def ask(self, path: str, *arguments: Any, **named: Any) -> Any:
        """Return what a method of the sandbox returns."""
        self.send("call", path, arguments, named)
        kind, content = self.read()
        if kind == "raised":
            raise content
        return content


class _Remote:
    """Methods of an object of the process that called."""

    def __init__(self, parent: _Parent, methods: frozenset[str], prefix: str = "") -> None:
        self._parent = parent
        self._methods = methods
        self._prefix = prefix

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._methods:
            raise AttributeError(name)
        return partial(self._parent.ask, self._prefix + name)


class _RemoteSandbox(_Remote):
    """The sandbox of the process that called."""

    def __init__(self, parent: _Parent, description: Description) -> None:
        super().__init__(parent, _METHODS)
        self.kind = description.kind
        self.url = description.url
        self.services = description.services
        self.episode = _Remote(parent, _EPISODE_METHODS, "episode.") if description.has_episode else None


def main() -> None:
    """Answer calls until there are no more."""
    parent = _Parent()
    while True:
        try:
            call: Call = parent.read()
        except EOFError:
            return
        sys.path[:] = call.import_paths
        parent.send("done", finding_of(partial(_run, call, parent), name=call.function, pass_at=call.pass_at))


def _run(call: Call, parent: _Parent) -> Any:
    sandbox: Any = None if call.sandbox is None else _RemoteSandbox(parent, call.sandbox)
    context = Context(sandbox, call.task_files, call.metadata, call.options)
    return _function(call.function)(call.answer, call.expected_answer, context)


def _function(path: str) -> Callable[..., Any]:
    module, _, attribute = path.partition(":")
    found: Callable[..., Any] = attrgetter(attribute)(import_module(module))
    return found


if __name__ == "__main__":
    main()
