"""The flight recorder of agentic RL: every run, rollout, turn and reward in one Postgres on Supabase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # From its own module: within the package `recorder.init` is that module to type checkers, not the function.
    from openmanus_rl.recorder.init import init

__all__ = ["__version__", "init"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Loaded when it is used: the command line must not wait for the recorder.
    if name == "init":
        from openmanus_rl.recorder import init

        return init
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
