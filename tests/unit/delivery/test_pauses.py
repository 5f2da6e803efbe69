"""A courier pauses between deliveries, however fast a process logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openmanus_rl.delivery.courier import Courier
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.writer import SpoolWriter

_MOST_BATCHES = 50


class Logging:
    """Takes each batch while the process logs one more record."""

    def __init__(self, writer: SpoolWriter) -> None:
        self._writer = writer
        self.batches: list[list[Any]] = []

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        self.batches.append([record["id"] for record in batch["rollouts"]])
        assert len(self.batches) < _MOST_BATCHES, "the delivery does not end while the process logs"
        if not self._writer.is_closed:
            write(self._writer, len(self.batches) + 100)
        return []


def write(writer: SpoolWriter, number: int) -> None:
    writer.append("rollouts", {"id": number})
    while writer.place_behind(writer.last) is None:
        pass


def test_what_is_logged_during_a_delivery_is_left_for_the_next_one(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id=new_id())
    for number in range(3):
        write(writer, number)
    sink = Logging(writer)
    courier = Courier(tmp_path, connect=lambda: sink)
    assert courier.deliver() == 3
    assert sink.batches == [[0, 1, 2]]
    assert courier.deliver() == 1
    assert sink.batches == [[0, 1, 2], [101]]
    writer.close()
    assert courier.deliver() == 1
    assert sink.batches == [[0, 1, 2], [101], [102]]


def test_all_that_was_logged_before_a_delivery_comes_with_it_in_as_many_batches_as_it_takes(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id=new_id(), segment_bytes=200)
    for number in range(20):
        write(writer, number)
    sink = Logging(writer)
    courier = Courier(tmp_path, connect=lambda: sink, batch_bytes=1)
    courier.deliver()
    delivered = [number for batch in sink.batches for number in batch]
    assert delivered[:20] == list(range(20))
    assert len(delivered) <= 21
    courier.close()
    writer.close()


def test_what_a_process_logs_while_it_ends_is_delivered_to_the_last_record(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id=new_id())
    write(writer, 0)

    class Closing(Logging):
        def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
            answer = super().load(batch)
            writer.close()
            return answer

    sink = Closing(writer)
    Courier(tmp_path, connect=lambda: sink).deliver()
    assert sink.batches == [[0], [101]]
