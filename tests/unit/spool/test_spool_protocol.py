"""In every order of a writer's and a reader's steps, killed anywhere, each record that was acknowledged arrives."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.spool.writer import SpoolWriter

from .spool_model import LINE_BYTES, Broken, Explorer, record_writer

# How full the disk is when the second of three records comes.
_ROOM = {
    "for none of the second": LINE_BYTES,
    "for its first byte": LINE_BYTES + 1,
    "for all but its last byte": 2 * LINE_BYTES - 1,
}


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    """Keep no log of the thousands of lines that break off."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("batch_bytes", [1, 10**6], ids=["record by record", "all at once"])
@pytest.mark.parametrize("segment_bytes", [1, LINE_BYTES + 1, 10**6], ids=["1 a segment", "2 a segment", "1 segment"])
def test_nothing_is_lost_in_any_order_of_steps(tmp_path: Path, segment_bytes: int, batch_bytes: int) -> None:
    moments = record_writer(tmp_path, records=3, segment_bytes=segment_bytes)
    (folder,) = tmp_path.iterdir()
    explorer = Explorer(moments, folder, batch_bytes=batch_bytes)
    explorer.run()
    assert explorer.rounds > 1000


@pytest.mark.parametrize("failures", [1, 3, 10**6])
@pytest.mark.parametrize("room_bytes", _ROOM.values(), ids=_ROOM)
def test_nothing_is_lost_in_silence_where_the_disk_is_full_meanwhile(
    tmp_path: Path, room_bytes: int, failures: int
) -> None:
    moments = record_writer(tmp_path, records=3, segment_bytes=1, room_bytes=room_bytes, failures=failures)
    assert max(moment.unwritten.in_memory for moment in moments) > 0
    (folder,) = tmp_path.iterdir()
    Explorer(moments, folder, most_kills=1).run()


class LooksAfterwards(SpoolReader):
    """Asks only after reading whether what it read is final."""

    def _look(self, max_bytes: int) -> tuple[bytes, bool, int | None]:
        block = self._segments.read(self._segment, self._offset, max_bytes)
        is_written = self._segments.is_written()
        return block, is_written, self._segments.successor(self._segment)


def test_the_model_finds_a_reader_that_looks_for_the_end_after_reading(tmp_path: Path) -> None:
    moments = record_writer(tmp_path, records=2, segment_bytes=1)
    (folder,) = tmp_path.iterdir()
    with pytest.raises(Broken):
        Explorer(moments, folder, most_kills=0, reader_class=LooksAfterwards).run()
    # In one segment, with no successor, it is the lock that was looked at too late.
    moments = record_writer(tmp_path / "one", records=2, segment_bytes=10**6)
    with pytest.raises(Broken):
        Explorer(moments, folder, most_kills=0, reader_class=LooksAfterwards).run()


class LeavesHalfLines(SpoolWriter):
    """Begins another segment where a line broke off, and writes it there again."""

    def _write(self, number: int, line: bytes) -> None:
        if self._is_in_doubt:
            self._is_in_doubt = False
            self._begin_segment()
        super()._write(number, line)


def test_the_model_finds_a_writer_that_leaves_half_a_line_behind(tmp_path: Path) -> None:
    moments = record_writer(
        tmp_path, records=2, segment_bytes=1, room_bytes=LINE_BYTES + 5, failures=1, writer_class=LeavesHalfLines
    )
    (folder,) = tmp_path.iterdir()
    with pytest.raises(Broken, match="damage is reported"):
        Explorer(moments, folder, most_kills=0).run()


def test_the_model_finds_a_courier_that_saves_its_progress_too_early(tmp_path: Path) -> None:
    moments = record_writer(tmp_path, records=2, segment_bytes=1)
    (folder,) = tmp_path.iterdir()
    with pytest.raises(Broken, match="not stored"):
        Explorer(moments, folder, saves_first=True).run()
