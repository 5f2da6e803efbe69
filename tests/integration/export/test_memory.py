"""However much is exported, memory stays the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# The small one fills a page and a row group.
SMALL_ROLLOUTS = 100
TIMES_AS_MANY = 10
TEXT = "x" * 15_000

PROGRAM = """
import gc, json, sys, tracemalloc
import pyarrow, pyarrow.parquet
from openmanus_rl.export import Selection, export_to_file

kind, small, large = sys.argv[1:4]
report = {}
# Once without measuring: what is imported and cached on the way is no part of it.
export_to_file(kind, sys.argv[4], selection=Selection(run_ids=[small], limit=1))
tracemalloc.start()
for name, run in (("small", small), ("large", large)):
    gc.collect()
    tracemalloc.reset_peak()
    rows = export_to_file(kind, sys.argv[4], selection=Selection(run_ids=[run]), overwrite=True)
    native = pyarrow.default_memory_pool().max_memory() or 0
    report[name] = {"rows": rows, "peak_bytes": tracemalloc.get_traced_memory()[1] + native}
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def runs(run_of: Any) -> tuple[str, str]:
    small = run_of(rollouts=SMALL_ROLLOUTS, text=TEXT)
    large = run_of(rollouts=SMALL_ROLLOUTS * TIMES_AS_MANY, text=TEXT)
    return small["id"], large["id"]


@pytest.mark.parametrize(("kind", "extension"), [("turns", "parquet"), ("chats", "jsonl")])
def test_ten_times_as_much_needs_no_more_memory(
    stack: Any, runs: tuple[str, str], tmp_path: Path, kind: str, extension: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, *runs, str(tmp_path / f"out.{extension}")],
        env=stack.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["large"]["rows"] == TIMES_AS_MANY * report["small"]["rows"]
    # It may hold two pages where the small one had but one; all of it in memory would be seven times as much.
    assert report["large"]["peak_bytes"] < 3 * report["small"]["peak_bytes"]
