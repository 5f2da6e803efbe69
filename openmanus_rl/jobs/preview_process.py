"""Draws an environment: reads its spec as JSON, and writes a PNG. Run by `previews.draw`."""

from __future__ import annotations

import importlib
import os
import sys

import orjson


def main() -> None:
    """Write the picture to the standard output, to which nothing else is printed."""
    output = os.dup(1)
    os.dup2(2, 1)
    spec = orjson.loads(sys.stdin.buffer.read())
    try:
        picture = importlib.import_module("openmanus_rl.environments").preview(spec)
    # Whatever it is, it is the reason why there is no picture.
    except Exception as error:  # noqa: BLE001
        sys.exit(f"{type(error).__name__}: {error}")
    with os.fdopen(output, "wb") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
