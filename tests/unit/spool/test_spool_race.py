"""A writer and a reader race over thousands of changes of segment: every record arrives once, and none is damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.spool.files import Position, segment_path
from openmanus_rl.spool.segments import Segments
from openmanus_rl.spool.spools import find_spools

# A reader sees parts of what is large.
_WRITER = """
import random, sys
from pathlib import Path
from openmanus_rl.spool.writer import SpoolWriter
root, records, segment_bytes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(1)
texts = ["y" * int(10 ** chance.uniform(2, 5.6)) for _ in range(50)]
writer = SpoolWriter(root, url="x", run_id="x", segment_bytes=segment_bytes)
for number in range(records):
    writer.append("rollouts", {"id": number, "text": texts[number % 50]})
writer.close()
"""


@pytest.mark.parametrize(("records", "segment_bytes"), [(2500, 1), (1500, 200_000)])
def test_no_record_is_lost_where_the_reader_runs_along_with_the_writer(
    tmp_path: Path, records: int, segment_bytes: int
) -> None:
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), str(records), str(segment_bytes)])
    try:
        ids, damaged = _read_along(tmp_path, process)
    finally:
        process.kill()
        process.wait()
    assert ids == list(range(records))
    assert damaged == 0


def _read_along(root: Path, process: subprocess.Popen[bytes]) -> tuple[list[int], int]:
    while not (spools := list(find_spools(root))):
        assert process.poll() is None
    reader = SpoolReader(spools[0].folder, Position(1, 0))
    segments = Segments(spools[0].folder)
    ids: list[int] = []
    damaged, first = 0, 1
    while True:
        is_written = segments.is_written()
        batch = reader.read(1024 * 1024)
        if batch is None:
            if is_written:
                continue
            return ids, damaged
        ids += [record["id"] for record in batch.records.get("rollouts", ())]
        damaged += batch.damaged
        while first < batch.end.segment:
            segment_path(spools[0].folder, first).unlink(missing_ok=True)
            first += 1
