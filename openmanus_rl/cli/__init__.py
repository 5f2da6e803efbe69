"""The command `openmanus-rl`."""

from openmanus_rl.cli.app import app, main

__all__ = ["app", "main"]
