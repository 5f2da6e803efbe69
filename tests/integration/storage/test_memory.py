"""Large files: moved in pieces, never held."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from openmanus_rl.managers.storage import StorageManager

SIZE_BYTES = 300 * 1024 * 1024
# A few pieces, buffers of the connection and what the allocator keeps.
ALLOWED_GROWTH_BYTES = 40 * 1024 * 1024

PROGRAM = """
import json, pathlib, psutil, sys
from openmanus_rl.utils.supabase_storage import StorageManager

process = psutil.Process()
run_id, small, large, target = sys.argv[1:]
StorageManager.upload_checkpoint(run_id, 0, small)
before = process.memory_info().rss
highest = before
calls = 0

def measure(moved, total):
    global highest, calls
    highest = max(highest, process.memory_info().rss)
    calls += 1

path = StorageManager.upload_checkpoint(run_id, 1, large, on_progress=measure)
StorageManager.download_file("model-checkpoints", path, target, on_progress=measure)
print(json.dumps({"grown_bytes": highest - before, "calls": calls, "path": path}))
"""


def test_moving_300_mb_does_not_grow_the_process_by_it(
    stack: Any, manager: type[StorageManager], run_id: str, tmp_path: Path
) -> None:
    small, large, target = tmp_path / "small.pt", tmp_path / "large.pt", tmp_path / "back.pt"
    small.write_bytes(b"small")
    with large.open("wb") as opened:
        opened.truncate(SIZE_BYTES)
    arguments = [run_id, str(small), str(large), str(target)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=stack.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["calls"] >= 2 * SIZE_BYTES // (16 * 1024 * 1024)
        assert manager.get_file("model-checkpoints", report["path"])["size_bytes"] == SIZE_BYTES
        assert target.stat().st_size == SIZE_BYTES
        assert report["grown_bytes"] < ALLOWED_GROWTH_BYTES
    finally:
        target.unlink(missing_ok=True)
        manager.delete_files("model-checkpoints", [f"{run_id}/checkpoint_1.pt"])
