"""How the dashboard writes times: none that took some is shown as none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from openmanus_rl.local.assets import find_deno

FORMAT = Path(__file__).parents[2] / "dashboard" / "src" / "view" / "format.ts"


def evaluate(*expressions: str) -> list[str]:
    """Return what expressions give that use the dashboard's own formatting."""
    script = f'import {{ between, duration }} from "{FORMAT.as_uri()}";'
    script += f"console.log(JSON.stringify([{','.join(expressions)}]));"
    command = [find_deno(), "eval", "--no-lock", "--no-config", "--ext=ts", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_times_under_a_millisecond_are_told_in_microseconds_or_as_less() -> None:
    given = [0, 0.0004, 0.0006, 0.25, 0.9996, 1.5, 40, 1500]
    assert evaluate(*(f"duration({each})" for each in given)) == [
        "< 1 ms", "< 1 µs", "1 µs", "250 µs", "1.0 ms", "1.5 ms", "40 ms", "1.5 s",
    ]  # fmt: skip


def test_the_time_between_two_moments_is_exact_to_the_microsecond() -> None:
    first, second = "2026-01-01T00:00:00.123+00:00", "2026-01-01T00:00:00.123456+00:00"
    assert evaluate(
        f'between("{first}", "{second}")',
        f'between("{second}", "{first}")',
        f'duration(between("{first}", "{second}"))',
    ) == [0.456, -0.456, "456 µs"]
